//! The pipelined loop: loads run ahead of computation by the stages of a ring.

use core::marker::PhantomData;
use core::ops::Range;

use super::{Accumulator, Fill, Full, Loads, Schedule};
use crate::arch::special::thread_x;
use crate::arch::warp::uniform;

/// A ring of `N` stages on schedule `P`, with its position, which goes on from loop to loop.
///
/// If it is `PARTED`, each warpgroup that computes has its part of every stage: the rows that are its own by a FullRow policy.
pub struct Pipeline<P, const N: usize, const PARTED: bool = false> {
    pub(super) base: u32,
    /// Which of the CTA's pipelines it is.
    pub(super) index: u32,
    pub(super) stage: u32,
    pub(super) phase: u32,
    /// The position of the next load where who computes also loads.
    pub(super) ahead: (u32, u32),
    schedule: PhantomData<P>,
}

impl<P: Schedule, const N: usize, const PARTED: bool> Pipeline<P, N, PARTED> {
    /// Parts of a stage that are filled and left by themselves.
    pub(super) const PARTS: u32 = if PARTED { P::WARPGROUPS } else { 1 };

    #[inline(always)]
    pub(super) fn new(base: u32, index: u32) -> Self {
        const { assert!(N >= 1, "a pipeline has stages") };
        Pipeline { base, index, stage: 0, phase: 0, ahead: (0, 0), schedule: PhantomData }
    }

    /// The barrier of `part` that completes when the current stage is full.
    #[inline(always)]
    pub(super) fn full_part(&self, part: u32) -> u32 {
        self.base + (self.stage * Self::PARTS + part) * 8
    }
    /// The barrier of `part` that completes when the consumers have left `stage`.
    #[inline(always)]
    pub(super) fn empty_part(&self, stage: u32, part: u32) -> u32 {
        self.base + ((N as u32 + stage) * Self::PARTS + part) * 8
    }
    /// The part that this thread computes with.
    #[inline(always)]
    pub(super) fn own_part(&self) -> u32 {
        if Self::PARTS == 1 { 0 } else { uniform(thread_x() / 128) }
    }

    /// What is loaded from here on is asked for behind all accesses of the threads that compute until here: where a producer
    /// loads, both meet. For the beginning of a kernel.
    #[inline(always)]
    pub fn follow(&mut self) {
        // SAFETY: all roles execute it.
        unsafe { P::follow(self) }
    }

    /// Loads a stage for each of `steps`, in order; who computes takes them one after the other.
    #[inline(always)]
    pub fn loads<I, F>(&mut self, steps: I, load: F) -> Loads<'_, P, N, PARTED, I, F>
    where
        I: Iterator<Item = u32>,
        F: for<'s> FnMut(Fill<'s, P, N>, u32),
    {
        let mut loads = Loads { pipeline: self, steps, load };
        // SAFETY: all roles make it; stages are acquired through it.
        unsafe { P::begin(loads.pipeline, &mut loads.steps, &mut loads.load) };
        loads
    }

    /// The barrier that completes when the current stage is full.
    #[inline(always)]
    pub(super) fn full(&self) -> u32 {
        self.full_part(self.own_part())
    }
    /// The barrier that completes when the consumers have left `stage`.
    #[inline(always)]
    pub(super) fn empty(&self, stage: u32) -> u32 {
        self.empty_part(stage, self.own_part())
    }
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.stage += 1;
        if self.stage == N as u32 {
            self.stage = 0;
            self.phase ^= 1;
        }
    }
}

impl<P: Schedule, const N: usize> Pipeline<P, N> {
    /// For each k of `steps`: `load(stage, k)` fills a stage, `compute(d, stage, k)` reads it when it is full.
    ///
    /// Loads run up to `N - 1` steps ahead; one step's gemms run while the next step is issued. Returns
    /// the accumulator when all its gemms are done.
    #[inline(always)]
    pub fn run<D: Accumulator>(
        &mut self,
        steps: Range<u32>,
        d: D,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        compute: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
    ) -> D {
        P::run_pipeline(self, steps, d, load, compute)
    }
}
