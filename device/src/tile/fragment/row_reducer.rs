//! Reductions of rows that several warps hold, or several CTAs of a cluster.

use core::marker::PhantomData;

use crate::arch::special::{cluster_rank, thread_x};
use crate::arch::{mbarrier, shared, sync};
use crate::layout::{FragmentLayout, Registers};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, expect_all, meet};
use crate::tile::fragment::passed::{self, ROOM};
use crate::tile::fragment::{Fragment, Rows};

/// Bytes of an mbarrier.
const BARRIER: u32 = 8;

/// Bytes of shared memory of a [`RowReducer`] for tiles of `M` x `N` whose rows lie over `ctas` CTAs: none where each warp holds its rows
/// whole.
const fn row_reducer_bytes<L: FragmentLayout<M, N>, const M: usize, const N: usize>(ctas: usize) -> u32 {
    2 * half_bytes::<L, M, N>(ctas) + if ctas > 1 { 2 * BARRIER } else { 0 }
}

/// Of one reduction: the values of the CTA's warps, and of a cluster's CTAs.
const fn half_bytes<L: FragmentLayout<M, N>, const M: usize, const N: usize>(ctas: usize) -> u32 {
    own_bytes::<L, M, N>() + if ctas > 1 { (M * ctas) as u32 * ROOM } else { 0 }
}

const fn own_bytes<L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> u32 {
    if L::ROW_WARPS == 1 { 0 } else { L::ROW_WARPS * M as u32 * ROOM }
}

/// Reduces rows wherever they lie: over a warp's lanes, over warps of the CTA through shared memory, and over `CTAS` CTAs of a cluster,
/// each of which holds `N` columns of the rows, through each other's shared memory.
///
/// A reduction over warps takes one barrier, and over CTAs one more, which counts the bytes that arrive: nothing else that was stored is waited for.
/// All threads of the program execute it alike. Every thread of a row gets the same result, to
/// the bit, and the same each time: what the operator must be is associative and commutative as far as its user cares.
pub struct RowReducer<P, L, const M: usize, const N: usize, const CTAS: usize> {
    address: u32,
    /// Reductions so far. Values of the next one lie in the other half than the last one's, which some threads may still read.
    turn: u32,
    kind: PhantomData<(P, L)>,
}

impl<P: Collective> Cta<P> {
    /// What reduces the rows of tiles of `M` x `N` that are laid out by `L`, in `CTAS` CTAs of a cluster.
    ///
    /// Of several CTAs the first reduction waits until all of them have started.
    #[inline(always)]
    pub fn row_reducer<L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize>(
        &mut self,
    ) -> RowReducer<P, L, M, N, CTAS> {
        const { expect_all::<P>(L::THREADS) };
        let address = self.reserve(row_reducer_bytes::<L, M, N>(CTAS), ROOM);
        if CTAS > 1 {
            // SAFETY: one thread initialises the barriers, and nobody uses them before the cluster met: all threads execute it, and the first reduction.
            unsafe {
                if thread_x() == 0 {
                    let bars = address + 2 * half_bytes::<L, M, N>(CTAS);
                    // In each CTA a warp of each row arrives; and who says how many bytes do.
                    let arrivals = L::THREADS / 32 / L::ROW_WARPS * CTAS as u32 + 1;
                    mbarrier::init(bars, arrivals);
                    mbarrier::init(bars + BARRIER, arrivals);
                    sync::fence_mbarrier_init();
                }
                sync::cluster_arrive_relaxed();
            }
        }
        RowReducer { address, turn: 0, kind: PhantomData }
    }
}

