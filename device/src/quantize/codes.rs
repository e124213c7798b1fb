//! The codes of a format, and the values that they stand for.

use crate::tile::NF4;

/// How a format's codes are interpreted.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Integers from 0 on.
    Unsigned,
    /// Integers in two's complement.
    Signed,
    /// -1 and 1.
    Sign,
    /// The quantiles of [`NF4`].
    Normal,
    /// Floating-point numbers with subnormal ones and two zeros.
    Float,
}

/// The codes of a format of narrow weights.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    kind: Kind,
    /// Of a code.
    bits: u32,
    /// Bits of a floating-point number's mantissa.
    mantissa: u32,
    /// The code of the highest finite floating-point number.
    most: u32,
}

impl Codes {
    /// Of integers, signs or quantiles of so many bits.
    pub const fn new(kind: Kind, bits: u32) -> Self {
        Codes { kind, bits, mantissa: 0, most: 0 }
    }

    /// Of floating-point numbers of so many bits, some of them of the mantissa, whose highest finite one has the code `most`.
    pub const fn float(bits: u32, mantissa: u32, most: u32) -> Self {
        Codes { kind: Kind::Float, bits, mantissa, most }
    }

    /// How they are interpreted.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Bits of a code: 1, 2, 4 or 8.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// Whether all values are integers.
    pub const fn are_integers(&self) -> bool {
        matches!(self.kind, Kind::Unsigned | Kind::Signed | Kind::Sign)
    }

    /// The distance between neighbouring integers.
    pub const fn step(&self) -> f64 {
        if matches!(self.kind, Kind::Sign) { 2.0 } else { 1.0 }
    }

    /// The bit of a floating-point number's sign.
    const fn sign(&self) -> u32 {
        1 << (self.bits - 1)
    }

    /// The exponent of the lowest normal number, and of subnormal ones.
    const fn least(&self) -> i32 {
        2 - (1 << (self.bits - self.mantissa - 2))
    }

    /// The value of a floating-point code without a sign.
    const fn magnitude(&self, code: u32) -> f64 {
        let (exponent, mantissa) = (code >> self.mantissa, code & ((1 << self.mantissa) - 1));
        // Subnormal numbers have the exponent of the lowest normal ones, without the leading one.
        let (significand, exponent) = match exponent {
            0 => (mantissa, 1),
            _ => (mantissa | 1 << self.mantissa, exponent as i32),
        };
        significand as f64 * power(exponent - 1 + self.least() - self.mantissa as i32)
    }

    /// The lowest and the highest finite value.
    #[inline]
    pub const fn range(&self) -> (f64, f64) {
        let half = (1u32 << (self.bits - 1)) as f64;
        match self.kind {
            Kind::Unsigned => (0.0, 2.0 * half - 1.0),
            Kind::Signed => (-half, half - 1.0),
            Kind::Sign | Kind::Normal => (-1.0, 1.0),
            Kind::Float => (-self.magnitude(self.most), self.magnitude(self.most)),
        }
    }

    /// The value of a code of these bits that stands for a number, exact.
    #[inline]
    pub fn value(&self, code: u32) -> f64 {
        match self.kind {
            Kind::Unsigned => code as f64,
            Kind::Signed => ((code << (32 - self.bits)).cast_signed() >> (32 - self.bits)) as f64,
            Kind::Sign => code as f64 * 2.0 - 1.0,
            Kind::Normal => NF4::QUANTILES[code as usize & 15] as f64,
            Kind::Float => {
                let magnitude = self.magnitude(code & (self.sign() - 1));
                if code & self.sign() == 0 { magnitude } else { -magnitude }
            }
        }
    }

    /// The code of the finite value that is nearest to `x`, of two equally near ones that of the even code. NaN counts as 0.
    #[inline]
    pub fn nearest(&self, x: f64) -> u32 {
        let (lowest, highest) = self.range();
        let x = if x.is_nan() { 0.0 } else { limited(x, lowest, highest) };
        match self.kind {
            Kind::Unsigned | Kind::Signed => {
                (round_even(x) as i32).cast_unsigned() & (u32::MAX >> (32 - self.bits))
            }
            Kind::Sign => (x > 0.0) as u32,
            Kind::Normal => nearest_quantile(x),
            Kind::Float => {
                let magnitude = self.nearest_magnitude(x.abs());
                if x < 0.0 && magnitude != 0 { magnitude | self.sign() } else { magnitude }
            }
        }
    }

