//! Zeros in lines of tiles in shared memory.

use crate::arch::declare::refuse;
use crate::arch::special::thread_x;
use crate::arch::{shared, sync};
use crate::kernel::Arch;
use crate::layout::{Element, Major, RowMajor, SharedLayout};
use crate::tile::copy::load::PIECE;
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, meet};
use crate::tile::memory::shared::{Full, Ring, Shared, Stages};

/// Makes zeros of the lines from `first` on of the tile at `address`.
///
/// # Safety
/// The tile is there, and nobody else uses those lines. Threads that compute call it alike, and order the writes before what reads them.
#[inline(always)]
pub(in crate::tile) unsafe fn zero_from<P, T, L, O, const R: usize, const C: usize>(address: u32, first: u32)
where
    P: Collective,
    T: Element,
    L: SharedLayout,
    O: Major,
{
    let (lines, line) = (Shared::<T, R, C, L, O>::LINES, Shared::<T, R, C, L, O>::LINE);
    let across = line / PIECE;
    let mut piece = first * across + thread_x();
    while piece < lines * across {
        let at = L::offset(lines, line, piece / across, piece % across * PIECE);
        // SAFETY: the caller's.
        unsafe { shared::store_u32x4(address + at, [0; 4]) };
        piece += P::CONSUMERS;
    }
}

/// Makes zeros of the rows from `first` on of a full stage's tile; behind it gemms may read them.
///
/// All threads that compute call it alike; no gemm in flight reads the stage.
#[inline(always)]
pub(in crate::tile) fn clear<P, T, L, const R: usize, const C: usize, const N: usize>(
    stage: Full<'_, N>,
    ring: &Ring<Shared<T, R, C, L>, N>,
    first: u32,
) where
    P: Collective,
    T: Element,
    L: SharedLayout,
{
    if thread_x() >= P::CONSUMERS || first >= R as u32 {
        return;
    }
    // SAFETY: the stage is full and nobody else's; all meet behind the writes, which the fence makes visible to gemms.
    unsafe {
        zero_from::<P, T, L, RowMajor, R, C>(ring.at(stage).address, first);
        if matches!(P::ARCH, Arch::Sm90a) {
            sync::fence_proxy_async_shared();
        }
        meet::<P>();
    }
}

impl<P: Collective> Cta<P> {
    /// Makes zeros of the rows from `first` on of a full stage's tile of `ring`: by TMA the rows behind a tile's own
    /// ([`of_rows`](crate::tile::GlobalTile::of_rows)) are copied too. For what [`Pipeline::run`](crate::tile::Pipeline::run) computes.
    ///
    /// # Safety
    /// All threads that compute call it alike, and no gemm that has been issued reads the stage: in the call for a step, before its first gemm.
    #[inline(always)]
    pub unsafe fn clear_from<T, L, const R: usize, const C: usize, const N: usize>(
        &self,
        stage: Full<'_, N>,
        ring: &Ring<Shared<T, R, C, L>, N>,
        first: u32,
    ) where
        T: Element,
        L: SharedLayout,
    {
        clear::<P, T, L, R, C, N>(stage, ring, first);
    }
}

impl<const N: usize> Stages<N> {
    /// Makes zeros of the lines from `first` on of the tiles in all stages, which copies of [short](crate::tile::GlobalTile::short) tiles leave as they are.
    ///
    /// Those who compute do so; the pipeline that is opened of these stages begins behind it. The builder refuses a kernel that gives a ring of other stages.
    #[inline(always)]
    pub fn zero_lines<P, T, L, O, const R: usize, const C: usize>(
        &self,
        _cta: &mut Cta<P>,
        ring: &Ring<Shared<T, R, C, L, O>, N>,
        first: u32,
    ) where
        P: Collective,
        T: Element,
        L: SharedLayout,
        O: Major,
    {
        if ring.pipeline != self.pipeline {
            refuse!(
                "lines of a ring are made zeros by stages that it was not allocated of: those of its own pipeline"
            );
        }
        if ring.absent || first >= Shared::<T, R, C, L, O>::LINES || thread_x() >= P::CONSUMERS {
            return;
        }
        let mut stage = 0;
        while stage < N as u32 {
            // SAFETY: the tile is one of the ring's, whose pipeline is not open: nobody else uses it.
            unsafe { zero_from::<P, T, L, O, R, C>(ring.stage(stage), first) };
            stage += 1;
        }
        // SAFETY: it only orders; who opens the pipeline waits for all threads.
        unsafe { sync::fence_proxy_async_shared() };
    }
}
