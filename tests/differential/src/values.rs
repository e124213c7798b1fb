//! Inputs of instructions: numbers at which something changes, and random ones.

use crate::random::Random;

/// What a register of an instruction holds, named by a letter in the tables of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `p`: a predicate.
    Predicate,
    /// `h`: 16 bits, an integer.
    Int16,
    /// `r`: 32 bits, an integer.
    Int32,
    /// `d`: 64 bits, an integer.
    Int64,
    /// `s`: 32 bits, the amount of a shift or the length of a field.
    Amount,
    /// `m`: the same, up to 255.
    Byte,
    /// `f`: f32.
    F32,
    /// `F`: f64.
    F64,
    /// `e`: f16.
    F16,
    /// `g`: bf16.
    Bf16,
    /// `x`: a pair of f16.
    F16x2,
    /// `y`: a pair of bf16.
    Bf16x2,
}

const INT16: [u64; 12] = [0, 1, 2, 3, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0x8001, 0xffff];
const INT32: [u64; 18] = [
    0,
    1,
    2,
    3,
    31,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_0000,
    0xffff_fffe,
    0xffff_ffff,
];
const INT64: [u64; 16] = [
    0,
    1,
    2,
    3,
    0xff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0001,
    0x7fff_ffff_ffff_ffff,
    1 << 63,
    (1 << 63) + 1,
    0xffff_ffff_0000_0000,
    0xffff_ffff_8000_0000,
    u64::MAX - 1,
    u64::MAX,
];
const AMOUNT: [u64; 24] = [
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    17,
    23,
    30,
    31,
    32,
    33,
    47,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    257,
    0x8000_0001,
    0xffff_ffff,
];
/// Zeros, subnormal numbers, numbers about powers of two and the ends of integer types, infinities, NaNs of either kind.
const F32: [u64; 40] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x0040_0000,
    0x007f_ffff,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x0080_0001,
    0x0100_0000,
    0x3300_0000,
    0x3380_0000,
    0x3f00_0000,
    0xbf00_0000,
    0x3f7f_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x3f80_0001,
    0x3fc0_0000,
    0xbfc0_0000,
    0x4000_0000,
    0x4020_0000,
    0x437f_8000,
    0x4700_0000,
    0x477f_e000,
    0x477f_f000,
    0x4b00_0001,
    0x4b7f_ffff,
    0x4eff_ffff,
    0x4f00_0000,
    0xcf00_0000,
    0x4f80_0000,
    0x5f00_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xff80_1234,
];
const F64: [u64; 24] = [
    0,
    1 << 63,
    1,
    0x800f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0x3fe0_0000_0000_0000,
    0x3ff8_0000_0000_0000,
    0x4004_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0010_0000,
    0x43e0_0000_0000_0000,
    0x47ef_ffff_e000_0000,
    0x47ef_ffff_f000_0000,
    0x36a0_0000_0000_0000,
    0x3690_0000_0000_0001,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff0_0000_0000_1234,
];
const F16: [u64; 20] = [
    0, 0x8000, 1, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x0401, 0x3800, 0x3bff, 0x3c00, 0xbc00, 0x3c01, 0x3e00,
    0x4100, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01,
];
const BF16: [u64; 20] = [
    0, 0x8000, 1, 0x8001, 0x007f, 0x807f, 0x0080, 0x0081, 0x3f00, 0x3f7f, 0x3f80, 0xbf80, 0x3f81, 0x3fc0,
    0x4020, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc1,
];

impl Class {
    /// The class of a letter.
    pub fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'p' => Self::Predicate,
            'h' => Self::Int16,
            'r' => Self::Int32,
            'd' => Self::Int64,
            's' => Self::Amount,
            'm' => Self::Byte,
            'f' => Self::F32,
            'F' => Self::F64,
            'e' => Self::F16,
            'g' => Self::Bf16,
            'x' => Self::F16x2,
            'y' => Self::Bf16x2,
            _ => return None,
        })
    }

    /// The register file of random programs: the driver's compiler converts, not truncates, what a `.b32` register holds when
    /// an instruction of f32 wrote it and one of fewer bits reads it, so that floats are kept in registers of their own.
    pub fn file(self) -> &'static str {
        match self {
            Self::Predicate => "p",
            Self::Int16 => "h",
            Self::F16 | Self::Bf16 => "e",
            Self::Int32 | Self::Amount | Self::Byte | Self::F16x2 | Self::Bf16x2 => "r",
            Self::F32 => "f",
            Self::Int64 => "d",
            Self::F64 => "v",
        }
    }

    /// Bits of the register; 1 for a predicate.
    pub fn bits(self) -> u32 {
        match self {
            Self::Predicate => 1,
            Self::Int16 | Self::F16 | Self::Bf16 => 16,
            Self::Int32 | Self::Amount | Self::Byte | Self::F32 | Self::F16x2 | Self::Bf16x2 => 32,
            Self::Int64 | Self::F64 => 64,
        }
    }

    fn specials(self) -> &'static [u64] {
        match self {
            Self::Predicate => &[0, 1],
            Self::Int16 => &INT16,
            Self::Int32 => &INT32,
            Self::Int64 => &INT64,
            Self::Amount => &AMOUNT,
            Self::Byte => &AMOUNT[..20],
            Self::F32 => &F32,
            Self::F64 => &F64,
            Self::F16 | Self::F16x2 => &F16,
            Self::Bf16 | Self::Bf16x2 => &BF16,
        }
    }

    /// The value of this number: all combinations of special ones first, and then random ones.
    pub fn value(self, number: usize, random: &mut Random) -> u64 {
        let specials = self.specials();
        match self {
            Self::F16x2 | Self::Bf16x2 if number < specials.len() => {
                specials[number] | specials[random.below(specials.len())] << 16
            }
            _ if number < specials.len() => specials[number],
            _ => self.random(random),
        }
    }

    /// How many values are special.
    pub fn special_count(self) -> usize {
        self.specials().len()
    }

    /// A random value, of a kind that instructions do something with.
    pub fn random(self, random: &mut Random) -> u64 {
        let bits = random.bits();
        if random.one_in(8) && !matches!(self, Self::F16x2 | Self::Bf16x2) {
            return *random.pick(self.specials());
        }
        match self {
            Self::Predicate => bits & 1,
            Self::Amount if random.one_in(4) => bits & 0xffff_ffff,
            Self::Amount | Self::Byte => bits & 63,
            Self::Int16 => (bits & 0xffff) >> random.below(16),
            Self::Int32 => (bits & 0xffff_ffff) >> random.below(32),
            Self::Int64 => bits >> random.below(64),
            // Half of them with like exponents, so that sums cancel.
            Self::F32 if random.one_in(2) => bits & 0x80ff_ffff | 0x3f00_0000,
            Self::F32 => bits & 0xffff_ffff,
            Self::F64 if random.one_in(2) => bits & 0x801f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000,
            Self::F64 => bits,
            Self::F16 => half(bits, random, 0x87ff | 0x3800, 0x3800),
            Self::Bf16 => half(bits, random, 0x80ff | 0x3f00, 0x3f00),
            Self::F16x2 => {
                let of = Self::F16;
                of.random(random) | of.random(random) << 16
            }
            Self::Bf16x2 => {
                let of = Self::Bf16;
                of.random(random) | of.random(random) << 16
            }
        }
    }
}

fn half(bits: u64, random: &mut Random, mask: u64, set: u64) -> u64 {
    if random.one_in(2) { bits & mask | set } else { bits & 0xffff }
}
