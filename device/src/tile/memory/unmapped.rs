//! Tensors that kernels read to registers and write from them: arguments without maps for TMA.

use core::marker::PhantomData;

use crate::abi::{KernelArg, StridedAbi};
use crate::arch::declare::in_place;
use crate::layout::{Element, RowMajor};
use crate::tile::memory::global::{Global, GlobalMut};

/// The place of an argument in the parameter block, which kernels with many of them share the address of.
struct Place<T, const RANK: usize> {
    block: *const u8,
    offset: usize,
    element: PhantomData<T>,
}

impl<T, const RANK: usize> Clone for Place<T, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const RANK: usize> Copy for Place<T, RANK> {}

impl<T: Element, const RANK: usize> Place<T, RANK> {
    #[inline(always)]
    fn tensor(self) -> Global<T, RANK, RowMajor, 0> {
        // SAFETY: the place is that of an initialised parameter, which outlives the kernel.
        unsafe { Global::unmapped(in_place(self.block).add(self.offset).cast()) }
    }
}

macro_rules! unmapped {
    ($(#[$doc:meta])* $Name:ident $Global:ident |$tensor:ident| $made:expr) => {
        $(#[$doc])*
        pub struct $Name<T, const RANK: usize>(Place<T, RANK>);

        impl<T, const RANK: usize> Clone for $Name<T, RANK> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T, const RANK: usize> Copy for $Name<T, RANK> {}

        impl<T: Element, const RANK: usize> $Name<T, RANK> {
            /// The tensor, its argument read anew.
            #[inline(always)]
            pub fn get(&self) -> $Global<T, RANK, RowMajor, 0> {
                let $tensor = self.0.tensor();
                $made
            }
        }

        impl<T: Element, const RANK: usize> KernelArg for $Name<T, RANK> {
            type Abi = StridedAbi<T, RANK>;
            #[inline(always)]
            unsafe fn load(at: *const Self::Abi) -> Self {
                $Name(Place { block: at.cast(), offset: 0, element: PhantomData })
            }
            #[inline(always)]
            unsafe fn load_in(at: *const Self::Abi, block: *const u8) -> Self {
                $Name(Place { block, offset: at as usize - block as usize, element: PhantomData })
            }
        }
    };
}
unmapped! {
    /// A parameter of a tensor that the kernel reads to registers alone, of any strides: as [`InBlock`](super::in_place::InBlock) of a [`Global`], without the map of
    /// one that TMA loads, which is two thirds of its argument: what a launch passes takes the host time.
    Unmapped Global |tensor| tensor
}
unmapped! {
    /// The same of a tensor that the kernel writes too.
    UnmappedMut GlobalMut |tensor| GlobalMut(tensor)
}
