//! Numbers rounded to types of 16 bits, as `f64`.

use super::codes::{exponent, power, round_even};

/// A floating-point type of 16 bits.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfKind {
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    BF16,
}

impl HalfKind {
    /// Bits of the mantissa, and the exponent of the lowest normal number.
    #[inline(always)]
    const fn form(self) -> (i32, i32) {
        match self {
            HalfKind::F16 => (10, -14),
            HalfKind::BF16 => (7, -126),
        }
    }

    /// The largest number.
    #[inline(always)]
    pub const fn max(self) -> f64 {
        match self {
            HalfKind::F16 => 65504.0,
            HalfKind::BF16 => (2.0 - 1.0 / 128.0) * power(127),
        }
    }

    /// The lowest positive number that has all its digits.
    #[inline(always)]
    pub const fn min_normal(self) -> f64 {
        power(self.form().1)
    }

    /// The exponent of the last digit of a number's.
    #[inline(always)]
    fn unit(self, x: f64) -> i32 {
        let (mantissa, least) = self.form();
        exponent(x).max(least) - mantissa
    }

    /// The nearest number of the type, of two the even one; infinite beyond its range.
    #[inline]
    pub fn round(self, x: f64) -> f64 {
        if x.is_nan() || x.is_infinite() {
            return x;
        }
        // Too large for both types, and so that powers below are numbers.
        if exponent(x) > 200 {
            return if x < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
        }
        let unit = self.unit(x);
        let rounded = round_even(x * power(-unit)) * power(unit);
        if rounded > self.max() {
            f64::INFINITY
        } else if rounded < -self.max() {
            f64::NEG_INFINITY
        } else {
            rounded
        }
    }

    /// The number after one of the type that is not negative; infinite after the largest.
    #[inline]
    pub fn next_up(self, x: f64) -> f64 {
        self.round(x + power(self.unit(x)))
    }

    /// The bits of a number of the type.
    #[inline]
    pub fn bits(self, x: f64) -> u16 {
        let (mantissa, least) = self.form();
        let magnitude = x.abs();
        let exponent = exponent(magnitude).max(least);
        let units = (magnitude * power(mantissa - exponent)) as u32;
        let bits = (((exponent - least) as u32) << mantissa) + units;
        bits as u16 | if x.is_sign_negative() { 0x8000 } else { 0 }
    }
}

impl HalfKind {
    /// The finite number of these bits.
    #[inline]
    pub fn value(self, bits: u16) -> f64 {
        let (mantissa, least) = self.form();
        let magnitude = (bits & 0x7fff) as i32;
        let (exponent, digits) = (magnitude >> mantissa, magnitude & ((1 << mantissa) - 1));
        let (units, exponent) = if exponent == 0 { (digits, 1) } else { (digits | 1 << mantissa, exponent) };
        let value = units as f64 * power(exponent - 1 + least - mantissa);
        if bits & 0x8000 == 0 { value } else { -value }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn numbers_are_those_of_the_types() {
        let mut x = 1.7e-9f32;
        while x < 1e6 {
            for x in [x, -x] {
                assert_eq!(HalfKind::F16.round(x.into()), f16::from_f32(x).to_f64(), "{x}");
                assert_eq!(HalfKind::BF16.round(x.into()), bf16::from_f32(x).to_f64(), "{x}");
            }
            x *= 1.000_123;
        }
        for bits in 0..=u16::MAX {
            let (narrow, wide) = (f16::from_bits(bits), bf16::from_bits(bits));
            if narrow.is_finite() {
                assert_eq!(HalfKind::F16.round(narrow.to_f64()), narrow.to_f64());
                assert_eq!(HalfKind::F16.bits(narrow.to_f64()), bits);
                assert_eq!(HalfKind::F16.value(bits).to_bits(), narrow.to_f64().to_bits());
            }
            if wide.is_finite() {
                assert_eq!(HalfKind::BF16.round(wide.to_f64()), wide.to_f64());
                assert_eq!(HalfKind::BF16.bits(wide.to_f64()), bits);
                assert_eq!(HalfKind::BF16.value(bits).to_bits(), wide.to_f64().to_bits());
            }
        }
    }

    #[test]
    fn halves_go_to_the_even_number_and_all_digits_count() {
        let (one, unit) = (1.0, power(-10));
        assert_eq!(HalfKind::F16.round(one + unit / 2.0), one);
        assert_eq!(HalfKind::F16.round(one + unit * 1.5), one + 2.0 * unit);
        // The crate `half` takes this for a half, since it drops 32 digits first.
        assert_eq!(HalfKind::F16.round(one + unit / 2.0 + f64::EPSILON), one + unit);
        assert_eq!(HalfKind::F16.round(65519.99), 65504.0);
        assert_eq!(HalfKind::F16.round(65520.0), f64::INFINITY);
        assert_eq!(HalfKind::BF16.round(-1e300), f64::NEG_INFINITY);
        assert_eq!(HalfKind::F16.next_up(0.0), power(-24));
        assert_eq!(HalfKind::F16.next_up(65504.0), f64::INFINITY);
        assert_eq!(HalfKind::BF16.next_up(2.0 - power(-7)), 2.0);
    }
}