impl<P: Collective, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize>
    RowReducer<P, L, M, N, CTAS>
{
    /// Warps that hold a row, in all CTAs.
    const PARTS: u32 = L::ROW_WARPS * CTAS as u32;
    const WHOLE: () = {
        assert!(
            L::Regs::<u32>::LEN / L::Rows::<u32>::LEN * (L::ROW_LANES * L::ROW_WARPS) as usize == N,
            "rows are reduced where lanes and neighbouring warps hold them: use Spread or Striped"
        );
        assert!(
            Self::PARTS.is_power_of_two() && L::ROW_WARPS <= 32 && CTAS <= 8,
            "a row lies over a power of two of warps, in 1, 2, 4 or 8 CTAs"
        );
        assert!(
            Self::PARTS == 1 || L::ROW_LANES == 32,
            "rows lie over several CTAs or warps where they fill the warps"
        );
    };

    /// Which `N` columns of the rows this CTA holds: its number in the cluster.
    #[inline(always)]
    pub fn part(&self) -> u32 {
        if CTAS > 1 { cluster_rank() } else { 0 }
    }
    /// Combines all elements of every row, beginning with `init`.
    #[inline(always)]
    pub fn reduce_rows<T: Copy>(
        &mut self,
        x: &Fragment<T, M, N, L>,
        init: T,
        f: impl Fn(T, T) -> T,
    ) -> Rows<T, M, N, L> {
        self.reduce(x.fold_rows(init, &f), f)
    }

    /// Combines the values that the threads of every row have, of any type of up to 32 bytes.
    #[inline(always)]
    pub fn reduce<V: Copy>(&mut self, rows: Rows<V, M, N, L>, f: impl Fn(V, V) -> V) -> Rows<V, M, N, L> {
        self.across_warps(rows.across_lanes(&f), f)
    }

    /// Combines the values that the warps of every row have, of any type of up to 32 bytes: all lanes of a warp that hold the row have
    /// the same one, as [`Rows::across_lanes`] gives it.
    #[inline(always)]
    pub fn across_warps<V: Copy>(
        &mut self,
        mut rows: Rows<V, M, N, L>,
        f: impl Fn(V, V) -> V,
    ) -> Rows<V, M, N, L> {
        const { Self::WHOLE };
        if Self::PARTS == 1 {
            return rows;
        }
        let half = self.address + self.turn % 2 * half_bytes::<L, M, N>(CTAS);
        if L::ROW_WARPS > 1 {
            rows = self.over_warps(rows, half, &f);
        }
        if CTAS > 1 {
            rows = self.over_ctas(rows, half + own_bytes::<L, M, N>(), &f);
        }
        self.turn += 1;
        rows
    }

    /// The value of all warps of this CTA that have a row.
    #[inline(always)]
    fn over_warps<V: Copy>(
        &self,
        rows: Rows<V, M, N, L>,
        base: u32,
        f: impl Fn(V, V) -> V,
    ) -> Rows<V, M, N, L> {
        let (thread, lane) = (thread_x(), thread_x() % 32);
        let place =
            |r: usize, warp: u32| base + (L::coord(thread, L::first(r)).0 * L::ROW_WARPS + warp) * ROOM;
        let mut r = 0;
        while r < L::Rows::<V>::LEN {
            if lane == 0 {
                // SAFETY: this warp's room. Who read this half before has passed the barrier of the reduction between.
                unsafe { passed::store(place(r, thread / 32 % L::ROW_WARPS), rows.regs.get(r)) };
            }
            r += 1;
        }
        // SAFETY: all threads of the program execute it.
        unsafe { meet::<P>() };
        // SAFETY: all values have been stored before the barrier.
        unsafe { combined(L::ROW_WARPS, |r, warp| passed::load(place(r, warp)), f) }
    }

    /// The value of all CTAs of the cluster, of each of which all warps of a row have its value.
    #[inline(always)]
    fn over_ctas<V: Copy>(
        &self,
        rows: Rows<V, M, N, L>,
        base: u32,
        f: impl Fn(V, V) -> V,
    ) -> Rows<V, M, N, L> {
        let arrived = self.address + 2 * half_bytes::<L, M, N>(CTAS) + self.turn % 2 * BARRIER;
        let (thread, lane) = (thread_x(), thread_x() % 32);
        let place = |r: usize, cta: u32| base + (L::coord(thread, L::first(r)).0 * CTAS as u32 + cta) * ROOM;
        // SAFETY: the phase awaits this arrival, those of a warp of each row of each CTA, and their values. These go to the memory of each of the
        // cluster's CTAs, which run: the first reduction waits for them, and none ends before it has all values of the last reduction. Who read this
        // half before has done so before its CTA's warps met, or it sent itself, in the reduction between.
        unsafe {
            // Here, so that what the rows are loaded from has been asked for.
            if self.turn == 0 {
                sync::cluster_wait();
            }
            if thread == 0 {
                mbarrier::arrive_expect_tx(arrived, (M * CTAS) as u32 * passed::bytes::<V>());
            }
            sync::sync_warp();
            if (thread / 32).is_multiple_of(L::ROW_WARPS) && lane < CTAS as u32 {
                let bar = shared::mapa(arrived, lane);
                let mut r = 0;
                while r < L::Rows::<V>::LEN {
                    passed::send(shared::mapa(place(r, self.part()), lane), rows.regs.get(r), bar);
                    r += 1;
                }
                mbarrier::arrive_remote(bar);
            }
            mbarrier::wait(arrived, self.turn / 2 % 2);
            combined(CTAS as u32, |r, cta| passed::load(place(r, cta)), f)
        }
    }
}

/// Each row's `count` values, a power of two, combined: the same in all lanes.
///
/// # Safety
/// All lanes execute it; what `load` reads is there, by row and number.
#[inline(always)]
unsafe fn combined<V: Copy, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    count: u32,
    load: impl Fn(usize, u32) -> V,
    f: impl Fn(V, V) -> V,
) -> Rows<V, M, N, L> {
    let lane = thread_x() % 32;
    let mut rows = Rows::<V, M, N, L>::splat(load(0, lane % count));
    let mut r = 0;
    while r < L::Rows::<V>::LEN {
        let (mut all, mut mask) = (load(r, lane % count), 1);
        while mask < count {
            // SAFETY: the caller's.
            all = f(all, unsafe { passed::of_lane(all, mask) });
            mask *= 2;
        }
        rows.regs.set(r, all);
        r += 1;
    }
    rows
}
