//! A tile of shared memory through which fragments change hands.

use core::marker::PhantomData;

use super::row_vector::{for_each_row, load, store};
use super::{CopyTo, Cta, RowVector, Rows, Schedule, Src};
use crate::arch::special::thread_x;
use crate::arch::{sync, wgmma};
use crate::kernel::Arch;
use crate::layout::{FragmentLayout, Registers};

/// A tile of type `S` in shared memory that fragments are copied to, to be read by other threads than hold them: as
/// an operand of a gemm, or as a fragment of another layout.
///
/// A copy to it waits for the gemms committed before, some of which may read what was there. So a gemm that reads the tile is
/// committed before the next copy: by waiting for it, or at the end of the pipeline's step that issued it.
///
/// ```
/// # use tilewright_device::tile::*;
/// /// y = xᵀ for a tile of 64 x 64.
/// fn transposed<P: Schedule>(cta: &mut Cta<P>, x: GlobalTile<f32, 2>, y: GlobalTileMut<f32, 2>) {
///     let mut tile_s = cta.scratch::<Shared<f32, 64, 64, Padded>>();
///     copy(Fragment::<f32, 64, 64, Striped<4>>::load(x), &mut tile_s);
///     copy(Fragment::<f32, 64, 64, Striped<4>>::load(tile_s.full().t()), y);
/// }
/// ```
pub struct Scratch<P, S> {
    address: u32,
    kind: PhantomData<(P, S)>,
}

/// The named barrier that a CTA's consumers meet at around a copy.
pub(super) const EXCHANGE: u32 = 15;

impl<P: Schedule, S> Scratch<P, S> {
    #[inline(always)]
    pub(super) fn new(address: u32) -> Self {
        Scratch { address, kind: PhantomData }
    }

    #[inline(always)]
    pub(super) fn address(&self) -> u32 {
        self.address
    }

    /// The tile as the last copy left it; before the first, anything.
    #[inline(always)]
    pub fn full(&self) -> Src<'_, S> {
        Src { address: self.address, tile: PhantomData }
    }

    /// Calls `write` between the last read and the next one, in the threads that hold fragments.
    #[inline(always)]
    pub(super) fn replace(&mut self, write: impl FnOnce()) {
        if thread_x() < P::CONSUMERS {
            self.begin_write();
            write();
            end_write::<P>();
        }
    }

    /// Waits for the last read.
    #[inline(always)]
    pub(super) fn begin_write(&mut self) {
        // SAFETY: all consumers execute it converged.
        unsafe {
            if matches!(P::ARCH, Arch::Sm90a) {
                wgmma::wait::<0>();
            }
            sync::bar_sync(EXCHANGE, P::CONSUMERS);
        }
    }
}

/// Lets all threads that hold fragments, and their gemms, read what they wrote.
#[inline(always)]
pub(super) fn end_write<P: Schedule>() {
    // SAFETY: all consumers execute it converged; gemms read shared memory through the asynchronous units, which the
    // fence makes the writes visible to.
    unsafe {
        if matches!(P::ARCH, Arch::Sm90a) {
            sync::fence_proxy_async_shared();
        }
        sync::bar_sync(EXCHANGE, P::CONSUMERS);
    }
}

/// A value for each of `M` rows in shared memory, from the threads of one layout to those of another: a copy to it waits for
/// all that read the last one.
pub struct RowScratch<P, const M: usize> {
    address: u32,
    schedule: PhantomData<P>,
}

impl<P: Schedule> Cta<P> {
    /// A value for each of `M` rows, for other threads to read than have them.
    #[inline(always)]
    pub fn row_scratch<const M: usize>(&mut self) -> RowScratch<P, M> {
        RowScratch { address: self.take(M as u32 * 4, 16), schedule: PhantomData }
    }
}

impl<P: Schedule, const M: usize> RowScratch<P, M> {
    fn vector(&self) -> RowVector<'_, f32, M> {
        RowVector::at(self.address)
    }
}

/// Written by the thread that has the row's first element.
impl<P: Schedule, L, const M: usize, const C: usize> CopyTo<&mut RowScratch<P, M>> for Rows<f32, M, C, L>
where
    L: FragmentLayout<M, C>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut RowScratch<P, M>) {
        if thread_x() >= P::CONSUMERS {
            return;
        }
        // SAFETY: all consumers execute it converged.
        unsafe { sync::bar_sync(EXCHANGE, P::CONSUMERS) };
        if thread_x() < L::THREADS {
            let vector = to.vector();
            self.for_each(|row, first, value| {
                if first {
                    store(&vector, row, value);
                }
            });
        }
        // SAFETY: as above.
        unsafe { sync::bar_sync(EXCHANGE, P::CONSUMERS) };
    }
}

impl<const M: usize, const C: usize, L: FragmentLayout<M, C>> Rows<f32, M, C, L> {
    /// Each row's value, as the last copy left it.
    #[inline(always)]
    pub fn exchanged<P: Schedule>(from: &RowScratch<P, M>) -> Self {
        let mut rows = Self::splat(0.0);
        if thread_x() < L::THREADS {
            for_each_row::<L, M, C>(|r, row, _| rows.regs.set(r, load(&from.vector(), row)));
        }
        rows
    }
}
