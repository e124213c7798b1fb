//! Operands of gemms in registers.

use crate::arch::wgmma;
use crate::layout::Registers;

/// Operands of gemms in registers: nobody overwrites them before the gemms are done.
pub trait Held: Copy {
    /// What threads hold that have no part in the gemm.
    fn none() -> Self;
    /// Keeps the registers as they are up to here.
    ///
    /// # Safety
    /// A wait for the gemms has been executed.
    unsafe fn keep(&mut self);
}

impl Held for () {
    #[inline(always)]
    fn none() -> Self {}
    #[inline(always)]
    unsafe fn keep(&mut self) {}
}

impl<R: Registers<[u32; 4]>> Held for Packed<R> {
    #[inline(always)]
    fn none() -> Self {
        Packed(R::splat([0; 4]))
    }
    #[inline(always)]
    unsafe fn keep(&mut self) {
        let mut i = 0;
        while i < R::LEN / 8 {
            self.0.set(i, wgmma::define(self.0.get(i)));
            i += 1;
        }
    }
}

/// Fragment registers as the tensor cores take them: 8 elements in each of the first `LEN / 8` of `R`.
#[derive(Clone, Copy)]
pub struct Packed<R>(pub R);
