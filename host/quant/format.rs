//! The number formats of narrow weights: what each code stands for.

use std::fmt;
use std::str::FromStr;

use tilewright_device::tile::NF4;

use super::minifloat::{self, Minifloat};

/// The number format of narrow weights.
///
/// A code is the low [`bits`](Self::bits) bits of a byte. Signed integers are two's complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// Unsigned, 0 to 15.
    U4,
    /// Signed, -8 to 7.
    I4,
    /// Unsigned, 0 to 3.
    U2,
    /// Signed, -2 to 1.
    I2,
    /// Unsigned, 0 and 1.
    U1,
    /// A sign: code 0 is -1, code 1 is 1.
    I1,
    /// Signed, -128 to 127.
    I8,
    /// NormalFloat: 16 quantiles of the normal distribution in -1 to 1, with an exact 0 (Dettmers et al. 2023, "QLoRA",
    /// appendix E).
    NF4,
    /// e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives (OCP Microscaling Formats, version 1.0).
    FP4,
    /// Four bits of exponent, three of mantissa, to ±448, without infinities (Micikevicius et al. 2022, "FP8 formats for deep
    /// learning").
    E4M3,
    /// Five bits of exponent, two of mantissa, to ±57344, with infinities as IEEE formats have them (the same paper).
    E5M2,
}

/// How a format's codes are interpreted.
#[derive(Clone, Copy)]
enum Kind {
    Unsigned,
    Signed,
    Sign,
    Normal,
    Float(&'static Minifloat),
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 11] = [
        Format::U4,
        Format::I4,
        Format::U2,
        Format::I2,
        Format::U1,
        Format::I1,
        Format::I8,
        Format::NF4,
        Format::FP4,
        Format::E4M3,
        Format::E5M2,
    ];

    /// Bits of a code: 1, 2, 4 or 8.
    pub const fn bits(self) -> u32 {
        match self {
            Format::U1 | Format::I1 => 1,
            Format::U2 | Format::I2 => 2,
            Format::U4 | Format::I4 | Format::NF4 | Format::FP4 => 4,
            Format::I8 | Format::E4M3 | Format::E5M2 => 8,
        }
    }

    /// The format's name: `u4`, `nf4`, `e4m3`, …
    pub const fn name(self) -> &'static str {
        match self {
            Format::U4 => "u4",
            Format::I4 => "i4",
            Format::U2 => "u2",
            Format::I2 => "i2",
            Format::U1 => "u1",
            Format::I1 => "i1",
            Format::I8 => "i8",
            Format::NF4 => "nf4",
            Format::FP4 => "fp4",
            Format::E4M3 => "e4m3",
            Format::E5M2 => "e5m2",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Format::U4 | Format::U2 | Format::U1 => Kind::Unsigned,
            Format::I4 | Format::I2 | Format::I8 => Kind::Signed,
            Format::I1 => Kind::Sign,
            Format::NF4 => Kind::Normal,
            Format::FP4 => Kind::Float(&minifloat::E2M1),
            Format::E4M3 => Kind::Float(&minifloat::E4M3),
            Format::E5M2 => Kind::Float(&minifloat::E5M2),
        }
    }

    /// Whether all values are integers: `u*` and `i*`.
    pub const fn is_integer(self) -> bool {
        !matches!(self, Format::NF4 | Format::FP4 | Format::E4M3 | Format::E5M2)
    }

    /// Codes that there are.
    pub const fn codes(self) -> usize {
        1 << self.bits()
    }

    /// The value of a code, exact; bits above the format's are ignored. The codes of fp8 that are no numbers give NaN and
    /// infinities.
    pub fn value(self, code: u8) -> f32 {
        let code = code & (0xff >> (8 - self.bits()));
        match self.kind() {
            Kind::Unsigned => f32::from(code),
            Kind::Signed => {
                let unused = 8 - self.bits();
                f32::from((code << unused).cast_signed() >> unused)
            }
            Kind::Sign => f32::from(code) * 2.0 - 1.0,
            Kind::Normal => NF4::QUANTILES[usize::from(code)],
            Kind::Float(float) => float.value(code),
        }
    }

    /// The lowest and the highest finite value.
    pub fn range(self) -> (f32, f32) {
        let half = (self.codes() / 2) as f32;
        match self.kind() {
            Kind::Unsigned => (0.0, 2.0 * half - 1.0),
            Kind::Signed => (-half, half - 1.0),
            Kind::Sign | Kind::Normal => (-1.0, 1.0),
            Kind::Float(float) => (-float.max(), float.max()),
        }
    }

    /// The code of the finite value that is nearest to `x`, of two equally near ones that of the even code. NaN counts as 0.
    pub fn nearest(self, x: f64) -> u8 {
        let (lowest, highest) = self.range();
        let x = if x.is_nan() { 0.0 } else { x.clamp(lowest.into(), highest.into()) };
        match self.kind() {
            // The cast keeps two's complement: integers of the format lie in i16.
            Kind::Unsigned | Kind::Signed => round_even(x) as i16 as u8 & (0xff >> (8 - self.bits())),
            Kind::Sign => (x > 0.0).into(),
            Kind::Normal => nearest_of(&NF4::QUANTILES, x),
            Kind::Float(float) => float.nearest(x),
        }
    }

    /// A code as it is packed: signed integers of several bits in offset binary (the value less the lowest one), which a
    /// mask and one subtraction turn into a number. Its own inverse.
    pub fn packed(self, code: u8) -> u8 {
        match self.kind() {
            Kind::Signed => code ^ 1 << (self.bits() - 1),
            _ => code,
        }
    }
}

/// The nearest integer, of two the even one, of magnitudes far below 2⁵¹: there `f64` has no digits behind the point, so
/// adding that rounds. Processors of ten years ago have no instruction for it.
pub(super) fn round_even(x: f64) -> f64 {
    const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
    x + WHOLE - WHOLE
}

/// The index of the value that is nearest to `x` in an ascending list, of two the even one.
pub(super) fn nearest_of(values: &[f32], x: f64) -> u8 {
    let above = values.partition_point(|&value| f64::from(value) < x).clamp(1, values.len() - 1);
    let (down, up) = (x - f64::from(values[above - 1]), f64::from(values[above]) - x);
    let lower = if down == up { above % 2 == 1 } else { down < up };
    (above - usize::from(lower)) as u8
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or(())
    }
}
