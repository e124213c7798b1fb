//! Reductions over the rows of a fragment that one warp holds.

use super::{Fragment, GlobalTile, Rows};
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::warp::shfl_bfly_f32;
use crate::layout::{Element, FragmentLayout, Major, Registers, Striped};

impl<const M: usize, const N: usize> Fragment<f32, M, N, Striped<1>>
where
    Striped<1>: FragmentLayout<M, N>,
{
    /// Every element the sum of its column.
    #[inline(always)]
    pub fn sum_rows(mut self) -> Self {
        let rows = <Striped<1> as FragmentLayout<M, N>>::Rows::<f32>::LEN;
        let columns = <Striped<1> as FragmentLayout<M, N>>::Regs::<f32>::LEN / rows;
        let mut c = 0;
        while c < columns {
            let mut sum = self.regs.get(c);
            let mut r = 1;
            while r < rows {
                sum += self.regs.get(r * columns + c);
                r += 1;
            }
            let sum = across_rows::<M, N>(sum, |a, b| a + b);
            let mut r = 0;
            while r < rows {
                self.regs.set(r * columns + c, sum);
                r += 1;
            }
            c += 1;
        }
        self
    }
}

impl<const M: usize, const N: usize> Rows<f32, M, N, Striped<1>>
where
    Striped<1>: FragmentLayout<M, N>,
{
    /// Combines the values of all rows by an associative and commutative `f`.
    #[inline(always)]
    pub fn reduce(&self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut all = self.regs.get(0);
        let mut r = 1;
        while r < <Striped<1> as FragmentLayout<M, N>>::Rows::<f32>::LEN {
            all = f(all, self.regs.get(r));
            r += 1;
        }
        across_rows::<M, N>(all, f)
    }
}

impl<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Rows<T, M, N, L> {
    /// The first column of a tile with `M` rows: each row's element, or `outside` where the tensor has no such row.
    #[inline(always)]
    pub fn load<O: Major, const RANK: usize, const BOX: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        outside: T,
    ) -> Self {
        let (thread, window) = (thread_x_volatile(), from.window(M, 1));
        let mut rows = Self::splat(outside);
        let (mut r, mut i) = (0, 0);
        while r < L::Rows::<T>::LEN {
            while L::row(i) != r {
                i += 1;
            }
            let (row, _) = L::coord(thread, i);
            let x = window.read(row, 0);
            if row < window.rows {
                rows.regs.set(r, x);
            }
            r += 1;
        }
        rows
    }
}

/// Combines what the lanes of a warp have whose rows differ.
#[inline(always)]
fn across_rows<const M: usize, const N: usize>(mut x: f32, f: impl Fn(f32, f32) -> f32) -> f32
where
    Striped<1>: FragmentLayout<M, N>,
{
    let mut lane = <Striped<1> as FragmentLayout<M, N>>::ROW_LANES;
    while lane < 32 {
        if thread_x() < 32 {
            // SAFETY: the first warp holds the fragment, and executes it converged.
            x = f(x, unsafe { shfl_bfly_f32(x, lane) });
        }
        lane *= 2;
    }
    x
}
