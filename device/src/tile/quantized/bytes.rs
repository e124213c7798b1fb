//! Formats of 8 bits, and floating-point and table formats of 4.

use crate::arch::cvt;
use crate::arch::math::{lop3, prmt};
use crate::tile::quantized::format::{Decode, Format, Half};
use half::{bf16, f16};

/// Integers from -128 to 127, stored from the least on, as 0 to 255.
#[derive(Clone, Copy, Debug, Default)]
pub struct I8;
/// Quantiles of the normal distribution (Dettmers et al. 2023, "QLoRA", appendix E), by a table of 16.
#[derive(Clone, Copy, Debug, Default)]
pub struct NF4;
/// e2m1 (OCP Microscaling Formats).
#[derive(Clone, Copy, Debug, Default)]
pub struct FP4;
/// e4m3 (Micikevicius et al. 2022). A NaN's code decodes to a number, 480.
#[derive(Clone, Copy, Debug, Default)]
pub struct E4M3;
/// e5m2 (Micikevicius et al. 2022). To bf16, the codes of infinities and NaNs decode to numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct E5M2;

macro_rules! formats {
    ($($format:ident $name:literal $bits:literal;)*) => { $(
        impl Format for $format {
            const NAME: &'static str = $name;
            const BITS: u32 = $bits;
        }
    )* };
}
formats! {
    I8 "i8" 8;
    NF4 "nf4" 4;
    FP4 "fp4" 4;
    E4M3 "e4m3" 8;
    E5M2 "e5m2" 8;
}

impl NF4 {
    /// Its quantiles, by code.
    pub const QUANTILES: [f32; 16] = [
        -1.0,
        -0.696_192_8,
        -0.525_073_05,
        -0.394_917_5,
        -0.284_441_38,
        -0.184_773_43,
        -0.091_050_036,
        0.0,
        0.079_580_3,
        0.160_930_2,
        0.246_112_3,
        0.337_915_24,
        0.440_709_83,
        0.562_617,
        0.722_956_84,
        1.0,
    ];
}

/// (a & b) | (!a & c).
const SELECT: u32 = 0xca;
/// (a & b) | c.
const AND_OR: u32 = 0xea;

/// Both halves.
const fn twice(half: u32) -> u32 {
    half | half << 16
}

/// The two bytes of a register in a lane's words, each in the low half of 16 bits whose other half is a byte of `other`.
#[inline(always)]
fn low_bytes(words: &[u32; 8], register: u32, other: u32) -> u32 {
    prmt(words[register as usize / 2], other, if register.is_multiple_of(2) { 0x4140 } else { 0x4342 })
}

/// The two bytes of a register in a lane's words, each in the high half of 16 bits.
#[inline(always)]
fn high_bytes(words: &[u32; 8], register: u32) -> u32 {
    prmt(words[register as usize / 2], 0, if register.is_multiple_of(2) { 0x1404 } else { 0x3424 })
}

/// The sign of each half, and its other bits `shift` lower: a narrow exponent in the place of a wide one.
#[inline(always)]
fn aligned(x: u32, shift: u32, bits: u32) -> u32 {
    lop3::<AND_OR>(x, 0x8000_8000, (x >> shift) & twice(bits))
}

/// The same, times a power of two: what the narrow exponent lacks.
#[inline(always)]
fn widened<T: Half>(x: u32, shift: u32, bits: u32, power: u32) -> u32 {
    T::mul(aligned(x, shift, bits), twice(power))
}

impl Decode<f16> for I8 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        // 1024 and the byte; less 1024 + 128.
        f16::sub(low_bytes(words, register, 0x6464_6464), 0x6480_6480)
    }
}

impl Decode<bf16> for I8 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        // 2^23 and the byte as f32; less 2^23 + 128. Eight bits fit bf16.
        let byte = |i: u32| {
            let x = prmt(words[register as usize / 2], 0x4b00_0000, 0x7540 + 2 * (register % 2) + i);
            f32::from_bits(x) - 8_388_736.0
        };
        cvt::bf16x2(byte(0), byte(1))
    }
}

