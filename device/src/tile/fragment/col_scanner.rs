//! Scans of columns that several warps hold.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, expect_all, meet};
use crate::tile::fragment::Fragment;
use crate::tile::fragment::cols::Cols;
use crate::tile::fragment::passed;
use crate::tile::fragment::scan::{Lanes, Scan, UpTo};

/// Blocks of rows that a warp scans by itself: as many neighbouring rows as its lanes hold at a time.
const fn blocks<L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> u32 {
    M as u32 * L::ROW_LANES / 32
}

/// Whether a warp holds its columns whole.
const fn whole<L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> bool {
    blocks::<L, M, N>() == L::Rows::<u32>::LEN as u32
}

/// Scans columns wherever they lie: over a warp's lanes, and over warps of the CTA through shared memory.
///
/// A scan over warps takes three barriers; all threads of the program execute it alike. In shared memory lies a value for each column of
/// every block of `32 / ROW_LANES` rows: little where a row lies over few lanes, as in a policy of warps or in
/// [`Threads`](crate::tile::Threads), as much as the tile where it fills a warp.
pub struct ColScanner<P, T, L, const M: usize, const N: usize> {
    address: u32,
    kind: PhantomData<(P, T, L)>,
}

impl<P: Collective> Cta<P> {
    /// What scans the columns of tiles of `M` x `N` values of `T`, of up to 32 bytes, that are laid out by `L`.
    #[inline(always)]
    pub fn col_scanner<T: Copy, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &mut self,
    ) -> ColScanner<P, T, L, M, N> {
        const {
            expect_all::<P>(L::THREADS);
            assert!(
                L::ROW_LANES <= 32 && M.is_multiple_of(32 / L::ROW_LANES as usize),
                "warps hold whole blocks of rows"
            );
        };
        let bytes =
            if whole::<L, M, N>() { 0 } else { blocks::<L, M, N>() * N as u32 * passed::bytes::<T>() };
        ColScanner { address: self.reserve(bytes, 16), kind: PhantomData }
    }
}

impl<P: Collective, T: Copy, L: FragmentLayout<M, N>, const M: usize, const N: usize>
    ColScanner<P, T, L, M, N>
{
    /// Scans every column from the top, beginning with what `carry` has of it, and gives what the columns come to, in all threads that
    /// hold them: see [`Fragment::scan_cols`]. Carried in to the tile below, it continues the scan.
    #[inline(always)]
    pub fn scan(
        &mut self,
        mut x: Fragment<T, M, N, L>,
        carry: Cols<T, M, N, L>,
        scan: Scan,
        f: impl Fn(T, T) -> T,
    ) -> (Fragment<T, M, N, L>, Cols<T, M, N, L>) {
        if whole::<L, M, N>() {
            return x.scan_cols_of_warps(carry, scan, f);
        }
        let (thread, blocks) = (thread_x(), const { blocks::<L, M, N>() });
        if thread >= P::CONSUMERS {
            return (x, carry);
        }
        let lanes = Lanes::of_columns(L::ROW_LANES);
        let place = |block: u32, col: u32| self.address + (block * N as u32 + col) * passed::bytes::<T>();
        // The block that register `i` belongs to, and its column.
        let block_of = |i: usize| {
            let (row, col) = L::coord(thread, i);
            (row * L::ROW_LANES / 32, col)
        };
        // SAFETY: all threads of the program that compute execute it.
        let meet = || unsafe { meet::<P>() };

        // Behind the reads of the last scan.
        meet();
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            // SAFETY: all lanes of the warps that hold the fragment execute it.
            let UpTo { before, own, all } = unsafe { lanes.scan(x.regs.get(i), &f) };
            x.regs.set(i, if scan == Scan::Inclusive { own } else { before });
            if lanes.position == 0 {
                let (block, col) = block_of(i);
                // SAFETY: the block's value in this column is this lane's to write.
                unsafe { passed::store(place(block, col), all) };
            }
            i += 1;
        }
        meet();
        // A thread for each column.
        let mut col = thread;
        while col < N as u32 {
            // SAFETY: stored before the barrier, and until the next one this thread's.
            unsafe {
                let mut above: T = passed::load(place(0, col));
                let mut block = 1;
                while block < blocks {
                    above = f(above, passed::load(place(block, col)));
                    passed::store(place(block, col), above);
                    block += 1;
                }
            }
            col += P::CONSUMERS;
        }
        meet();
        let mut sums = carry;
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (block, col) = block_of(i);
            let top = carry.regs.get(L::col(i));
            // SAFETY: stored before the barrier, and until the next scan's first one nobody writes there.
            let above = if block == 0 { top } else { f(top, unsafe { passed::load(place(block - 1, col)) }) };
            x.regs.set(i, lanes.below(above, x.regs.get(i), scan, &f));
            if L::row(i) == 0 {
                // SAFETY: as above.
                sums.regs.set(L::col(i), f(top, unsafe { passed::load(place(blocks - 1, col)) }));
            }
            i += 1;
        }
        (x, sums)
    }
}
