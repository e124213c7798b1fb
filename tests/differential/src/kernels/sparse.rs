//! `mma.sp`: products of a warp with a sparse A, and what says where its elements are.

use super::elements::{Each, Element};
use super::products::{Data, addend, agreement};
use super::{Kernel, bytes, load, registers, store};
use crate::random::Random;

/// Two of four, the lower one first.
const PAIRS: [u32; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];

/// Metadata of so many lanes, each of which has all: that those which are not asked have others shows.
pub(super) fn metadata(element: Element, lanes: usize, random: &mut Random) -> Vec<u32> {
    // Of tf32 one of two is stored, which is two of four halves.
    let choices = if element == Element::Tf32 { &[0b0100, 0b1110][..] } else { &PAIRS[..] };
    let word = |_| (0..8).fold(0, |word, i| word | random.pick(choices) << (4 * i));
    (0..lanes).map(word).collect()
}

pub(super) fn kernels() -> Vec<Kernel> {
    use Element::*;
    let mut random = Random::new(19);
    let mut kernels = Vec::new();
    for (a, b, accumulator) in [
        (F16, F16, "f32"),
        (F16, F16, "f16"),
        (Bf16, Bf16, "f32"),
        (Tf32, Tf32, "f32"),
        (E4m3, E5m2, "f32"),
        (E5m2, E4m3, "f32"),
        (S8, U8, "s32"),
        (U8, S8, "s32.satfinite"),
        (S4, U4, "s32"),
        (U4, S4, "s32.satfinite"),
    ] {
        let long = 512 / a.bits() as usize;
        let depths = if matches!(a, E4m3 | E5m2) { vec![long] } else { vec![long / 2, long] };
        for k in depths {
            // Of each four lanes those with metadata are one, two or all.
            let with = if a.bits() < 16 { 2 } else { 1 } * if k == long { 2 } else { 1 };
            for selector in 0..4 / with {
                for data in [Data::Whole, Data::Fractions] {
                    kernels.push(kernel([a, b], accumulator, (k, selector), data, &mut random));
                }
            }
        }
    }
    kernels
}

fn kernel(
    [a, b]: [Element; 2],
    accumulator: &str,
    (k, selector): (usize, usize),
    data: Data,
    random: &mut Random,
) -> Kernel {
    let (accumulator, saturate) = match accumulator.split_once('.') {
        Some((accumulator, _)) => (accumulator, ".satfinite"),
        None => (accumulator, ""),
    };
    let registers_a = 16 * (k / 2) * a.bits() as usize / 1024;
    let (registers_b, registers_c) = (registers_a, if accumulator == "f16" { 2 } else { 4 });
    let each: Each = if data == Data::Whole { Element::small } else { Element::any };
    let mut input = a.words(32 * registers_a, random, each);
    input.extend(b.words(32 * registers_b, random, each));
    input.extend(addend(accumulator, 32 * registers_c, data, random));
    input.extend(metadata(a, 32, random));
    let operands = registers_a + registers_b + registers_c;
    let body = format!(
        "{}mma.sp.sync.aligned.m16n8k{k}.row.col{saturate}.{accumulator}.{}.{}.{accumulator} {{{}}}, {{{}}}, {{{}}}, {{{}}}, \
         %r{operands}, {selector};\n{}",
        load(0, operands + 1, 0, 32),
        a.name(),
        b.name(),
        registers(20, registers_c),
        registers(0, registers_a),
        registers(registers_a, registers_b),
        registers(registers_a + registers_b, registers_c),
        store(20, registers_c, 0)
    );
    let (of_a, of_b) = (a.name(), b.name());
    let name = format!("mma.sp m16n8k{k} {of_a} {of_b} {accumulator}{saturate}, {data:?}, lanes {selector}");
    let mut kernel = Kernel::new(name, registers_c, body).input(bytes(input));
    kernel.agreement = agreement(a, accumulator, data, k / 2);
    kernel
}
