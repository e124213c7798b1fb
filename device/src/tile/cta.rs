//! A CTA as its kernel sees it: what it allocates.

use core::marker::PhantomData;

use super::{
    Accumulates, ColumnsLayout, Element, InPlace, Output, OutputColumns, OutputLayout, Pipeline, Ring,
    Schedule, Scratch, SharedTile, SplitK, StreamK, StreamOrder, Turns, split_k_bytes,
};
use crate::arch::shared::dynamic_shared;
use crate::arch::special::{dynamic_shared_bytes, thread_x, trap};

/// Alignment of every tile: the swizzle's pattern repeats over 1024 bytes.
const TILE_ALIGN: u32 = 1024;

/// A CTA that runs a kernel's body on schedule `P`, and hands out its shared memory.
///
/// Shared memory is handed out front to back in the order of the calls. A kernel that takes more than it
/// was launched with (`shared = …` of `#[kernel]`) traps at its start.
pub struct Cta<P> {
    base: u32,
    used: u32,
    pipelines: u32,
    schedule: PhantomData<P>,
}

impl<P: Schedule> Cta<P> {
    /// The CTA that runs this body. Call it once, first.
    #[inline(always)]
    pub fn enter() -> Self {
        Cta { base: dynamic_shared(), used: 0, pipelines: 0, schedule: PhantomData }
    }

    #[inline(always)]
    pub(super) fn take(&mut self, bytes: u32, align: u32) -> u32 {
        let begin = self.used.next_multiple_of(align);
        self.used = begin + bytes;
        if self.used > dynamic_shared_bytes() {
            trap();
        }
        self.base + begin
    }

    /// `N` tiles of type `S`, one a stage.
    #[inline(always)]
    pub fn alloc<S: SharedTile, const N: usize>(&mut self) -> Ring<S, N> {
        Ring { base: self.take(S::bytes() * N as u32, TILE_ALIGN), tile: PhantomData }
    }

    /// One tile of type `S` that fragments are copied to, for other threads to read.
    #[inline(always)]
    pub fn scratch<S: SharedTile>(&mut self) -> Scratch<P, S> {
        Scratch::new(self.take(S::bytes(), TILE_ALIGN))
    }

    /// The staging buffers through which an `M` x `N` fragment of `T` is stored.
    #[inline(always)]
    pub fn output<T, const M: usize, const N: usize, L>(&mut self) -> Output<T, M, N, L>
    where
        T: Element,
        L: Accumulates<M, N> + OutputLayout<M, N>,
    {
        Output::new(self.take(L::STAGING_BYTES, TILE_ALIGN))
    }

    /// The staging buffers through which an `M` x `N` fragment of `T` is stored to a column-major tensor.
    #[inline(always)]
    pub fn output_columns<T, const M: usize, const N: usize, L>(&mut self) -> OutputColumns<T, M, N, L>
    where
        T: Element,
        L: ColumnsLayout<M, N>,
    {
        OutputColumns::new(self.take(L::STAGING_BYTES, TILE_ALIGN))
    }

    /// This CTA's share in a tile whose depth is divided among the `SPLIT` CTAs of its cluster.
    #[inline(always)]
    pub fn split_k<const M: usize, const N: usize, L, const SPLIT: usize>(&mut self) -> SplitK<M, N, L, SPLIT>
    where
        L: Accumulates<M, N>,
    {
        let base = self.take(split_k_bytes(M, N, SPLIT, L::THREADS), 16);
        // SAFETY: the memory was just taken, by every role of every CTA in the same way.
        unsafe { SplitK::open(base) }
    }

    /// This CTA's parts of the tiles of an output.
    #[inline(always)]
    pub fn stream_k(&self, order: InPlace<StreamOrder>) -> StreamK<P> {
        StreamK::new(order)
    }

    /// The order in which the warpgroups that compute take turns.
    #[inline(always)]
    pub fn turns(&self) -> Turns<P> {
        Turns::new()
    }

    /// Whether this thread computes, and does not only load.
    #[inline(always)]
    pub fn computes(&self) -> bool {
        thread_x() < P::CONSUMERS
    }

    /// A ring of `N` stages, which all roles of the CTA now wait for.
    ///
    /// Also waits for the kernels that this one was launched to overlap (programmatic dependent
    /// launch): make it before the first access to global memory.
    #[inline(always)]
    pub fn pipeline<const N: usize>(&mut self) -> Pipeline<P, N> {
        self.open_pipeline()
    }

    /// A ring of `N` stages of which each warpgroup fills and leaves its own rows by itself.
    #[inline(always)]
    pub fn pipeline_by_warpgroup<const N: usize>(&mut self) -> Pipeline<P, N, true> {
        self.open_pipeline()
    }

    #[inline(always)]
    fn open_pipeline<const N: usize, const PARTED: bool>(&mut self) -> Pipeline<P, N, PARTED> {
        let base = self.take(P::STAGE_BYTES * N as u32 * Pipeline::<P, N, PARTED>::PARTS, 8);
        // SAFETY: the memory was just taken, by every role in the same way.
        unsafe { P::open::<N, PARTED>(base) };
        self.pipelines += 1;
        Pipeline::new(base, self.pipelines - 1)
    }
}