impl Decode<f16> for E5M2 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        high_bytes(words, register)
    }
}

impl Decode<bf16> for E5M2 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        widened::<bf16>(high_bytes(words, register), 3, 0x0fe0, 0x7780)
    }
}

impl Decode<f16> for E4M3 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        widened::<f16>(high_bytes(words, register), 1, 0x3f80, 0x5c00)
    }
    const UNITS: [i32; 2] = [8; 2];
    #[inline(always)]
    fn unscaled(words: &[u32; 8], register: u32) -> u32 {
        aligned(high_bytes(words, register), 1, 0x3f80)
    }
}

impl Decode<bf16> for E4M3 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        widened::<bf16>(high_bytes(words, register), 4, 0x07f0, 0x7b80)
    }
}

/// The codes of a register in the high bits of both halves.
#[inline(always)]
fn high_nibbles(words: &[u32; 8], register: u32) -> u32 {
    words[register as usize / 4] << (12 - register % 4 * 4)
}

impl Decode<f16> for FP4 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        widened::<f16>(high_nibbles(words, register), 3, 0x0e00, 0x7400)
    }
    const UNITS: [i32; 2] = [14; 2];
    #[inline(always)]
    fn unscaled(words: &[u32; 8], register: u32) -> u32 {
        aligned(high_nibbles(words, register), 3, 0x0e00)
    }
}

impl Decode<bf16> for FP4 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        widened::<bf16>(high_nibbles(words, register), 6, 0x01c0, 0x7e80)
    }
}

/// Byte `byte` of four entries of a table, from `first` on.
const fn table(bits: [u16; 16], first: usize, byte: u32) -> u32 {
    let (mut four, mut i) = (0, 0);
    while i < 4 {
        four |= ((bits[first + i] as u32 >> (8 * byte)) & 0xff) << (8 * i);
        i += 1;
    }
    four
}

/// Byte `byte` of the entries of the four codes of one half of a word: `prmt` looks up eight entries at a time, by three bits
/// of a code; the fourth bit, as the sign that it copies over a byte, selects between two of them.
#[inline(always)]
fn look_up(bits: [u16; 16], byte: u32, codes: u32, upper: u32) -> u32 {
    let lower = prmt(table(bits, 0, byte), table(bits, 4, byte), codes);
    let higher = prmt(table(bits, 8, byte), table(bits, 12, byte), codes);
    lop3::<SELECT>(upper, higher, lower)
}

/// A register of two entries of a table.
#[inline(always)]
fn entries(bits: [u16; 16], words: &[u32; 8], register: u32) -> u32 {
    let word = words[register as usize / 4];
    let codes = word & 0x7777_7777;
    let (first, second) = (prmt(word << 4, word, 0xd9c8), prmt(word << 4, word, 0xfbea));
    let select = if register % 4 < 2 { 0x5140 } else { 0x7362 };
    let low = prmt(look_up(bits, 0, codes, first), look_up(bits, 1, codes, first), select);
    let high = prmt(look_up(bits, 0, codes >> 16, second), look_up(bits, 1, codes >> 16, second), select);
    prmt(low, high, if register.is_multiple_of(2) { 0x5410 } else { 0x7632 })
}

macro_rules! by_table {
    ($($t:ident)*) => { $(
        impl Decode<$t> for NF4 {
            #[inline(always)]
            fn register(words: &[u32; 8], register: u32) -> u32 {
                const BITS: [u16; 16] = {
                    let (mut bits, mut i) = ([0; 16], 0);
                    while i < 16 {
                        bits[i] = $t::from_f32_const(NF4::QUANTILES[i]).to_bits();
                        i += 1;
                    }
                    bits
                };
                entries(BITS, words, register)
            }
        }
    )* };
}
by_table!(f16 bf16);
