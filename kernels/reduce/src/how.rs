//! What a reduction is told at its launch.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::arch::math::sqrt;
use tilewright_device::tile::{Element, bf16, f16};

use crate::fold::{Fold, Largest, LargestPlace, Product, Squares, Sum};

/// What is made of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Made {
    /// Their sum.
    Sum,
    /// The sum of their squares.
    Squares,
    /// Their product.
    Product,
    /// The largest.
    Largest,
    /// The place of the largest.
    LargestPlace,
}

/// The type that results are rounded to, or that places have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ResultType {
    /// None: they are f32.
    F32,
    /// f16.
    F16,
    /// bf16.
    Bf16,
    /// Integers of 4 bytes.
    Word,
    /// Integers of 8 bytes.
    Wide,
}

/// What is made of elements, and what becomes of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// A [`Made`].
    pub made: u32,
    /// Whether the negatives are meant, of elements and of the result, where the largest is wanted: 0 or 1.
    pub negative: u32,
    /// What the result is divided by.
    pub divisor: f32,
    /// Whether its square root is the result: 0 or 1.
    pub root: u32,
    /// A [`ResultType`].
    pub result: u32,
}

impl PassedAsIs for How {}

impl How {
    /// What is made of the elements of a part.
    pub fn of_parts(self) -> Self {
        How { divisor: 1.0, root: 0, result: ResultType::F32 as u32, ..self }
    }
    /// What is made of the results of parts.
    pub fn over_parts(self) -> Self {
        let made = if self.made == Made::Squares as u32 { Made::Sum as u32 } else { self.made };
        How { made, ..self }
    }
}

/// Work that is compiled for each operator.
pub(crate) trait ForEach {
    fn run<F: Fold>(self);
}

impl How {
    /// Runs the work for the operator that is wanted.
    #[inline(always)]
    pub(crate) fn with(&self, work: impl ForEach) {
        const SUM: u32 = Made::Sum as u32;
        const SQUARES: u32 = Made::Squares as u32;
        const PRODUCT: u32 = Made::Product as u32;
        const LARGEST: u32 = Made::Largest as u32;
        match self.made {
            SUM => work.run::<Sum>(),
            SQUARES => work.run::<Squares>(),
            PRODUCT => work.run::<Product>(),
            LARGEST => work.run::<Largest>(),
            _ => work.run::<LargestPlace>(),
        }
    }

    /// The bits that change the signs of a word's elements.
    #[inline(always)]
    pub(crate) fn signs<F: Fold, T: Element>(&self) -> u32 {
        let all = if T::BYTES == 2 { 0x8000_8000 } else { 0x8000_0000 };
        if F::FLIPS && self.negative != 0 { all } else { 0 }
    }

    /// Stores a result at element `offset` of the tensor at `y`.
    ///
    /// # Safety
    /// The element is writable, of the type that the host says, and no other thread uses it.
    #[inline(always)]
    pub(crate) unsafe fn put<F: Fold>(&self, y: u64, offset: u64, state: F::State) {
        const F32: u32 = ResultType::F32 as u32;
        const F16: u32 = ResultType::F16 as u32;
        if F::PLACES {
            let place = F::place(state);
            // SAFETY: the caller's.
            return unsafe {
                if self.result == ResultType::Wide as u32 {
                    global::st_global_u32x2((y + offset * 8) as *mut [u32; 2], [place, 0]);
                } else {
                    global::st_global_u32((y + offset * 4) as *mut u32, place);
                }
            };
        }
        let value = f32::from_bits(F::value(state).to_bits() ^ self.signs::<F, f32>());
        let value = if self.root != 0 { sqrt(value) } else { value / self.divisor };
        let half = match self.result {
            // SAFETY: the caller's.
            F32 => return unsafe { global::st_global_u32((y + offset * 4) as *mut u32, value.to_bits()) },
            F16 => f16::from_f32x2(value, value)[0].bits(),
            _ => bf16::from_f32x2(value, value)[0].bits(),
        };
        // SAFETY: the caller's.
        unsafe { global::st_global_u16((y + offset * 2) as *mut u16, half as u16) }
    }
}
