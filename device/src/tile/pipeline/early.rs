//! Tiles that are loaded before the preceding grid has ended.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::arch::{mbarrier, sync};
use crate::layout::{Element, Major, SharedLayout};
use crate::tile::cta::Cta;
use crate::tile::memory::copy_to::copy;
use crate::tile::memory::global::Global;
use crate::tile::memory::in_place::InPlace;
use crate::tile::memory::shared::{Fill, Ring, Shared};
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::pipeline::schedule::Schedule;
use crate::tile::scheduler::raster::{Raster, RasterOrder};
use crate::tile::scheduler::split_k::SplitK;

/// Barriers of the first stages' left tiles, which are on their way while the preceding grid ends: a pipeline's own loads then leave them out.
///
/// For operands that no kernel writes which may still run, weights for the most part (PTX ISA, griddepcontrol).
#[derive(Clone, Copy)]
pub struct Early<P, const STAGES: usize, const SPLIT: usize> {
    base: u32,
    wanted: bool,
    schedule: PhantomData<P>,
}

impl<P: Schedule, const STAGES: usize, const SPLIT: usize> Early<P, STAGES, SPLIT> {
    /// Makes the barriers where a kernel `streams` A, of clusters, whose CTAs meet before they use them: see [`SplitK`]. Nothing is early
    /// unless A is `constant`.
    #[inline(always)]
    pub fn open(cta: &mut Cta<P>, streams: bool, constant: InPlace<u32>) -> Self {
        let base = if streams { cta.reserve(8 * STAGES as u32, 8) } else { 0 };
        let wanted = streams && constant.get() != 0;
        if wanted && thread_x() == 0 {
            let mut stage = 0;
            while stage < STAGES as u32 {
                // SAFETY: the memory was just taken; nobody uses the barriers before all threads met.
                unsafe { mbarrier::init(base + stage * 8, 1) };
                stage += 1;
            }
            // SAFETY: no operands.
            unsafe { sync::fence_mbarrier_init() };
        }
        Early { base, wanted, schedule: PhantomData }
    }

    /// Begins to load A's tiles of the first steps of this CTA's first tile; gives their number. Before the pipeline is made, which waits for the preceding grid.
    ///
    /// # Safety
    /// A has all matrices of `order`, and no kernel that may still run writes it.
    #[inline(always)]
    pub unsafe fn load<
        T: Element,
        O: Major,
        L: Accumulates<M, N>,
        S: SharedLayout,
        const M: usize,
        const N: usize,
        const K: usize,
    >(
        &self,
        split: &SplitK<M, N, L, SPLIT>,
        order: RasterOrder,
        a: Global<T, 3, O>,
        to: &Ring<Shared<T, M, K, S, O>, STAGES>,
    ) -> u32 {
        let Some(at) = Raster::persistent(order, SPLIT as u32).next().filter(|_| self.wanted) else {
            return 0;
        };
        let steps = split.steps(a.cols().div_ceil(K as u32));
        let count = (steps.end - steps.start).min(STAGES as u32);
        // The first producer: it is one thread of its warp.
        if thread_x() / 32 == P::CONSUMERS / 32 {
            let mut stage = 0;
            while stage < count {
                let barrier = self.base + stage * 8;
                // SAFETY: the caller's; the stages are empty, and this thread's to fill.
                unsafe {
                    let fill = Fill::<P, STAGES>::new(stage, P::on_barrier(barrier));
                    copy(a.tile_unchecked([at.batch, at.m, steps.start + stage]), to.at(fill));
                    mbarrier::arrive(barrier);
                }
                stage += 1;
            }
        }
        count
    }

    /// Waits for the tile of a stage.
    ///
    /// # Safety
    /// It is one of as many as [`load`](Self::load) gave: others have no barrier, or one that never completes.
    #[inline(always)]
    pub unsafe fn wait(&self, stage: u32) {
        // SAFETY: the caller's: the barrier is initialised, and completes once.
        unsafe { mbarrier::wait(self.base + stage * 8, 0) }
    }
}
