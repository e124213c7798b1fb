//! Floating-point numbers of 8 bits.

use std::fmt;

use crate::quant::Format;

macro_rules! floats {
    ($($(#[$doc:meta])* $name:ident $format:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The number of these bits.
            pub const fn from_bits(bits: u8) -> Self {
                $name(bits)
            }
            /// Its bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }
            /// The nearest number, of two the even one; the largest finite one for all that is beyond, infinity too. NaN stays.
            pub fn from_f32(x: f32) -> Self {
                if x.is_nan() {
                    return $name(0x7f);
                }
                let sign = if x.is_sign_negative() { 0x80 } else { 0 };
                $name(Format::$format.nearest(x.abs().into()) | sign)
            }
            /// The value, exact.
            pub fn to_f32(self) -> f32 {
                Format::$format.value(self.0)
            }
        }

        /// As of their values: zeros of either sign are equal, NaN is equal to nothing.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }
    )* };
}
floats! {
    /// Four bits of exponent, three of mantissa, to ±448; NaN but no infinities (Micikevicius et al. 2022, "FP8 formats for deep learning").
    F8E4M3 E4M3;
    /// Five bits of exponent, two of mantissa, to ±57344, with infinities as IEEE formats have them (the same paper).
    F8E5M2 E5M2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_becomes_itself() {
        for bits in 0..=u8::MAX {
            let (x, y) = (F8E4M3::from_bits(bits), F8E5M2::from_bits(bits));
            let finite =
                |value: f32, largest: f32| if value.is_infinite() { largest.copysign(value) } else { value };
            assert!(F8E4M3::from_f32(x.to_f32()).to_bits() == bits || bits & 0x7f == 0x7f, "{x:?}");
            assert!(
                F8E5M2::from_f32(y.to_f32()).to_f32() == finite(y.to_f32(), 57344.0) || bits & 0x7f > 0x7c
            );
        }
    }

    #[test]
    fn values_are_rounded_to_even_and_saturate() {
        let bits = |x| [F8E4M3::from_f32(x).to_bits(), F8E5M2::from_f32(x).to_bits()];
        assert_eq!(bits(1.0), [0x38, 0x3c]);
        assert_eq!(bits(-0.0), [0x80, 0x80]);
        assert_eq!(bits(17.0), [0x58, 0x4c]);
        assert_eq!(bits(19.0), [0x5a, 0x4d]);
        assert_eq!(bits(1e9), [0x7e, 0x7b]);
        assert_eq!(bits(f32::NEG_INFINITY), [0xfe, 0xfb]);
        assert_eq!(bits(-f32::NAN), [0x7f, 0x7f]);
    }
}
