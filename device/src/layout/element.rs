//! The types that tiles are made of.

use half::{bf16, f16};

use crate::arch::cvt;
use crate::arch::mma::{E4M3E5M2x2, E4M3x2, E5M2E4M3x2, E5M2x2, HalfTf32, I8x2};
use crate::refuse;

/// An element type of tiles: `f16`, `bf16`, `f32` or `i32`, or for gemms alone a pair of bytes: [`I8x2`], or [`E4M3x2`], [`E5M2x2`],
/// [`E4M3E5M2x2`] and [`E5M2E4M3x2`] of 8-bit floats; or [`HalfTf32`]; or `u8`, the code of a number of 8 bits, in stages alone, from which
/// [`Scratch::widen`](crate::tile::Scratch::widen) makes numbers; or [`F8E4M3`], in outputs alone.
#[diagnostic::on_unimplemented(
    message = "tiles cannot hold elements of type `{Self}`",
    note = "element types are f16, bf16, f32, i32, I8x2, pairs of 8-bit floats such as E4M3x2, u8 for codes of 8 bits, and F8E4M3 for outputs"
)]
pub trait Element: Copy + Send + Sync + 'static {
    /// Size in bytes.
    const BYTES: usize;
    /// The type's name in kernel names and messages.
    const NAME: &'static str;
    /// Zero.
    const ZERO: Self;

    /// Two values rounded to nearest even, the second in the higher address.
    fn from_f32x2(lo: f32, hi: f32) -> [Self; 2];
    /// Two values rounded to nearest even, as neighbours lie in memory, the first in the low end of a register: of 8-bit and 16-bit elements.
    #[inline(always)]
    fn pair_from_f32(lo: f32, hi: f32) -> u32 {
        if Self::BYTES > 2 {
            refuse!("a register holds no pair of elements of 32 bits");
        }
        pack(Self::from_f32x2(lo, hi))
    }
    /// The value as `f32`, exact.
    fn to_f32(self) -> f32;
    /// The values of a pair in one register, the first in its low half, exact: for 16-bit elements, which need not be taken apart first.
    #[inline(always)]
    fn pair_to_f32(pair: u32) -> [f32; 2] {
        unpack::<Self>(pair).map(Self::to_f32)
    }
    /// The bits, in the low end of a register.
    fn bits(self) -> u32;
    /// The inverse of [`bits`](Self::bits).
    fn from_bits(bits: u32) -> Self;
}

/// Packs two 16-bit elements into one register, the first in its low half. Not for wider elements.
#[inline(always)]
pub fn pack<T: Element>(x: [T; 2]) -> u32 {
    x[0].bits() | x[1].bits() << 16
}

/// The inverse of [`pack`].
#[inline(always)]
pub fn unpack<T: Element>(x: u32) -> [T; 2] {
    [T::from_bits(x & 0xffff), T::from_bits(x >> 16)]
}

macro_rules! half_element {
    ($t:ident, $name:literal, $pack:ident, $widen:ident, $widen_pair:ident) => {
        impl Element for $t {
            const BYTES: usize = 2;
            const NAME: &'static str = $name;
            const ZERO: Self = $t::from_bits(0);

            #[inline(always)]
            fn from_f32x2(lo: f32, hi: f32) -> [Self; 2] {
                unpack(cvt::$pack(lo, hi))
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                cvt::$widen(self)
            }
            #[inline(always)]
            fn pair_to_f32(pair: u32) -> [f32; 2] {
                cvt::$widen_pair(pair)
            }
            #[inline(always)]
            fn bits(self) -> u32 {
                self.to_bits() as u32
            }
            #[inline(always)]
            fn from_bits(bits: u32) -> Self {
                $t::from_bits(bits as u16)
            }
        }
    };
}
half_element!(f16, "f16", f16x2, f16_to_f32, f16x2_to_f32);
half_element!(bf16, "bf16", bf16x2, bf16_to_f32, bf16x2_to_f32);

