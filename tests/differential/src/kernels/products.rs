//! `mma.sync`.

use super::elements::{Each, Element};
use super::{Agreement, Kernel, bytes, load, registers, store};
use crate::random::Random;

/// What the operands are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Data {
    /// Small whole numbers: sums are exact.
    Whole,
    /// Numbers between -1 and 1.
    Fractions,
    /// One product for each element of D, of any bits.
    Single,
}

/// How much D may differ for sums of `depth` products of numbers below 1, and one more number.
///
/// Tensor cores align products to the largest and drop what is below their width, of which the manual says nothing; seen
/// here are 24 bits or more for f16, bf16 and tf32, and 13 for types of 8 bits.
pub(super) fn agreement(element: Element, accumulator: &str, data: Data, depth: usize) -> Agreement {
    let terms = (depth + 1) as f64;
    match (data, accumulator) {
        (Data::Fractions, "f16") => Agreement::F16 { relative: 0.0, absolute: terms / 1024.0 },
        (Data::Fractions, "f32") => {
            let bits = if element.bits() == 8 { 13 } else { 22 };
            Agreement::F32 { relative: 0.0, absolute: terms / f64::from(1 << bits) }
        }
        _ => Agreement::Exact,
    }
}

pub(super) fn kernels() -> Vec<Kernel> {
    use Element::*;
    let pairs = [
        (F16, F16),
        (Bf16, Bf16),
        (Tf32, Tf32),
        (E4m3, E4m3),
        (E4m3, E5m2),
        (E5m2, E4m3),
        (E5m2, E5m2),
        (S8, S8),
        (S8, U8),
        (U8, S8),
        (U8, U8),
        (S4, S4),
        (S4, U4),
        (U4, S4),
        (U4, U4),
    ];
    let mut random = Random::new(3);
    let mut kernels = Vec::new();
    for (a, b) in pairs {
        let accumulators: &[&str] = match a {
            F16 => &["f32", "f16"],
            _ if a.is_integer() => &["s32", "s32.satfinite"],
            _ => &["f32"],
        };
        let long = 256 / a.bits() as usize;
        // Types of 8 bits with an exponent have the long shape alone.
        let depths = if matches!(a, E4m3 | E5m2) { vec![long] } else { vec![long / 2, long] };
        for (&accumulator, &k) in accumulators.iter().flat_map(|c| depths.iter().map(move |k| (c, k))) {
            let data: &[Data] = match a {
                _ if a.is_integer() => &[Data::Whole, Data::Fractions],
                F16 | Bf16 | Tf32 => &[Data::Whole, Data::Fractions, Data::Single],
                _ => &[Data::Whole, Data::Fractions],
            };
            for &data in data {
                kernels.push(kernel(a, b, accumulator, k, data, &mut random));
            }
        }
    }
    kernels
}

fn kernel(a: Element, b: Element, accumulator: &str, k: usize, data: Data, random: &mut Random) -> Kernel {
    let (accumulator, saturate) = match accumulator.split_once('.') {
        Some((accumulator, _)) => (accumulator, ".satfinite"),
        None => (accumulator, ""),
    };
    let registers_a = 16 * k * a.bits() as usize / 1024;
    let (registers_b, registers_c) = (registers_a / 2, if accumulator == "f16" { 2 } else { 4 });
    let each: Each = if data == Data::Whole { Element::small } else { Element::any };
    let mut input = match data {
        Data::Single => single(a, registers_a, random),
        _ => a.words(32 * registers_a, random, each),
    };
    input.extend(b.words(32 * registers_b, random, if data == Data::Single { odd } else { each }));
    input.extend(addend(accumulator, 32 * registers_c, data, random));
    let body = format!(
        "{}mma.sync.aligned.m16n8k{k}.row.col{saturate}.{accumulator}.{}.{}.{accumulator} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n{}",
        load(0, registers_a + registers_b + registers_c, 0, 32),
        a.name(),
        b.name(),
        registers(20, registers_c),
        registers(0, registers_a),
        registers(registers_a, registers_b),
        registers(registers_a + registers_b, registers_c),
        store(20, registers_c, 0)
    );
    let name = format!("mma m16n8k{k} {} {} {accumulator}{saturate}, {data:?}", a.name(), b.name());
    let mut kernel = Kernel::new(name, registers_c, body).input(bytes(input));
    kernel.agreement = agreement(a, accumulator, data, k);
    kernel
}

/// A odd small number, so that none is zero.
fn odd(element: Element, random: &mut Random) -> u32 {
    let _ = random.bits();
    match element {
        Element::F16 => 0x3c00,
        Element::Bf16 => 0x3f80,
        _ => 1f32.to_bits(),
    }
}

/// A with one element of any bits in each row, which is in register 0 or 1, of the row's first lane.
fn single(element: Element, registers: usize, random: &mut Random) -> Vec<u32> {
    let mask = if element.bits() == 32 { u32::MAX } else { 0xffff };
    let word = |i: usize, random: &mut Random| {
        let first = i / 32 < 2 && i.is_multiple_of(4);
        if first { random.bits() as u32 & mask } else { 0 }
    };
    (0..32 * registers).map(|i| word(i, random)).collect()
}

/// C, or D before a product.
pub(super) fn addend(accumulator: &str, words: usize, data: Data, random: &mut Random) -> Vec<u32> {
    let element = if accumulator == "f16" { Element::F16 } else { Element::Tf32 };
    match (data, accumulator) {
        (Data::Single, _) => vec![0; words],
        (Data::Whole, "s32") => (0..words).map(|_| random.below(1000) as u32).collect(),
        // Near the ends, where sums wrap or saturate.
        (_, "s32") => (0..words).map(|i| 0x7fff_f000 + (i as u32 & 1) * 0x2000).collect(),
        (Data::Whole, _) => element.words(words, random, Element::small),
        (Data::Fractions, _) => element.words(words, random, Element::any),
    }
}
