//! Values of rows that change from step to step, as scales of blocks do.

use core::marker::PhantomData;

use crate::arch::special::{lane, thread_x};
use crate::arch::warp::shfl_idx_f32;
use crate::layout::FragmentLayout;
use crate::tile::fragment::Rows;

/// The values of a fragment's rows in one step after the other.
///
/// Lanes that share rows load different steps, as many as they are, and hand them to one another: one load for each row and so many steps, a step ahead of its
/// use.
pub struct StepRows<A, F, V, const M: usize, const N: usize, L> {
    /// This lane's step of the group that is being taken.
    group: A,
    step: u32,
    load: F,
    value: V,
    layout: PhantomData<L>,
}

impl<A, F, V, const M: usize, const N: usize, L> StepRows<A, F, V, M, N, L>
where
    A: Copy,
    F: Fn(u32) -> A,
    V: Fn(A) -> Rows<f32, M, N, L>,
    L: FragmentLayout<M, N>,
{
    /// What `value` makes of what `load` gives for steps from 0 on; it is asked for steps behind the last one too, at most as many as lanes share a row.
    #[inline(always)]
    pub fn new(load: F, value: V) -> Self {
        StepRows { group: load(lane() % L::ROW_LANES), step: 0, load, value, layout: PhantomData }
    }

    /// The values of the next step. All threads that hold the fragment take them alike.
    #[inline(always)]
    pub fn take(&mut self) -> Rows<f32, M, N, L> {
        let (own, within) = (lane(), self.step % L::ROW_LANES);
        let mut rows = (self.value)(self.group);
        if thread_x() < L::THREADS {
            rows = rows.map(
                #[inline(always)]
                // SAFETY: all lanes of the warps that hold the fragment execute it.
                |x| unsafe { shfl_idx_f32(x, own - own % L::ROW_LANES + within) },
            );
        }
        self.step += 1;
        if within + 1 == L::ROW_LANES {
            self.group = (self.load)(self.step + own % L::ROW_LANES);
        }
        rows
    }
}
