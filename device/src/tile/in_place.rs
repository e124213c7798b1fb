//! Arguments that are read where they are needed.

use core::marker::PhantomData;

use crate::abi::KernelArg;
use crate::arch::special::same_pointer;

/// An argument that stays in the parameter block: each [`get`](Self::get) reads it anew, so that none of it is kept in
/// registers over a loop.
///
/// The block's address and the argument's offset are apart, so that many arguments take one address.
pub struct InPlace<A: KernelArg> {
    block: *const u8,
    offset: usize,
    argument: PhantomData<A>,
}

impl<A: KernelArg> Clone for InPlace<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: KernelArg> Copy for InPlace<A> {}

impl<A: KernelArg> InPlace<A> {
    /// The argument.
    #[inline(always)]
    pub fn get(&self) -> A {
        // SAFETY: the pointer is to an initialised parameter, which outlives the kernel.
        unsafe { A::load(same_pointer(self.block).add(self.offset).cast()) }
    }
}

impl<A: KernelArg> KernelArg for InPlace<A> {
    type Abi = A::Abi;
    #[inline(always)]
    unsafe fn load(at: *const A::Abi) -> Self {
        InPlace { block: at.cast(), offset: 0, argument: PhantomData }
    }
    #[inline(always)]
    unsafe fn load_from(block: *const u8, offset: usize) -> Self {
        InPlace { block, offset, argument: PhantomData }
    }
}
