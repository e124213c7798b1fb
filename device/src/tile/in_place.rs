//! Arguments that are read where they are needed.

use crate::abi::KernelArg;
use crate::arch::special::same_pointer;

/// An argument that stays in the parameter block: each [`get`](Self::get) reads it anew, so that none of it is kept in
/// registers over a loop.
#[derive(Clone, Copy)]
pub struct InPlace<T>(*const T);

impl<T: Copy> InPlace<T> {
    /// The argument.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: the pointer is to an initialised parameter, which outlives the kernel.
        unsafe { *same_pointer(self.0) }
    }
}

impl<T: Copy> KernelArg for InPlace<T> {
    type Abi = T;
    #[inline(always)]
    unsafe fn load(at: *const T) -> Self {
        InPlace(at)
    }
}
