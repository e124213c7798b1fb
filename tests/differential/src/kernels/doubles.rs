//! `mma.sync` of f64.

use super::Kernel;
use super::products::Data;
use crate::random::Random;

pub(super) fn kernels() -> Vec<Kernel> {
    let mut random = Random::new(23);
    let mut kernels = Vec::new();
    for (rows, k) in [(8, 4), (16, 4), (16, 8), (16, 16)] {
        for data in [Data::Whole, Data::Fractions, Data::Single] {
            kernels.push(kernel(rows, k, data, &mut random));
        }
    }
    kernels
}

/// A number: of one product for each element of D, any bits.
fn number(data: Data, random: &mut Random) -> u64 {
    match data {
        Data::Whole => (random.below(9) as f64 - 4.0).to_bits(),
        Data::Fractions => f64::from(random.unit()).to_bits() | random.bits() & 0xffff_ffff,
        Data::Single => match random.below(4) {
            0 => random.bits() | 0x7ff << 52,
            1 => (random.bits() & 1) << 63 | 0x7ff << 52,
            _ => random.bits(),
        },
    }
}

fn kernel(rows: usize, k: usize, data: Data, random: &mut Random) -> Kernel {
    let counts = [rows * k / 32, 8 * k / 32, rows * 8 / 32];
    let all: usize = counts.iter().sum();
    let mut input: Vec<u64> = (0..32 * all).map(|_| number(data, random)).collect();
    if data == Data::Single {
        // What is first in each row of A alone is not zero.
        let of_a = 32 * counts[0];
        for (at, element) in input[..of_a].iter_mut().enumerate() {
            let first = at / 32 < rows / 8 && at % 4 == 0;
            *element = if first { *element } else { 0 };
        }
        input[of_a..].iter_mut().for_each(|element| *element = 1f64.to_bits());
    }
    let load = |i| format!("ld.global.b64 %d{i}, [%at+{}];\n", i * 256);
    let list = |first: usize, count: usize| {
        (first..first + count).map(|i| format!("%d{i}")).collect::<Vec<_>>().join(", ")
    };
    let (b, c) = (counts[0], counts[0] + counts[1]);
    let body = format!(
        "mad.wide.u32 %at, %thread, 8, %in;\n{}\
         mma.sync.aligned.m{rows}n8k{k}.row.col.f64.f64.f64.f64 {{{3}}}, {{{1}}}, {{{2}}}, {{{3}}};\n{4}",
        (0..all).map(load).collect::<String>(),
        list(0, counts[0]),
        list(b, counts[1]),
        list(c, counts[2]),
        (0..counts[2])
            .map(|i| format!("st.global.b64 [%mine+{}], %d{};\n", i * 8, c + i))
            .collect::<String>()
    );
    let input = input.into_iter().flat_map(u64::to_le_bytes).collect();
    Kernel::new(format!("mma m{rows}n8k{k} f64, {data:?}"), 2 * counts[2], body).input(input)
}
