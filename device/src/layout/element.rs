//! The types that tiles are made of.

use half::{bf16, f16};

use crate::arch::cvt;

/// An element type of tiles: `f16`, `bf16` or `f32`.
#[diagnostic::on_unimplemented(
    message = "tiles cannot hold elements of type `{Self}`",
    note = "element types are f16, bf16 and f32"
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
    /// The value as `f32`, exact.
    fn to_f32(self) -> f32;
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
    ($t:ident, $name:literal, $pack:ident, $widen:ident) => {
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
half_element!(f16, "f16", f16x2, f16_to_f32);
half_element!(bf16, "bf16", bf16x2, bf16_to_f32);

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