macro_rules! no_number {
    ($($t:ident $name:literal;)*) => { $(
        impl Element for $t {
            const BYTES: usize = 2;
            const NAME: &'static str = $name;
            const ZERO: Self = $t(0);

            #[inline(always)]
            fn from_f32x2(_: f32, _: f32) -> [Self; 2] {
                refuse!("pairs of bytes and halves of tf32 are no numbers: they are multiplied, not converted");
                [Self::ZERO; 2]
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                refuse!("pairs of bytes and halves of tf32 are no numbers: they are multiplied, not converted");
                0.0
            }
            #[inline(always)]
            fn bits(self) -> u32 {
                self.0 as u32
            }
            #[inline(always)]
            fn from_bits(bits: u32) -> Self {
                $t(bits as u16)
            }
        }
    )* };
}
no_number! {
    I8x2 "i8";
    E4M3x2 "e4m3";
    E5M2x2 "e5m2";
    E4M3E5M2x2 "e4m3_e5m2";
    E5M2E4M3x2 "e5m2_e4m3";
    HalfTf32 "tf32";
}

/// Codes of 8 bits are copied and widened as tiles, never one by one.
impl Element for u8 {
    const BYTES: usize = 1;
    const NAME: &'static str = "u8";
    const ZERO: Self = 0;

    #[inline(always)]
    fn from_f32x2(_: f32, _: f32) -> [u8; 2] {
        refuse!(
            "codes of 8 bits are no numbers by themselves: a tile of them is copied to a stage, and widened"
        );
        [0; 2]
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        refuse!(
            "codes of 8 bits are no numbers by themselves: a tile of them is copied to a stage, and widened"
        );
        0.0
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        refuse!(
            "codes of 8 bits are no numbers by themselves: a tile of them is copied to a stage, and widened"
        );
        0
    }
    #[inline(always)]
    fn from_bits(_: u32) -> u8 {
        refuse!(
            "codes of 8 bits are no numbers by themselves: a tile of them is copied to a stage, and widened"
        );
        0
    }
}

/// A floating-point number of 8 bits, four of exponent and three of mantissa, to ±448 (Micikevicius et al. 2022): what
/// [`Output::store_each`](crate::tile::Output::store_each) rounds accumulators to, on Hopper, as it stores them.
///
/// Rounding is to nearest even and saturates, infinities too; NaN stays.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F8E4M3(u8);

impl Element for F8E4M3 {
    const BYTES: usize = 1;
    const NAME: &'static str = "e4m3";
    const ZERO: Self = F8E4M3(0);

    #[inline(always)]
    fn from_f32x2(lo: f32, hi: f32) -> [Self; 2] {
        [0, 8].map(|shift| F8E4M3((Self::pair_from_f32(lo, hi) >> shift) as u8))
    }
    #[inline(always)]
    fn pair_from_f32(lo: f32, hi: f32) -> u32 {
        if !cfg!(target_feature = "sm_90") {
            refuse!("numbers are rounded to e4m3 from Hopper on: compile the kernel for sm_90");
        }
        cvt::e4m3x2(lo, hi).into()
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        cvt::f16x2_to_f32(cvt::e4m3x2_to_f16x2(self.0.into()))[0]
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        refuse!("numbers of 8 bits are stored by `Output::store_each` alone");
        0
    }
    #[inline(always)]
    fn from_bits(_: u32) -> Self {
        refuse!("numbers of 8 bits are not read: a tile of `u8` is copied to a stage, and widened");
        Self::ZERO
    }
}

impl Element for i32 {
    const BYTES: usize = 4;
    const NAME: &'static str = "i32";
    const ZERO: Self = 0;

    #[inline(always)]
    fn from_f32x2(_: f32, _: f32) -> [i32; 2] {
        refuse!("i32 are exact sums: nothing is rounded to them");
        [0; 2]
    }
    /// Rounded to nearest even from 2^24 on.
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> i32 {
        bits as i32
    }
}

/// What gemms sum up in: `f32`, or `i32` where they multiply integers. Values of 4 bytes; all of their bits are any number.
pub trait Sum: Element + sealed::Sealed {
    /// The sum of two, which of `i32` wraps around.
    fn plus(self, other: Self) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
}

impl Sum for f32 {
    #[inline(always)]
    fn plus(self, other: f32) -> f32 {
        self + other
    }
}

impl Sum for i32 {
    #[inline(always)]
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
}

impl Element for f32 {
    const BYTES: usize = 4;
    const NAME: &'static str = "f32";
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn from_f32x2(lo: f32, hi: f32) -> [f32; 2] {
        [lo, hi]
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
}
