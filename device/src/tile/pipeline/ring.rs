//! A ring of stages and the position in it.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::arch::warp::uniform;
use crate::tile::cta::collective::Collective;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::shared::{Fill, Full};

/// A ring of `N` stages on schedule `P`, with its position, which goes on from loop to loop.
///
/// If it is `PARTED`, each warpgroup that computes has its part of every stage: the rows that are its own by a FullRow policy.
pub struct Pipeline<P, const N: usize, const PARTED: bool = false> {
    pub(in crate::tile) base: u32,
    /// Which of the CTA's pipelines it is.
    pub(in crate::tile) index: u32,
    pub(in crate::tile) stage: u32,
    pub(in crate::tile) phase: u32,
    /// The position of the next load where who computes also loads.
    pub(in crate::tile) ahead: (u32, u32),
    schedule: PhantomData<P>,
}

impl<P: Collective, const N: usize, const PARTED: bool> Pipeline<P, N, PARTED> {
    /// Parts of a stage that are filled and left by themselves.
    pub(in crate::tile) const PARTS: u32 = if PARTED { P::WARPGROUPS } else { 1 };

    #[inline(always)]
    pub(in crate::tile) fn new(base: u32, index: u32) -> Self {
        const { assert!(N >= 1, "a pipeline has stages") };
        Pipeline { base, index, stage: 0, phase: 0, ahead: (0, 0), schedule: PhantomData }
    }

    /// The barrier of `part` that completes when the current stage is full.
    #[inline(always)]
    pub(in crate::tile) fn full_part(&self, part: u32) -> u32 {
        self.base + (self.stage * Self::PARTS + part) * 8
    }
    /// The barrier of `part` that completes when the consumers have left `stage`.
    #[inline(always)]
    pub(in crate::tile) fn empty_part(&self, stage: u32, part: u32) -> u32 {
        self.base + ((N as u32 + stage) * Self::PARTS + part) * 8
    }
    /// The part that this thread computes with.
    #[inline(always)]
    pub(in crate::tile) fn own_part(&self) -> u32 {
        if Self::PARTS == 1 { 0 } else { uniform(thread_x() / 128) }
    }

    /// The barrier that completes when the current stage is full.
    #[inline(always)]
    pub(in crate::tile) fn full(&self) -> u32 {
        self.full_part(self.own_part())
    }
    /// The barrier that completes when the consumers have left `stage`.
    #[inline(always)]
    pub(in crate::tile) fn empty(&self, stage: u32) -> u32 {
        self.empty_part(stage, self.own_part())
    }
    /// A stage of this pipeline, to be filled.
    #[inline(always)]
    pub(in crate::tile) fn fill<'s>(&self, stage: u32, ticket: P::Ticket) -> Fill<'s, P, N>
    where
        P: Loader,
    {
        Fill { stage, pipeline: Some(self.index), ticket, turn: PhantomData }
    }
    /// The current stage, which is full.
    #[inline(always)]
    pub(in crate::tile) fn read<'s>(&self) -> Full<'s, N> {
        Full { stage: self.stage, pipeline: Some(self.index), turn: PhantomData }
    }
    /// Leaves `steps` steps out, which are others'.
    #[inline(always)]
    pub(in crate::tile) fn pass_by(&mut self, steps: u32) {
        let to = self.stage + steps;
        self.stage = to % N as u32;
        self.phase ^= (to / N as u32) & 1;
    }
    #[inline(always)]
    pub(in crate::tile) fn advance(&mut self) {
        self.stage += 1;
        if self.stage == N as u32 {
            self.stage = 0;
            self.phase ^= 1;
        }
    }
}
