//! Small floating-point formats, to and from f32 and f64.
//!
//! PTX ISA, "cvt", "Alternate Floating-Point Data Formats". A NaN becomes the format's canonical one, all ones but for the
//! sign, whatever its sign and payload were; subnormal numbers are numbers like others.

pub(crate) mod exact;
#[cfg(test)]
mod tests;

/// The f32 NaN that instructions return.
pub(crate) const NAN: u32 = 0x7fff_ffff;

/// A binary format of a sign, an exponent and a mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    exponent: u32,
    mantissa: u32,
    /// Whether the greatest exponent is that of infinities and NaN, as in IEEE 754; else all ones alone are NaN.
    infinities: bool,
}

/// How a value that the format does not have is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// `.rn`: to the nearest, of two the even one.
    Nearest,
    /// `.rna`: to the nearest, of two the one farther from zero.
    Away,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards minus infinity.
    Down,
    /// `.rp`: towards infinity.
    Up,
}

impl Format {
    /// `.f16`.
    pub(crate) const F16: Format = Format { exponent: 5, mantissa: 10, infinities: true };
    /// `.bf16`.
    pub(crate) const BF16: Format = Format { exponent: 8, mantissa: 7, infinities: true };
    /// `.tf32`, in its 19 bits: in a register they are the upper ones.
    pub(crate) const TF32: Format = Format { exponent: 8, mantissa: 10, infinities: true };
    /// `.e4m3`.
    pub(crate) const E4M3: Format = Format { exponent: 4, mantissa: 3, infinities: false };
    /// `.e5m2`.
    pub(crate) const E5M2: Format = Format { exponent: 5, mantissa: 2, infinities: true };
    /// `.f32`.
    pub(crate) const F32: Format = Format { exponent: 8, mantissa: 23, infinities: true };

    /// The canonical NaN.
    pub(crate) const fn nan(self) -> u32 {
        (1 << (self.exponent + self.mantissa)) - 1
    }

    /// Half the distance from a power of two to the number below, of the power.
    pub(crate) fn half_step(self) -> f64 {
        1.0 / f64::from(1u32 << (self.mantissa + 2))
    }

    /// The least normal number above zero.
    pub(crate) const fn least_normal(self) -> u32 {
        1 << self.mantissa
    }

    /// The greatest finite number.
    pub(crate) const fn max(self) -> u32 {
        if self.infinities { self.infinity() - 1 } else { self.nan() - 1 }
    }

    /// Infinity; where the format has none, NaN.
    const fn infinity(self) -> u32 {
        if self.infinities { ((1 << self.exponent) - 1) << self.mantissa } else { self.nan() }
    }

    /// The sign's bit.
    const fn sign(self) -> u32 {
        1 << (self.exponent + self.mantissa)
    }

    /// The exponent of the smallest normal number.
    const fn smallest(self) -> i32 {
        2 - (1 << (self.exponent - 1))
    }

    /// `x` in this format. With `saturate` (`.satfinite`) what is greater than the greatest finite number becomes that.
    ///
    /// Every f32 and every integer up to 2⁵³ is exact in f64, so this rounds only once.
    pub(crate) fn encode(self, x: f64, rounding: Rounding, saturate: bool) -> u32 {
        if x.is_nan() {
            return self.nan();
        }
        let negative = x.is_sign_negative();
        let magnitude = if x.is_infinite() {
            if saturate { self.max() } else { self.infinity() }
        } else {
            let rounded = self.round(x.abs(), negative, rounding);
            if rounded <= self.max() {
                rounded
            } else if saturate || !away_from_zero(rounding, negative, true) {
                self.max()
            } else {
                self.infinity()
            }
        };
        magnitude | if negative { self.sign() } else { 0 }
    }

    /// The bits of a finite `x` that is not negative, as if there were no greatest exponent.
    fn round(self, x: f64, negative: bool, rounding: Rounding) -> u32 {
        let field = (x.to_bits() >> 52) as i32;
        let (mantissa, exponent) = match field {
            0 => (x.to_bits(), -1022),
            _ => (x.to_bits() & ((1 << 52) - 1) | 1 << 52, field - 1023),
        };
        // x is mantissa · 2^(exponent - 52); the result counts units of 2^(scale - self.mantissa).
        let scale = exponent.max(self.smallest());
        let drop = (scale - self.mantissa as i32 - exponent + 52).min(60) as u32;
        let (kept, rest) = (mantissa >> drop, mantissa & ((1 << drop) - 1));
        let half = 1u64 << (drop - 1);
        let up = match rounding {
            Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
            Rounding::Away => rest >= half,
            _ => rest != 0 && away_from_zero(rounding, negative, false),
        };
        // An overflow of the mantissa carries into the exponent. Far above any format's range the exponent is clipped.
        let above = (scale - self.smallest()).min(1 << self.exponent) as u32;
        (above << self.mantissa) + kept as u32 + u32::from(up)
    }

