//! Scans of rows that several warps hold.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, expect_all, meet};
use crate::tile::fragment::passed::{self, ROOM};
use crate::tile::fragment::scan::{Lanes, Scan, UpTo};
use crate::tile::fragment::{Fragment, Rows};

/// Values of a row that warps tell each other: one for each run that a thread has of it, from each of the row's warps.
const fn values<L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> u32 {
    (L::Regs::<u32>::LEN / L::Rows::<u32>::LEN / L::RUN) as u32 * L::ROW_WARPS
}

const fn half_bytes<L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> u32 {
    if L::ROW_WARPS == 1 { 0 } else { values::<L, M, N>() * M as u32 * ROOM }
}

/// Scans rows wherever they lie: over a warp's lanes, and over warps of the CTA through shared memory.
///
/// A scan over warps takes one barrier; all threads of the program execute it alike. Rows that are longer than a tile are scanned in a
/// loop, from the left to the right:
///
/// ```
/// # use tilewright_device::tile::*;
/// /// y = the sums of x up to each element, row by row.
/// fn sums<P: Collective>(cta: &mut Cta<P>, x: Global<f32, 2>, mut y: GlobalMut<f32, 2>)
/// where
///     Spread<8, 256, 8, 4>: FragmentLayout<1, 2048>,
/// {
///     let mut rows = cta.row_scanner::<Spread<8, 256, 8, 4>, 1, 2048>();
///     let mut carry = Rows::splat(0.0);
///     for part in 0..x.cols().div_ceil(2048) {
///         let place = [block_x(), part];
///         let sums;
///         (sums, carry) = rows.scan(Fragment::load(x.tile(place)), carry, Scan::Inclusive, |a, b| a + b);
///         copy(sums, y.tile(place));
///     }
/// }
/// ```
pub struct RowScanner<P, L, const M: usize, const N: usize> {
    address: u32,
    /// Where the next scan's values lie: in the other half than the last one's, which some threads may still read.
    half: u32,
    kind: PhantomData<(P, L)>,
}

impl<P: Collective> Cta<P> {
    /// What scans the rows of tiles of `M` x `N` that are laid out by `L`.
    #[inline(always)]
    pub fn row_scanner<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &mut self,
    ) -> RowScanner<P, L, M, N> {
        const { expect_all::<P>(L::THREADS) };
        let address = self.reserve(2 * half_bytes::<L, M, N>(), ROOM);
        RowScanner { address, half: 0, kind: PhantomData }
    }
}

impl<P: Collective, L: FragmentLayout<M, N>, const M: usize, const N: usize> RowScanner<P, L, M, N> {
    const WHOLE: () = {
        assert!(
            L::Regs::<u32>::LEN / L::Rows::<u32>::LEN * (L::ROW_LANES * L::ROW_WARPS) as usize == N,
            "rows are scanned where lanes and neighbouring warps hold them: use Spread or Striped"
        );
        assert!(
            L::ROW_WARPS == 1 || (L::ROW_WARPS.is_power_of_two() && L::ROW_LANES == 32),
            "a row lies over a part of a warp, or fills a power of two of warps"
        );
    };

    /// Scans every row from the left, beginning with what `carry` has of it, and gives what the rows come to: see
    /// [`Fragment::scan_rows`].
    #[inline(always)]
    pub fn scan<T: Copy>(
        &mut self,
        mut x: Fragment<T, M, N, L>,
        mut carry: Rows<T, M, N, L>,
        scan: Scan,
        f: impl Fn(T, T) -> T,
    ) -> (Fragment<T, M, N, L>, Rows<T, M, N, L>) {
        const { Self::WHOLE };
        if L::ROW_WARPS == 1 {
            return x.scan_rows_of_warps(carry, scan, f);
        }
        let thread = thread_x();
        if thread >= P::CONSUMERS {
            return (x, carry);
        }
        let base = self.address + self.half;
        self.half = half_bytes::<L, M, N>() - self.half;
        let (lanes, lane, warp) = (Lanes::of_rows(32), thread % 32, thread / 32 % L::ROW_WARPS);
        let values = const { values::<L, M, N>() };
        let place = |r: usize, value: u32| base + (L::coord(thread, L::first(r)).0 * values + value) * ROOM;
        // Which value is a run's first warp's.
        let first_value = |i: usize| (L::col(i) / L::RUN) as u32 * L::ROW_WARPS;

        x.scan_runs(&f);
        let mut before_lane = L::Regs::<T>::splat(x.regs.get(0));
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            // SAFETY: all lanes of the warps that hold the fragment execute it. The value is this warp's to write; who read this half
            // before has passed the barrier of the scan between.
            unsafe {
                let UpTo { before, all, .. } = lanes.scan(x.regs.get(i + L::RUN - 1), &f);
                before_lane.set(i, before);
                if lane == 0 {
                    passed::store(place(L::row(i), first_value(i) + warp), all);
                }
            }
            i += L::RUN;
        }
        // SAFETY: all threads of the program that compute execute it.
        unsafe { meet::<P>() };

        // Every warp scans the values of all, a lane each.
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let mut first = 0;
            while first < values {
                let left = carry.regs.get(r);
                // SAFETY: all values have been stored before the barrier; all lanes take part in the exchanges.
                let up_to: T = unsafe {
                    let value: T = passed::load(place(r, (first + lane).min(values - 1)));
                    lanes.scan(value, &f).own
                };
                let mut i = 0;
                while i < L::Regs::<T>::LEN {
                    if L::row(i) == r && first_value(i) / 32 * 32 == first {
                        let at = first_value(i) - first + warp;
                        // SAFETY: as above.
                        let before: T = unsafe { passed::of_lane_at(up_to, at.wrapping_sub(1) % 32) };
                        let start = if at == 0 { left } else { f(left, before) };
                        let start = if lane == 0 { start } else { f(start, before_lane.get(i)) };
                        x.begin_run(i, start, scan, &f);
                    }
                    i += L::RUN;
                }
                // SAFETY: as above.
                let all: T = unsafe { passed::of_lane_at(up_to, (values - 1 - first).min(31)) };
                carry.regs.set(r, f(left, all));
                first += 32;
            }
            r += 1;
        }
        (x, carry)
    }
}
