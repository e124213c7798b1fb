//! Conversions between f32 and the 16-bit and 8-bit floating-point types.
//!
//! A pair is a `u32` with its first element in the low half, as two neighbours in memory are.
//! The conversions of the `half` crate are dozens of integer instructions on the device; these are one.
//!
//! PTX ISA, "Data Movement and Conversion Instructions: cvt".

use half::{bf16, f16};

macro_rules! pack {
    ($($(#[$doc:meta])* $name:ident: $ty:ty, $class:ident, $asm:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(lo: f32, hi: f32) -> $ty {
            let r: $ty;
            // SAFETY: registers alone. The instruction names the high half first.
            unsafe { ptx!($asm, out($class) r, in(reg32) hi, in(reg32) lo, options(pure, nomem)) };
            r
        }
    )* };
}

pack! {
    /// `cvt.rn.f16x2.f32`: a pair of f16, each rounded to nearest.
    ///
    /// PTX ISA, "cvt"; sm_80.
    f16x2: u32, reg32, "cvt.rn.f16x2.f32 {0}, {1}, {2};";

    /// `cvt.rn.bf16x2.f32`: a pair of bf16, each rounded to nearest.
    ///
    /// PTX ISA, "cvt"; sm_80.
    bf16x2: u32, reg32, "cvt.rn.bf16x2.f32 {0}, {1}, {2};";

    /// `cvt.rn.satfinite.e4m3x2.f32`: a pair of e4m3, each rounded to nearest and saturated.
    ///
    /// PTX ISA, "cvt"; sm_89.
    e4m3x2: u16, reg16, "cvt.rn.satfinite.e4m3x2.f32 {0}, {1}, {2};";

    /// `cvt.rn.satfinite.e5m2x2.f32`: a pair of e5m2, each rounded to nearest and saturated.
    ///
    /// PTX ISA, "cvt"; sm_89.
    e5m2x2: u16, reg16, "cvt.rn.satfinite.e5m2x2.f32 {0}, {1}, {2};";
}

/// Two `cvt.rn.satfinite.e4m3x2.f32`: four e4m3, each rounded to nearest and saturated, the first in the low byte.
///
/// PTX ISA, "cvt"; sm_89.
#[inline(always)]
pub fn e4m3x4(x: [f32; 4]) -> u32 {
    let r: u32;
    // SAFETY: registers alone. The instruction names the high half first.
    unsafe {
        ptx!(
            "{{ .reg .b16 lo, hi; cvt.rn.satfinite.e4m3x2.f32 lo, {2}, {1}; cvt.rn.satfinite.e4m3x2.f32 hi, {4}, {3}; mov.b32 {0}, {{lo, hi}}; }}",
            out(reg32) r, in(reg32) x[0], in(reg32) x[1], in(reg32) x[2], in(reg32) x[3], options(pure, nomem)
        )
    };
    r
}

/// `cvt.rn.f16.f32`: rounded to nearest.
///
/// PTX ISA, "cvt"; sm_80.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> f16 {
    let r: u16;
    // SAFETY: registers alone.
    unsafe { ptx!("cvt.rn.f16.f32 {0}, {1};", out(reg16) r, in(reg32) x, options(pure, nomem)) };
    f16::from_bits(r)
}

/// `cvt.rn.bf16.f32`: rounded to nearest.
///
/// PTX ISA, "cvt"; sm_80.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> bf16 {
    let r: u16;
    // SAFETY: registers alone.
    unsafe { ptx!("cvt.rn.bf16.f32 {0}, {1};", out(reg16) r, in(reg32) x, options(pure, nomem)) };
    bf16::from_bits(r)
}

/// `cvt.rna.tf32.f32`: an f32 of which the 13 low bits are zero, rounded to nearest, ties away from zero.
///
/// PTX ISA, "cvt"; sm_80.
#[inline(always)]
pub fn f32_to_tf32(x: f32) -> f32 {
    let r: f32;
    // SAFETY: registers alone.
    unsafe { ptx!("cvt.rna.tf32.f32 {0}, {1};", out(reg32) r, in(reg32) x, options(pure, nomem)) };
    r
}

/// `cvt.f32.f16`, exact.
///
/// PTX ISA, "cvt"; sm_80.
#[inline(always)]
pub fn f16_to_f32(x: f16) -> f32 {
    let r: f32;
    // SAFETY: registers alone.
    unsafe { ptx!("cvt.f32.f16 {0}, {1};", out(reg32) r, in(reg16) x.to_bits(), options(pure, nomem)) };
    r
}

/// A bf16 as f32, exact: its bits are the high half.
#[inline(always)]
pub fn bf16_to_f32(x: bf16) -> f32 {
    f32::from_bits((x.to_bits() as u32) << 16)
}

/// Two `cvt.f32.f16`: both elements of a pair, exact.
///
/// PTX ISA, "cvt"; sm_80.
#[inline(always)]
pub fn f16x2_to_f32(pair: u32) -> [f32; 2] {
    let (lo, hi): (f32, f32);
    // SAFETY: registers alone.
    unsafe {
        ptx!("{{ .reg .b16 lo, hi; mov.b32 {{lo, hi}}, {2}; cvt.f32.f16 {0}, lo; cvt.f32.f16 {1}, hi; }}",
            out(reg32) lo, out(reg32) hi, in(reg32) pair, options(pure, nomem))
    };
    [lo, hi]
}

/// Both elements of a pair of bf16 as f32, exact.
#[inline(always)]
pub fn bf16x2_to_f32(pair: u32) -> [f32; 2] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)]
}

/// `cvt.rn.f16x2.e4m3x2`: a pair of e4m3 as a pair of f16, exact.
///
/// PTX ISA, "cvt"; sm_89.
#[inline(always)]
pub fn e4m3x2_to_f16x2(pair: u16) -> u32 {
    let r: u32;
    // SAFETY: registers alone.
    unsafe { ptx!("cvt.rn.f16x2.e4m3x2 {0}, {1};", out(reg32) r, in(reg16) pair, options(pure, nomem)) };
    r
}

/// `cvt.rn.f16x2.e5m2x2`: a pair of e5m2 as a pair of f16, exact.
///
/// PTX ISA, "cvt"; sm_89.
#[inline(always)]
pub fn e5m2x2_to_f16x2(pair: u16) -> u32 {
    let r: u32;
    // SAFETY: registers alone.
    unsafe { ptx!("cvt.rn.f16x2.e5m2x2 {0}, {1};", out(reg32) r, in(reg16) pair, options(pure, nomem)) };
    r
}
