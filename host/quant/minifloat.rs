//! Floating-point formats of four and eight bits.

use std::sync::LazyLock;

use super::format::nearest_of;

/// A format with a sign, an exponent and a mantissa, subnormal numbers and two zeros.
pub(super) struct Minifloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    special: Special,
    /// The finite values from 0 up: codes count them.
    magnitudes: LazyLock<Vec<f32>>,
}

/// Which codes are not numbers.
#[derive(Clone, Copy)]
enum Special {
    /// None.
    None,
    /// The highest code of each sign is NaN.
    Nan,
    /// The highest exponent is infinity and NaN.
    Ieee,
}

/// FP4 of OCP Microscaling Formats.
pub(super) static E2M1: Minifloat = Minifloat::new(2, 1, Special::None, || E2M1.list());
/// FP8 with the larger mantissa.
pub(super) static E4M3: Minifloat = Minifloat::new(4, 3, Special::Nan, || E4M3.list());
/// FP8 with the larger range.
pub(super) static E5M2: Minifloat = Minifloat::new(5, 2, Special::Ieee, || E5M2.list());

impl Minifloat {
    const fn new(
        exponent_bits: u32,
        mantissa_bits: u32,
        special: Special,
        magnitudes: fn() -> Vec<f32>,
    ) -> Self {
        Minifloat { exponent_bits, mantissa_bits, special, magnitudes: LazyLock::new(magnitudes) }
    }

    fn list(&self) -> Vec<f32> {
        (0..=self.max_code()).map(|code| self.value(code)).collect()
    }

    const fn sign(&self) -> u8 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The code of the highest finite value.
    const fn max_code(&self) -> u8 {
        match self.special {
            Special::None => self.sign() - 1,
            Special::Nan => self.sign() - 2,
            Special::Ieee => (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1,
        }
    }

    /// The highest finite value.
    pub(super) const fn max(&self) -> f32 {
        self.magnitude(self.max_code())
    }

    /// The value of a code without a sign that stands for a number.
    const fn magnitude(&self, code: u8) -> f32 {
        let (exponent, mantissa) = (code >> self.mantissa_bits, code & ((1 << self.mantissa_bits) - 1));
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        // Subnormal numbers have the exponent of the lowest normal ones, without the leading one.
        let (significand, exponent) = match exponent {
            0 => (mantissa as u32, 1),
            _ => (mantissa as u32 | 1 << self.mantissa_bits, exponent as i32),
        };
        let scale = exponent - bias - self.mantissa_bits as i32;
        // A power of two, from its exponent in f32.
        significand as f32 * f32::from_bits(((scale + 127) as u32) << 23)
    }

    /// The value of a code.
    pub(super) fn value(&self, code: u8) -> f32 {
        let magnitude = code & (self.sign() - 1);
        let value = match self.special {
            _ if magnitude <= self.max_code() => self.magnitude(magnitude),
            Special::Ieee if magnitude == self.max_code() + 1 => f32::INFINITY,
            _ => f32::NAN,
        };
        if code & self.sign() == 0 { value } else { -value }
    }

    /// The code of the finite value that is nearest to `x`, of two the even one.
    pub(super) fn nearest(&self, x: f64) -> u8 {
        let magnitude = nearest_of(&self.magnitudes, x.abs());
        if x < 0.0 && magnitude != 0 { magnitude | self.sign() } else { magnitude }
    }
}
