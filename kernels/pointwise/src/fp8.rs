//! Floating-point numbers of 8 bits (Micikevicius et al. 2022), by Hopper's conversions or, with the same results, by f32's arithmetic.

use tilewright_device::arch::cvt;
use tilewright_device::f16;

/// The bits of every NaN.
const NAN: u32 = 0x7f;

/// The value of an e4m3 in the low bits of a word, exact.
#[inline(always)]
pub(crate) fn e4m3_value(bits: u32, hopper: bool) -> f32 {
    if hopper {
        return cvt::f16x2_to_f32(cvt::e4m3x2_to_f16x2(bits as u16))[0];
    }
    let magnitude = bits & 0x7f;
    // The exponents' biases are 7 and 127; subnormal numbers are such of f32 before.
    let value = f32::from_bits(magnitude << 20) * f32::from_bits((127 + 120) << 23);
    let value = if magnitude == NAN { f32::NAN } else { value };
    f32::from_bits(value.to_bits() | (bits & 0x80) << 24)
}

/// The value of an e5m2 in the low bits of a word, exact: it is the upper half of an f16.
#[inline(always)]
pub(crate) fn e5m2_value(bits: u32) -> f32 {
    cvt::f16_to_f32(f16::from_bits((bits << 8) as u16))
}

/// The bits of a value as e4m3, rounded to nearest even and saturated.
#[inline(always)]
pub(crate) fn e4m3(value: f32, hopper: bool) -> u32 {
    // Subnormal numbers are multiples of 2^-9.
    if hopper { cvt::e4m3x2(value, 0.0) as u32 & 0xff } else { rounded::<3, 7>(value, 448.0, 16384.0) }
}

/// The bits of a value as e5m2, rounded to nearest even and saturated.
#[inline(always)]
pub(crate) fn e5m2(value: f32, hopper: bool) -> u32 {
    // Subnormal numbers are multiples of 2^-16.
    if hopper { cvt::e5m2x2(value, 0.0) as u32 & 0xff } else { rounded::<2, 15>(value, 57344.0, 128.0) }
}

/// The same with so many bits of mantissa and this bias of the exponent; numbers next to `coarse` are as far apart in f32 as subnormal
/// ones are.
#[inline(always)]
fn rounded<const MANTISSA: u32, const BIAS: u32>(value: f32, largest: f32, coarse: f32) -> u32 {
    let sign = value.to_bits() >> 24 & 0x80;
    let size = f32::from_bits(value.to_bits() & 0x7fff_ffff);
    // NaN is not less.
    let kept = if size < largest { size } else { largest };
    let shift = 23 - MANTISSA;
    let bits = kept.to_bits();
    // Half of the last place, less where that makes it even.
    let nearest = (bits + (1 << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
    let normal = nearest.wrapping_sub((127 - BIAS) << MANTISSA);
    let subnormal = (kept + coarse).to_bits() - coarse.to_bits();
    let least = f32::from_bits((127 - BIAS + 1) << 23);
    let code = if kept < least { subnormal } else { normal };
    if size.is_nan() { NAN } else { code | sign }
}
