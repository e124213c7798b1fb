//! Elements of a row that belong together: neighbours in pairs, and those of both halves.

use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::{Fragment, passed};

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// `f(a, b)` of every pair of neighbours in a row, columns 2i and 2i + 1: what it gives takes their places.
    ///
    /// In registers; where a layout's runs are single elements, by exchange with the lane beside, of values of up to 32 bytes.
    ///
    /// ```
    /// # use tilewright_device::tile::*;
    /// /// Every pair turned by its angle, of which pairs of columns have cosine and sine: rotary position embedding.
    /// fn rotated(x: Fragment<f32, 64, 128, Striped<4>>, by: Cols<[f32; 2], 64, 128, Striped<4>>) -> Fragment<f32, 64, 128, Striped<4>> {
    ///     let turned = |(x, [cos, sin]): (f32, [f32; 2]), (y, _): (f32, [f32; 2])| (x * cos - y * sin, y * cos + x * sin);
    ///     x.map(|x| (x, [0.0; 2])).zip_cols(&by, |(x, _), by| (x, by)).zip_pairs(turned)
    /// }
    /// ```
    #[inline(always)]
    pub fn zip_pairs<U: Copy>(self, f: impl Fn(T, T) -> (U, U)) -> Fragment<U, M, N, L> {
        const { assert!(N.is_multiple_of(2), "a row of pairs has an even number of elements") };
        if L::RUN == 1 && L::ROW_LANES > 1 {
            return self.zip_lanes(1, f);
        }
        let mut out = Fragment::<U, M, N, L>::splat(f(self.regs.get(0), self.regs.get(1)).0);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (a, b) = f(self.regs.get(i), self.regs.get(i + 1));
            out.regs.set(i, a);
            out.regs.set(i + 1, b);
            i += 2;
        }
        out
    }

    /// `f(a, b)` of the elements of both halves of a row, columns i and i + `N` / 2: what it gives takes their places.
    ///
    /// In registers where a thread has an even number of runs of a row; where it has one, by exchange with another lane of the row, of
    /// values of up to 32 bytes. Of other layouts it does not compile.
    #[inline(always)]
    pub fn zip_halves<U: Copy>(self, f: impl Fn(T, T) -> (U, U)) -> Fragment<U, M, N, L> {
        const {
            assert!(N.is_multiple_of(2), "a row of halves has an even number of elements");
            assert!(
                Self::COLUMNS * (L::ROW_LANES * L::ROW_WARPS) as usize == N,
                "halves of rows meet where lanes and neighbouring warps hold the rows: use Spread, Striped or a FullRow policy"
            );
            assert!(
                Self::HALVES_IN_THREAD || (L::ROW_WARPS == 1 && Self::COLUMNS == L::RUN),
                "halves of rows meet where a thread has an even number of runs of a row, or one, in one warp: use a layout whose runs \
                 lie so"
            );
        }
        if !Self::HALVES_IN_THREAD {
            return self.zip_lanes(L::ROW_LANES / 2, f);
        }
        // As far apart as those of the tile's first row, the first of which is register 0, are the registers of all.
        let apart = L::owner(0, N as u32 / 2).1;
        let mut out = Fragment::<U, M, N, L>::splat(f(self.regs.get(0), self.regs.get(apart)).0);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            if L::col(i) < Self::COLUMNS / 2 {
                let (a, b) = f(self.regs.get(i), self.regs.get(i + apart));
                out.regs.set(i, a);
                out.regs.set(i + apart, b);
            }
            i += 1;
        }
        out
    }

    /// A thread's elements of a row.
    const COLUMNS: usize = L::Regs::<u32>::LEN / L::Rows::<u32>::LEN;
    /// Whether the element half a row on lies in the same thread.
    const HALVES_IN_THREAD: bool = {
        let threads = (L::ROW_LANES * L::ROW_WARPS) as usize;
        threads == 1 || (N / 2).is_multiple_of(L::RUN * threads)
    };

    /// `f` of every element and the same register's of lane `own ^ mask`, the lower lane's first.
    #[inline(always)]
    fn zip_lanes<U: Copy>(self, mask: u32, f: impl Fn(T, T) -> (U, U)) -> Fragment<U, M, N, L> {
        let mut out =
            Fragment::<U, M, N, L>::splat(of_both_lanes::<_, _, L, M, N>(self.regs.get(0), mask, &f));
        let mut i = 1;
        while i < L::Regs::<T>::LEN {
            out.regs.set(i, of_both_lanes::<_, _, L, M, N>(self.regs.get(i), mask, &f));
            i += 1;
        }
        out
    }
}

/// This lane's part of what `f` makes of its value and that of lane `own ^ mask`.
#[inline(always)]
fn of_both_lanes<T: Copy, U, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    own: T,
    mask: u32,
    f: &impl Fn(T, T) -> (U, U),
) -> U {
    let mut other = own;
    if thread_x() < L::THREADS {
        // SAFETY: all lanes of the warps that hold the fragment execute it.
        other = unsafe { passed::of_lane(own, mask) };
    }
    if thread_x() & mask == 0 { f(own, other).0 } else { f(other, own).1 }
}
