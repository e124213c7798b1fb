//! Elements whose type is told at the launch: which numbers their bits are.

use tilewright_device::arch::cvt;
use tilewright_device::{bf16, f16};

use crate::fp8;

/// The type of a tensor's elements.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// 32-bit signed integers.
    I32,
    /// Signed bytes.
    I8,
    /// Unsigned bytes.
    U8,
    /// Floating point of 8 bits, three of them of mantissa.
    E4m3,
    /// Floating point of 8 bits, two of them of mantissa.
    E5m2,
}

impl Number {
    /// Size of an element in bytes.
    #[inline(always)]
    pub(crate) const fn bytes(number: u32) -> u32 {
        if number == Number::F32 as u32 || number == Number::I32 as u32 {
            4
        } else if number == Number::F16 as u32 || number == Number::Bf16 as u32 {
            2
        } else {
            1
        }
    }
}

/// `f` with the number of this kind, of those that have `BYTES`, or of all where that is 0: each has its own instance of `f`, so that no element asks
/// which it is.
#[inline(always)]
pub(crate) fn with_number<const BYTES: usize>(kind: u32, mut f: impl FnMut(Number)) {
    let is = |number: Number| {
        let bytes = Number::bytes(number as u32) as usize;
        (BYTES == 0 || BYTES == bytes) && kind == number as u32
    };
    if is(Number::F16) {
        f(Number::F16);
    } else if is(Number::Bf16) {
        f(Number::Bf16);
    } else if is(Number::I32) {
        f(Number::I32);
    } else if is(Number::I8) {
        f(Number::I8);
    } else if is(Number::U8) {
        f(Number::U8);
    } else if is(Number::E4m3) {
        f(Number::E4m3);
    } else if is(Number::E5m2) {
        f(Number::E5m2);
    } else if is(Number::F32) {
        f(Number::F32);
    }
}

impl Number {
    /// The value of the low bits of a word; of integers rounded to nearest even. `hopper` is whether the kernel is compiled for that, and has its
    /// conversions of fp8.
    #[inline(always)]
    pub(crate) fn value(self, bits: u32, hopper: bool) -> f32 {
        match self {
            Number::F32 => f32::from_bits(bits),
            Number::F16 => cvt::f16_to_f32(f16::from_bits(bits as u16)),
            Number::Bf16 => f32::from_bits(bits << 16),
            Number::I32 => bits as i32 as f32,
            Number::I8 => bits as i8 as f32,
            Number::U8 => bits as u8 as f32,
            Number::E4m3 => fp8::e4m3_value(bits, hopper),
            Number::E5m2 => fp8::e5m2_value(bits),
        }
    }

    /// The bits of a value rounded to nearest even, in a word: the inverse of [`value`](Self::value). Integers saturate, and NaN is their 0; fp8
    /// saturates to its largest number.
    #[inline(always)]
    pub(crate) fn bits_of(self, value: f32, hopper: bool) -> u32 {
        match self {
            Number::F32 => value.to_bits(),
            Number::F16 => f16::to_bits(cvt::f32_to_f16(value)) as u32,
            Number::Bf16 => bf16::to_bits(cvt::f32_to_bf16(value)) as u32,
            Number::I32 => nearest(value) as i32 as u32,
            Number::I8 => nearest(value) as i8 as u8 as u32,
            Number::U8 => nearest(value) as u8 as u32,
            Number::E4m3 => fp8::e4m3(value, hopper),
            Number::E5m2 => fp8::e5m2(value, hopper),
        }
    }

    /// The values of a pair of f16 or bf16, the first one in the low half.
    #[inline(always)]
    pub(crate) fn pair_values(self, pair: u32) -> [f32; 2] {
        if self == Number::Bf16 { cvt::bf16x2_to_f32(pair) } else { cvt::f16x2_to_f32(pair) }
    }

    /// The bits of a pair of values as f16 or bf16, the first one low.
    #[inline(always)]
    pub(crate) fn pair_of(self, [low, high]: [f32; 2]) -> u32 {
        if self == Number::Bf16 { cvt::bf16x2(low, high) } else { cvt::f16x2(low, high) }
    }
}

/// The nearest integer, of two the even one.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    // From here on all are integers; what is added leaves no room for a fraction.
    const WHOLE: f32 = 8_388_608.0;
    let size = f32::from_bits(x.to_bits() & 0x7fff_ffff);
    if size < WHOLE {
        let whole = (size + WHOLE) - WHOLE;
        f32::from_bits(whole.to_bits() | x.to_bits() & 0x8000_0000)
    } else {
        x
    }
}
