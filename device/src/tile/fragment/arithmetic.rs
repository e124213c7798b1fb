//! Arithmetic of fragments: of 16-bit elements two by one instruction.

use core::ops::{Add, Mul, Sub};

use half::{bf16, f16};

use crate::arch::{half as pairs, math};
use crate::layout::element::{pack, unpack};
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::fragment::Fragment;

/// An element type with arithmetic of its own: f16, bf16 and f32. Results are rounded to nearest even; of f32
/// the compiler may make a product and a sum that follows one instruction, which rounds once.
///
/// Between fragments, or a fragment and a number, it is written `x + y`, `x - y`, `x * y`, and between fragments
/// [`x.mul_add(y, z)`](Fragment::mul_add). The operators of the types f16 and bf16 themselves, as in `x.map(|x| x * x)`, convert in
/// software, for which the builder refuses the kernel: what is no sum or product of fragments goes through f32,
/// `x.to_f32().map(…).cast()`.
#[diagnostic::on_unimplemented(
    message = "fragments of `{Self}` have no arithmetic",
    note = "fragments of f16, bf16 and f32 have"
)]
pub trait Arithmetic: Element {
    /// a + b.
    fn plus(a: [Self; 2], b: [Self; 2]) -> [Self; 2];
    /// a - b.
    fn minus(a: [Self; 2], b: [Self; 2]) -> [Self; 2];
    /// a b.
    fn times(a: [Self; 2], b: [Self; 2]) -> [Self; 2];
    /// a b + c.
    fn fused(a: [Self; 2], b: [Self; 2], c: [Self; 2]) -> [Self; 2];
}

impl Arithmetic for f32 {
    #[inline(always)]
    fn plus(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
        [a[0] + b[0], a[1] + b[1]]
    }
    #[inline(always)]
    fn minus(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
        [a[0] - b[0], a[1] - b[1]]
    }
    #[inline(always)]
    fn times(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
        [a[0] * b[0], a[1] * b[1]]
    }
    #[inline(always)]
    fn fused(a: [f32; 2], b: [f32; 2], c: [f32; 2]) -> [f32; 2] {
        [math::fma(a[0], b[0], c[0]), math::fma(a[1], b[1], c[1])]
    }
}

impl Arithmetic for f16 {
    #[inline(always)]
    fn plus(a: [f16; 2], b: [f16; 2]) -> [f16; 2] {
        unpack(pairs::add_f16x2(pack(a), pack(b)))
    }
    #[inline(always)]
    fn minus(a: [f16; 2], b: [f16; 2]) -> [f16; 2] {
        unpack(pairs::sub_f16x2(pack(a), pack(b)))
    }
    #[inline(always)]
    fn times(a: [f16; 2], b: [f16; 2]) -> [f16; 2] {
        unpack(pairs::mul_f16x2(pack(a), pack(b)))
    }
    #[inline(always)]
    fn fused(a: [f16; 2], b: [f16; 2], c: [f16; 2]) -> [f16; 2] {
        unpack(pairs::fma_f16x2(pack(a), pack(b), pack(c)))
    }
}

/// 1, -1 and -0, twice.
const ONE: u32 = 0x3f80_3f80;
const MINUS_ONE: u32 = 0xbf80_bf80;
const MINUS_ZERO: u32 = 0x8000_8000;

/// By fused multiply-adds, the only arithmetic of bf16 before Hopper: a product with 1 and a sum with -0 change nothing.
impl Arithmetic for bf16 {
    #[inline(always)]
    fn plus(a: [bf16; 2], b: [bf16; 2]) -> [bf16; 2] {
        unpack(pairs::fma_bf16x2(pack(a), ONE, pack(b)))
    }
    #[inline(always)]
    fn minus(a: [bf16; 2], b: [bf16; 2]) -> [bf16; 2] {
        unpack(pairs::fma_bf16x2(pack(b), MINUS_ONE, pack(a)))
    }
    #[inline(always)]
    fn times(a: [bf16; 2], b: [bf16; 2]) -> [bf16; 2] {
        unpack(pairs::fma_bf16x2(pack(a), pack(b), MINUS_ZERO))
    }
    #[inline(always)]
    fn fused(a: [bf16; 2], b: [bf16; 2], c: [bf16; 2]) -> [bf16; 2] {
        unpack(pairs::fma_bf16x2(pack(a), pack(b), pack(c)))
    }
}

impl<T: Arithmetic, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// `self` `by` + `plus`, element by element, rounded once.
    #[inline(always)]
    pub fn mul_add(self, by: Self, plus: Self) -> Self {
        let mut out = self;
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            out.set_two(i, T::fused(self.two(i), by.two(i), plus.two(i)));
            i += 2;
        }
        out
    }

    #[inline(always)]
    fn by_twos(self, other: Self, f: impl Fn([T; 2], [T; 2]) -> [T; 2]) -> Self {
        let mut out = self;
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            out.set_two(i, f(self.two(i), other.two(i)));
            i += 2;
        }
        out
    }

    /// Register `i` and the next one; the last twice where there is none.
    #[inline(always)]
    fn two(&self, i: usize) -> [T; 2] {
        [self.regs.get(i), self.regs.get(if i + 1 < L::Regs::<T>::LEN { i + 1 } else { i })]
    }

    #[inline(always)]
    fn set_two(&mut self, i: usize, [a, b]: [T; 2]) {
        self.regs.set(i, a);
        if i + 1 < L::Regs::<T>::LEN {
            self.regs.set(i + 1, b);
        }
    }
}

macro_rules! operators {
    ($($Trait:ident $method:ident: $f:ident, $doc:literal;)*) => { $(
        #[doc = $doc]
        impl<T: Arithmetic, const M: usize, const N: usize, L: FragmentLayout<M, N>> $Trait for Fragment<T, M, N, L> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.by_twos(other, T::$f)
            }
        }

        #[doc = $doc]
        impl<T: Arithmetic, const M: usize, const N: usize, L: FragmentLayout<M, N>> $Trait<T> for Fragment<T, M, N, L> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, number: T) -> Self {
                self.by_twos(Self::splat(number), T::$f)
            }
        }
    )* };
}
operators! {
    Add add: plus, "The sum, element by element.";
    Sub sub: minus, "The difference, element by element.";
    Mul mul: times, "The product, element by element.";
}
