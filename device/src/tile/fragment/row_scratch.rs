//! One value for each row, from the threads of one layout to those of another.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, meet};
use crate::tile::fragment::Rows;
use crate::tile::fragment::row_vector::{RowVector, for_each_row, load, store};
use crate::tile::memory::copy_to::CopyTo;

/// A value for each of `M` rows in shared memory, from the threads of one layout to those of another: a copy to it waits for
/// all that read the last one.
pub struct RowScratch<P, const M: usize> {
    address: u32,
    schedule: PhantomData<P>,
}

impl<P: Collective> Cta<P> {
    /// A value for each of `M` rows, for other threads to read than have them.
    #[inline(always)]
    pub fn row_scratch<const M: usize>(&mut self) -> RowScratch<P, M> {
        RowScratch { address: self.reserve(M as u32 * 4, 16), schedule: PhantomData }
    }
}

impl<P: Collective, const M: usize> RowScratch<P, M> {
    fn vector(&self) -> RowVector<'_, f32, M> {
        // SAFETY: the memory is this exchange's; barriers order its writes and reads.
        unsafe { RowVector::at(self.address) }
    }
}

/// Written by the thread that has the row's first element.
impl<P: Collective, L, const M: usize, const C: usize> CopyTo<&mut RowScratch<P, M>> for Rows<f32, M, C, L>
where
    L: FragmentLayout<M, C>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut RowScratch<P, M>) {
        const { assert!(L::THREADS <= P::CONSUMERS, "the rows lie over more threads than the schedule has") };
        if thread_x() >= P::CONSUMERS {
            return;
        }
        // SAFETY: all consumers execute it converged.
        unsafe { meet::<P>() };
        if thread_x() < L::THREADS {
            let vector = to.vector();
            self.for_each(|row, first, value| {
                if first {
                    store(&vector, row, value);
                }
            });
        }
        // SAFETY: as above.
        unsafe { meet::<P>() };
    }
}

impl<const M: usize, const C: usize, L: FragmentLayout<M, C>> Rows<f32, M, C, L> {
    /// Each row's value, as the last copy left it.
    #[inline(always)]
    pub fn exchanged<P: Collective>(from: &RowScratch<P, M>) -> Self {
        const { assert!(L::THREADS <= P::CONSUMERS, "the rows lie over more threads than the schedule has") };
        let mut rows = Self::splat(0.0);
        if thread_x() < L::THREADS {
            for_each_row::<L, M, C>(|r, row, _| rows.regs.set(r, load(&from.vector(), row)));
        }
        rows
    }
}