    fn nearest_magnitude(&self, x: f64) -> u32 {
        let exponent = exponent(x).max(self.least());
        // Units of the last place: a mantissa that is rounded up to the next power of two goes on to its code.
        let units = round_even(x * power(self.mantissa as i32 - exponent)) as u32;
        (((exponent - self.least()) as u32) << self.mantissa) + units
    }

    /// A code as it is packed: signed integers of several bits in offset binary (the value less the lowest one), which a
    /// mask and one subtraction turn into a number. Its own inverse.
    #[inline]
    pub const fn packed(&self, code: u32) -> u32 {
        if matches!(self.kind, Kind::Signed) { code ^ 1 << (self.bits - 1) } else { code }
    }
}

/// The quantile of NF4 that is nearest to `x`, of two the even one.
fn nearest_quantile(x: f64) -> u32 {
    let values = &NF4::QUANTILES;
    let mut above = 1;
    while above < values.len() - 1 && (values[above] as f64) < x {
        above += 1;
    }
    let (down, up) = (x - values[above - 1] as f64, values[above] as f64 - x);
    let lower = if down == up { above % 2 == 1 } else { down < up };
    (above - lower as usize) as u32
}

/// The nearest integer, of two the even one, of magnitudes below 2⁵¹; of larger ones a number of the same sign and order. There `f64` has no
/// digits behind the point, so adding that rounds. Processors of ten years ago have no instruction for it.
#[inline(always)]
pub fn round_even(x: f64) -> f64 {
    const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
    x + WHOLE - WHOLE
}

/// The product, rounded: where a sum follows, the device would else round but once.
#[inline(always)]
pub(super) fn product(x: f64, y: f64) -> f64 {
    #[cfg(target_arch = "nvptx64")]
    return crate::arch::math::mul_rn_f64(x, y);
    #[cfg(not(target_arch = "nvptx64"))]
    return x * y;
}

/// The number, or the limit that it is beyond.
#[inline(always)]
pub(super) fn limited(x: f64, lowest: f64, highest: f64) -> f64 {
    if x < lowest {
        lowest
    } else if x > highest {
        highest
    } else {
        x
    }
}

/// The exponent of the largest power of two up to a positive number's magnitude, of 0 and of subnormal ones less than all others'.
#[inline(always)]
pub(super) const fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

/// Two to the `e`, which is an exponent of a normal `f64`.
#[inline(always)]
pub(super) const fn power(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// e4m3, e5m2 and e2m1.
    const FLOATS: [Codes; 3] = [Codes::float(8, 3, 0x7e), Codes::float(8, 2, 0x7b), Codes::float(4, 1, 7)];

    #[test]
    fn the_nearest_value_of_all_is_found() {
        let others = [
            Codes::new(Kind::Unsigned, 4),
            Codes::new(Kind::Signed, 2),
            Codes::new(Kind::Signed, 8),
            Codes::new(Kind::Sign, 1),
            Codes::new(Kind::Normal, 4),
        ];
        for codes in others.into_iter().chain(FLOATS) {
            let count = match codes.kind {
                Kind::Float => codes.most + 1,
                _ => 1 << codes.bits,
            };
            let (_, highest) = codes.range();
            for i in -3000..3000 {
                let x = i as f64 / 2000.0 * highest;
                let (found, off) = (codes.nearest(x), |code| (codes.value(code) - x).abs());
                let signs = if codes.kind == Kind::Float { [0, codes.sign()] } else { [0, 0] };
                let best =
                    (0..count).flat_map(|code| signs.map(|sign| off(code | sign))).fold(f64::MAX, f64::min);
                assert_eq!(off(found), best, "{codes:?} {x}");
            }
        }
    }

    #[test]
    fn of_two_equally_near_values_the_even_code_is_taken() {
        for codes in FLOATS {
            for code in 0..codes.most {
                let middle = (codes.value(code) + codes.value(code + 1)) / 2.0;
                assert_eq!(codes.nearest(middle), code + code % 2, "{codes:?} {code}");
                assert_eq!(codes.nearest(codes.value(code)), code);
            }
        }
    }

    #[test]
    fn ranges_are_those_of_the_formats() {
        assert_eq!(FLOATS.map(|codes| codes.range().1), [448.0, 57344.0, 6.0]);
        assert_eq!(Codes::new(Kind::Signed, 4).range(), (-8.0, 7.0));
        assert_eq!(Codes::new(Kind::Unsigned, 1).range(), (0.0, 1.0));
    }
}
