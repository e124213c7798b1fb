//! Reductions over the rows that each warp of a fragment holds.

use crate::arch::special::thread_x;
use crate::arch::warp::shfl_bfly_f32;
use crate::layout::{FragmentLayout, Registers, Striped};
use crate::tile::fragment::{Fragment, Rows};

impl<const W: usize, const M: usize, const N: usize> Fragment<f32, M, N, Striped<W>>
where
    Striped<W>: FragmentLayout<M, N>,
{
    /// Every element the sum of its column over its warp's rows.
    #[inline(always)]
    pub fn sum_rows(mut self) -> Self {
        let rows = <Striped<W> as FragmentLayout<M, N>>::Rows::<f32>::LEN;
        let columns = <Striped<W> as FragmentLayout<M, N>>::Regs::<f32>::LEN / rows;
        let mut c = 0;
        while c < columns {
            let mut sum = self.regs.get(c);
            let mut r = 1;
            while r < rows {
                sum += self.regs.get(r * columns + c);
                r += 1;
            }
            let sum = across_rows::<W, M, N>(sum, |a, b| a + b);
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

impl<const W: usize, const M: usize, const N: usize> Rows<f32, M, N, Striped<W>>
where
    Striped<W>: FragmentLayout<M, N>,
{
    /// Combines the values of a warp's rows by an associative and commutative `f`.
    #[inline(always)]
    pub fn reduce(&self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut all = self.regs.get(0);
        let mut r = 1;
        while r < <Striped<W> as FragmentLayout<M, N>>::Rows::<f32>::LEN {
            all = f(all, self.regs.get(r));
            r += 1;
        }
        across_rows::<W, M, N>(all, f)
    }
}

/// Combines what the lanes of a warp have whose rows differ.
#[inline(always)]
fn across_rows<const W: usize, const M: usize, const N: usize>(mut x: f32, f: impl Fn(f32, f32) -> f32) -> f32
where
    Striped<W>: FragmentLayout<M, N>,
{
    let mut lane = <Striped<W> as FragmentLayout<M, N>>::ROW_LANES;
    while lane < 32 {
        if thread_x() < <Striped<W> as FragmentLayout<M, N>>::THREADS {
            // SAFETY: all lanes of the warps that hold the fragment execute it.
            x = f(x, unsafe { shfl_bfly_f32(x, lane) });
        }
        lane *= 2;
    }
    x
}
