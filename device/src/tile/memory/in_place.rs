//! Arguments that are read where they are needed.

use core::marker::PhantomData;

use crate::abi::KernelArg;
use crate::arch::declare::in_place;

/// An argument that stays in the parameter block: each [`get`](Self::get) reads it anew, so that none of it is kept in
/// registers over a loop.
pub struct InPlace<A: KernelArg>(*const A::Abi);

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
        unsafe { A::load(in_place(self.0)) }
    }
}

impl<A: KernelArg> KernelArg for InPlace<A> {
    type Abi = A::Abi;
    #[inline(always)]
    unsafe fn load(at: *const A::Abi) -> Self {
        InPlace(at)
    }
}

/// As [`InPlace`], for kernels with many such arguments: all of them share the address of the parameter block.
pub struct InBlock<A: KernelArg> {
    block: *const u8,
    offset: usize,
    argument: PhantomData<A>,
}

impl<A: KernelArg> Clone for InBlock<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: KernelArg> Copy for InBlock<A> {}

impl<A: KernelArg> InBlock<A> {
    /// The argument.
    #[inline(always)]
    pub fn get(&self) -> A {
        // SAFETY: the place is that of an initialised parameter, which outlives the kernel.
        unsafe { A::load(in_place(self.block).add(self.offset).cast()) }
    }
}

impl<A: KernelArg> KernelArg for InBlock<A> {
    type Abi = A::Abi;
    #[inline(always)]
    unsafe fn load(at: *const A::Abi) -> Self {
        InBlock { block: at.cast(), offset: 0, argument: PhantomData }
    }
    #[inline(always)]
    unsafe fn load_in(at: *const A::Abi, block: *const u8) -> Self {
        InBlock { block, offset: at as usize - block as usize, argument: PhantomData }
    }
}
