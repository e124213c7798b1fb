//! The types that matrix instructions multiply and accumulate.

use super::float;
use crate::wide::twice;

/// An element type of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// IEEE half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// An f32 of which the 13 low bits are not looked at.
    Tf32,
    /// Eight bits: 4 of exponent, 3 of mantissa, no infinities.
    E4m3,
    /// Eight bits: 5 of exponent, 2 of mantissa.
    E5m2,
    /// Signed bytes.
    S8,
    /// Unsigned bytes.
    U8,
    /// Signed nibbles, the first in the low half of its byte.
    S4,
    /// Unsigned nibbles.
    U4,
    /// Single bits, of which those that A and B both have are counted: the products of zeros and ones.
    B1,
}

/// What sort of arithmetic an element takes part in: A and B may differ in type only within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    F16,
    Bf16,
    Tf32,
    F8,
    Bytes,
    Nibbles,
    Bits,
}

impl Element {
    /// Its size in bits.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Element::Tf32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::E4m3 | Element::E5m2 | Element::S8 | Element::U8 => 8,
            Element::S4 | Element::U4 => 4,
            Element::B1 => 1,
        }
    }

    /// Elements in a register.
    pub(crate) fn per_register(self) -> usize {
        (32 / self.bits()) as usize
    }

    /// The arithmetic that it takes part in.
    pub(crate) fn family(self) -> Family {
        match self {
            Element::F16 => Family::F16,
            Element::Bf16 => Family::Bf16,
            Element::Tf32 => Family::Tf32,
            Element::E4m3 | Element::E5m2 => Family::F8,
            Element::S8 | Element::U8 => Family::Bytes,
            Element::S4 | Element::U4 => Family::Nibbles,
            Element::B1 => Family::Bits,
        }
    }

    /// The elements of 32-bit registers or words, the lowest first, all exact in f32 (a NaN is some NaN); as many as `values` takes.
    #[inline]
    pub(crate) fn unpack(self, words: &[u32], values: &mut [f32]) {
        let done = if self == Element::F16 { halves(words, values) } else { 0 };
        if done < words.len() {
            unpack(self, &words[done..], &mut values[done * self.per_register()..]);
        }
    }

    /// Element `i` of a word, the lowest first.
    #[inline(always)]
    fn of(self, word: u32, i: usize) -> f32 {
        let byte = |i: usize| (word >> (8 * i)) as u8;
        match self {
            Element::F16 => float::widen((word >> (16 * i)) as u16),
            Element::Bf16 => f32::from_bits(word >> (16 * i) << 16),
            Element::Tf32 => f32::from_bits(word & 0xffff_e000),
            Element::E4m3 => float::e4m3_to_f32(byte(i)),
            Element::E5m2 => float::e5m2_to_f32(byte(i)),
            Element::S8 => f32::from(byte(i) as i8),
            Element::U8 => f32::from(byte(i)),
            Element::S4 => ((word << (28 - 4 * i)) as i32 >> 28) as f32,
            Element::U4 => (word >> (4 * i) & 15) as f32,
            Element::B1 => (word >> i & 1) as f32,
        }
    }
}

twice! {
    fn unpack(element: Element, words: &[u32], values: &mut [f32]) {
        match element {
            Element::F16 => each::<2>(Element::F16, words, values),
            Element::Bf16 => each::<2>(Element::Bf16, words, values),
            Element::Tf32 => each::<1>(Element::Tf32, words, values),
            Element::E4m3 => each::<4>(Element::E4m3, words, values),
            Element::E5m2 => each::<4>(Element::E5m2, words, values),
            Element::S8 => each::<4>(Element::S8, words, values),
            Element::U8 => each::<4>(Element::U8, words, values),
            Element::S4 => each::<8>(Element::S4, words, values),
            Element::U4 => each::<8>(Element::U4, words, values),
            Element::B1 => each::<32>(Element::B1, words, values),
        }
    }
}

/// Puts f16 by the CPU's instruction for it, where it has one: as many as make whole vectors. Gives how many words they are.
#[cfg(not(target_arch = "x86_64"))]
fn halves(_: &[u32], _: &mut [f32]) -> usize {
    0
}

/// The same.
#[cfg(target_arch = "x86_64")]
fn halves(words: &[u32], values: &mut [f32]) -> usize {
    if crate::wide::available() {
        use std::arch::x86_64::{
            _mm_extract_ps, _mm_set_epi32, _mm256_castps256_ps128, _mm256_cvtph_ps, _mm256_extractf128_ps,
        };
        #[target_feature(enable = "avx,f16c")]
        fn convert(words: &[[u32; 4]], values: &mut [[f32; 8]]) {
            for (words, values) in words.iter().zip(values) {
                let [a, b, c, d] = words.map(|word| word as i32);
                let all = _mm256_cvtph_ps(_mm_set_epi32(d, c, b, a));
                let (low, high) = (_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
                // These become one store.
                let bits = [
                    _mm_extract_ps::<0>(low),
                    _mm_extract_ps::<1>(low),
                    _mm_extract_ps::<2>(low),
                    _mm_extract_ps::<3>(low),
                    _mm_extract_ps::<0>(high),
                    _mm_extract_ps::<1>(high),
                    _mm_extract_ps::<2>(high),
                    _mm_extract_ps::<3>(high),
                ];
                *values = bits.map(|bits| f32::from_bits(bits as u32));
            }
        }
        let (words, values) = (words.as_chunks().0, values.as_chunks_mut().0);
        // SAFETY: the CPU has these instructions.
        unsafe { convert(words, values) };
        return 4 * words.len().min(values.len());
    }
    0
}

/// Puts the `N` elements of each word.
#[inline(always)]
fn each<const N: usize>(element: Element, words: &[u32], values: &mut [f32]) {
    for (word, values) in words.iter().zip(values.as_chunks_mut::<N>().0) {
        for (i, value) in values.iter_mut().enumerate() {
            *value = element.of(*word, i);
        }
    }
}

/// The type of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulator {
    /// One f32 in a register.
    F32,
    /// Two f16 in a register.
    F16,
    /// One 32-bit integer in a register, that wraps around or saturates.
    S32 { saturate: bool },
}

impl Accumulator {
    /// Registers of a thread for 8 rows and 8 columns.
    pub(crate) fn per_tile(self) -> usize {
        if self == Accumulator::F16 { 1 } else { 2 }
    }

    /// Registers of a thread for `n` columns.
    pub(crate) fn registers(self, n: usize) -> usize {
        if self == Accumulator::F16 { n / 4 } else { n / 2 }
    }

    /// Whether products of such elements can be accumulated in it.
    pub(crate) fn takes(self, family: Family) -> bool {
        match self {
            Accumulator::F32 => matches!(family, Family::F16 | Family::Bf16 | Family::Tf32 | Family::F8),
            Accumulator::F16 => matches!(family, Family::F16 | Family::F8),
            Accumulator::S32 { saturate } => {
                matches!(family, Family::Bytes | Family::Nibbles) || family == Family::Bits && !saturate
            }
        }
    }
}
