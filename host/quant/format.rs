//! The number formats of narrow weights: what each code stands for.

use std::fmt;
use std::str::FromStr;

use tilewright_device::quantize::{Codes, Kind};

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

    /// The floating-point numbers that it has, if it has.
    const fn float(self) -> Option<Minifloat> {
        match self {
            Format::FP4 => Some(minifloat::E2M1),
            Format::E4M3 => Some(minifloat::E4M3),
            Format::E5M2 => Some(minifloat::E5M2),
            _ => None,
        }
    }

    /// Its codes, as kernels know them too.
    pub(crate) const fn code_table(self) -> Codes {
        let kind = match self {
            Format::U4 | Format::U2 | Format::U1 => Kind::Unsigned,
            Format::I4 | Format::I2 | Format::I8 => Kind::Signed,
            Format::I1 => Kind::Sign,
            Format::NF4 => Kind::Normal,
            Format::FP4 => return minifloat::E2M1.codes,
            Format::E4M3 => return minifloat::E4M3.codes,
            Format::E5M2 => return minifloat::E5M2.codes,
        };
        Codes::new(kind, self.bits())
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
        match self.float() {
            Some(float) => float.value(code),
            None => self.code_table().value(code.into()) as f32,
        }
    }

    /// The lowest and the highest finite value.
    pub fn range(self) -> (f32, f32) {
        let (lowest, highest) = self.code_table().range();
        (lowest as f32, highest as f32)
    }

    /// The code of the finite value that is nearest to `x`, of two equally near ones that of the even code. NaN counts as 0.
    pub fn nearest(self, x: f64) -> u8 {
        self.code_table().nearest(x) as u8
    }

    /// A code as it is packed: signed integers of several bits in offset binary (the value less the lowest one), which a
    /// mask and one subtraction turn into a number. Its own inverse.
    pub fn packed(self, code: u8) -> u8 {
        self.code_table().packed(code.into()) as u8
    }
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