    /// The value of a number's low bits, exact; every NaN becomes [`NAN`].
    pub(crate) const fn decode(self, bits: u32) -> f32 {
        let sign = if bits & self.sign() != 0 { 1 << 31 } else { 0 };
        let magnitude = bits & self.nan();
        if magnitude > self.max() {
            let infinite = self.infinities && magnitude == self.infinity();
            return f32::from_bits(if infinite { sign | 0x7f80_0000 } else { NAN });
        }
        let up = 23 - self.mantissa;
        if self.exponent == 8 {
            return f32::from_bits(sign | magnitude << up);
        }
        if magnitude >> self.mantissa != 0 {
            let bias = 127 - (1 << (self.exponent - 1)) + 1;
            return f32::from_bits(sign | ((magnitude << up) + (bias << 23)));
        }
        // A subnormal number: normal in f32, a small multiple of a power of two.
        let unit = f32::from_bits(((127 + self.smallest() - self.mantissa as i32) as u32) << 23);
        f32::from_bits(sign | (magnitude as f32 * unit).to_bits())
    }

    /// Whether it is a subnormal number.
    pub(crate) const fn is_subnormal(self, bits: u32) -> bool {
        let magnitude = bits & self.nan();
        magnitude != 0 && magnitude >> self.mantissa == 0
    }

    /// `.relu`: negative numbers become zero.
    pub(crate) const fn relu(self, bits: u32) -> u32 {
        let negative = bits & self.sign() != 0 && bits & self.nan() <= self.infinity();
        if negative { 0 } else { bits }
    }
}

/// Whether a number between two others goes to the one farther from zero; `nearest` for roundings to nearest.
fn away_from_zero(rounding: Rounding, negative: bool, nearest: bool) -> bool {
    match rounding {
        Rounding::Nearest | Rounding::Away => nearest,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    }
}

/// Every value of an 8-bit format.
const fn table(format: Format) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        values[bits] = format.decode(bits as u32);
        bits += 1;
    }
    values
}

static E4M3: [f32; 256] = table(Format::E4M3);
static E5M2: [f32; 256] = table(Format::E5M2);

/// `cvt.f32.f16`.
#[inline]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let value = widen(bits);
    if value.is_nan() { f32::from_bits(NAN) } else { value }
}

/// An f16 as f32; a NaN is some NaN. In a form that vectorises.
#[inline(always)]
pub(crate) fn widen(bits: u16) -> f32 {
    // As if the exponents had the same bias, which multiplying makes up for; exact, for subnormal numbers too.
    let magnitude = u32::from(bits & 0x7fff);
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    let infinite = u32::from(magnitude >= 0x7c00).wrapping_neg() & 0x7f80_0000;
    f32::from_bits(scaled.to_bits() | infinite | u32::from(bits & 0x8000) << 16)
}

/// The value of a bf16.
#[inline]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    Format::BF16.decode(u32::from(bits))
}

/// The value of an e4m3.
#[inline]
pub(crate) fn e4m3_to_f32(bits: u8) -> f32 {
    E4M3[usize::from(bits)]
}

/// The value of an e5m2.
#[inline]
pub(crate) fn e5m2_to_f32(bits: u8) -> f32 {
    E5M2[usize::from(bits)]
}

/// `cvt.f16.f32`.
#[inline]
pub(crate) fn f32_to_f16(x: f32, rounding: Rounding) -> u16 {
    if rounding != Rounding::Nearest {
        return Format::F16.encode(f64::from(x), rounding, false) as u16;
    }
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let rounded = match magnitude {
        // 2^-14 and up to 2^16: half a unit is added, less a bit for even ones. The carry may reach infinity.
        0x3880_0000..0x4780_0000 => (magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13,
        // The unit in the last place of a half is the smallest f16: the sum rounds as it should.
        0..0x3880_0000 => (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits(),
        0x4780_0000..=0x7f80_0000 => 0x7c00,
        _ => return Format::F16.nan() as u16,
    };
    (rounded | x.to_bits() >> 16 & 0x8000) as u16
}

/// `cvt.bf16.f32`.
#[inline]
pub(crate) fn f32_to_bf16(x: f32, rounding: Rounding) -> u16 {
    if rounding != Rounding::Nearest {
        return Format::BF16.encode(f64::from(x), rounding, false) as u16;
    }
    let bits = x.to_bits();
    if x.is_nan() { Format::BF16.nan() as u16 } else { ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16 }
}

/// `cvt.tf32.f32`: the bits of a register, of which the 13 low ones are zero. A NaN of `.rna` keeps its others.
#[inline]
pub(crate) fn f32_to_tf32(x: f32, rounding: Rounding, saturate: bool) -> u32 {
    if x.is_nan() && rounding == Rounding::Away {
        return x.to_bits() >> 13 << 13;
    }
    Format::TF32.encode(f64::from(x), rounding, saturate) << 13
}

/// `cvt.rn.satfinite.e4m3x2.f32` of one element.
#[inline]
pub(crate) fn f32_to_e4m3(x: f32) -> u8 {
    Format::E4M3.encode(f64::from(x), Rounding::Nearest, true) as u8
}

/// `cvt.rn.satfinite.e5m2x2.f32` of one element.
#[inline]
pub(crate) fn f32_to_e5m2(x: f32) -> u8 {
    Format::E5M2.encode(f64::from(x), Rounding::Nearest, true) as u8
}
