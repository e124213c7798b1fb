//! Floating-point formats of four and eight bits.

use tilewright_device::quantize::Codes;

/// A format with a sign, an exponent and a mantissa, subnormal numbers and two zeros.
#[derive(Clone, Copy)]
pub(super) struct Minifloat {
    pub(super) codes: Codes,
    /// The code of the highest finite value, and behind it that of infinity, if there is one.
    most: u8,
    infinity: Option<u8>,
}

/// FP4 of OCP Microscaling Formats: all codes are numbers.
pub(super) const E2M1: Minifloat = Minifloat::new(4, 1, 7, None);
/// FP8 with the larger mantissa: the highest code of each sign is NaN.
pub(super) const E4M3: Minifloat = Minifloat::new(8, 3, 0x7e, None);
/// FP8 with the larger range: the highest exponent is infinity and NaN.
pub(super) const E5M2: Minifloat = Minifloat::new(8, 2, 0x7b, Some(0x7c));

impl Minifloat {
    const fn new(bits: u32, mantissa: u32, most: u8, infinity: Option<u8>) -> Self {
        Minifloat { codes: Codes::float(bits, mantissa, most as u32), most, infinity }
    }

    /// The value of a code; NaN and infinities of those that are no numbers.
    pub(super) fn value(&self, code: u8) -> f32 {
        let sign = 1 << (self.codes.bits() - 1);
        let magnitude = code & (sign - 1);
        if magnitude <= self.most {
            return self.codes.value(code.into()) as f32;
        }
        let value = if self.infinity == Some(magnitude) { f32::INFINITY } else { f32::NAN };
        if code & sign == 0 { value } else { -value }
    }
}
