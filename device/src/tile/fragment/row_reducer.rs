//! Reductions of rows that several warps hold, or several CTAs of a cluster.

use core::marker::PhantomData;

use crate::arch::special::{cluster_rank, thread_x};
use crate::arch::{shared, sync};
use crate::layout::{FragmentLayout, Registers};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, expect_all, meet};
use crate::tile::fragment::passed::{self, ROOM};
use crate::tile::fragment::{Fragment, Rows};

/// Bytes of shared memory of a [`RowReducer`] for tiles of `M` x `N` whose rows lie over `ctas` CTAs: none where each warp holds its rows
/// whole.
const fn row_reducer_bytes<L: FragmentLayout<M, N>, const M: usize, const N: usize>(ctas: usize) -> u32 {
    2 * half_bytes::<L, M, N>(ctas)
}

const fn half_bytes<L: FragmentLayout<M, N>, const M: usize, const N: usize>(ctas: usize) -> u32 {
    let parts = L::ROW_WARPS * ctas as u32;
    if parts == 1 { 0 } else { parts * M as u32 * ROOM }
}

/// Reduces rows wherever they lie: over a warp's lanes, over warps of the CTA through shared memory, and over `CTAS` CTAs of a cluster,
/// each of which holds `N` columns of the rows, through each other's shared memory.
///
/// A reduction over warps takes one barrier; all threads of the program execute it alike. Every thread of a row gets the same result, to
/// the bit, and the same each time: what the operator must be is associative and commutative as far as its user cares.
pub struct RowReducer<P, L, const M: usize, const N: usize, const CTAS: usize> {
    address: u32,
    /// Where the next reduction's values lie: in the other half than the last one's, which some threads may still read.
    half: u32,
    kind: PhantomData<(P, L)>,
}

impl<P: Collective> Cta<P> {
    /// What reduces the rows of tiles of `M` x `N` that are laid out by `L`, in `CTAS` CTAs of a cluster.
    ///
    /// With several CTAs it waits until all of them have started.
    #[inline(always)]
    pub fn row_reducer<L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize>(
        &mut self,
    ) -> RowReducer<P, L, M, N, CTAS> {
        const { expect_all::<P>(L::THREADS) };
        if CTAS > 1 {
            // SAFETY: all threads of the cluster execute it.
            unsafe {
                sync::cluster_arrive_relaxed();
                sync::cluster_wait();
            }
        }
        let address = self.reserve(row_reducer_bytes::<L, M, N>(CTAS), ROOM);
        RowReducer { address, half: 0, kind: PhantomData }
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
            Self::PARTS.is_power_of_two() && CTAS <= 8,
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
        let base = self.address + self.half;
        self.half = half_bytes::<L, M, N>(CTAS) - self.half;
        let (thread, rank) = (thread_x(), self.part());
        let (lane, part) = (thread % 32, rank * L::ROW_WARPS + thread / 32 % L::ROW_WARPS);
        let place =
            |r: usize, part: u32| base + (L::coord(thread, L::first(r)).0 * Self::PARTS + part) * ROOM;
        let mut r = 0;
        while r < L::Rows::<V>::LEN {
            // SAFETY: the part of this warp, in this CTA's memory or in that of each of the cluster's, which run: their reducers waited
            // for each other, and none ends before the last reduction's barrier. Who read this half before has passed the barrier of the
            // reduction between.
            unsafe {
                if CTAS == 1 && lane == 0 {
                    passed::store(place(r, part), rows.regs.get(r));
                }
                if CTAS > 1 && lane < CTAS as u32 {
                    passed::store_in_cluster(shared::mapa(place(r, part), lane), rows.regs.get(r));
                }
            }
            r += 1;
        }
        // SAFETY: all threads of the program, in all CTAs, execute it.
        unsafe {
            if CTAS == 1 {
                meet::<P>();
            } else {
                sync::cluster_arrive_release();
                sync::cluster_wait();
            }
        }
        let mut r = 0;
        while r < L::Rows::<V>::LEN {
            // SAFETY: all parts have been stored before the barrier; all lanes take part in the exchange.
            let mut all: V = unsafe { passed::load(place(r, lane % Self::PARTS)) };
            let mut first = 32;
            while first < Self::PARTS {
                // SAFETY: as above.
                all = f(all, unsafe { passed::load(place(r, first + lane)) });
                first += 32;
            }
            let mut mask = 1;
            while mask < Self::PARTS && mask < 32 {
                // SAFETY: as above.
                all = f(all, unsafe { passed::of_lane(all, mask) });
                mask *= 2;
            }
            rows.regs.set(r, all);
            r += 1;
        }
        rows
    }
}
