//! Imports of AWQ checkpoints, against weights that are packed here as those are.

use proptest::prelude::*;
use tilewright::bf16;
use tilewright::quant::{AwqTensors, Group, Halves, QuantizedWeights};

use crate::case::Noise;

/// Packs a matrix of nibbles whose columns are a multiple of 8: nibble i of a word holds column `ORDER[i]` of its eight.
fn pack(nibbles: &[u32], columns: usize) -> Vec<i32> {
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
    let mut words = Vec::new();
    for line in nibbles.chunks(columns) {
        for eight in line.chunks(8) {
            let word = ORDER.iter().enumerate().fold(0, |word, (i, &column)| word | eight[column] << (4 * i));
            words.push(word.cast_signed());
        }
    }
    words
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn weights_are_those_of_the_checkpoint(
        group in prop::sample::select(Group::ALL.to_vec()), eights in 1usize..12, k in 1usize..260, seed: u64,
    ) {
        let (n, groups) = (eights * 8, group.count(k));
        let mut noise = Noise::new(seed);
        let mut draw = |count| (0..count).map(|_| noise.next() % 16).collect::<Vec<_>>();
        let (codes, zeros) = (draw(k * n), draw(groups * n));
        let scales: Vec<_> = (0..groups * n).map(|_| bf16::from_f32(noise.unit())).collect();
        let tensors = AwqTensors {
            group,
            shape: [n, k],
            qweight: &pack(&codes, n),
            qzeros: &pack(&zeros, n),
            scales: &Halves::BF16(scales.clone()),
        };
        let imported = QuantizedWeights::from_awq("q_proj", &tensors).unwrap();
        let weights = imported.dequantize();
        for (n_, k_) in (0..n).flat_map(|n| (0..k).map(move |k| (n, k))) {
            let at = k_ / group.len(k) * n + n_;
            let expected = (f64::from(codes[k_ * n + n_]) - f64::from(zeros[at])) * scales[at].to_f64();
            prop_assert_eq!(weights[n_ * k + k_], expected, "[{}, {}]", n_, k_);
        }
    }
}

/// A word written down by hand.
#[test]
fn nibbles_are_interleaved() {
    let tensors = AwqTensors {
        group: Group::Row,
        shape: [8, 1],
        qweight: &[0x7531_6420],
        qzeros: &[0],
        scales: &Halves::BF16(vec![bf16::ONE; 8]),
    };
    let weights = QuantizedWeights::from_awq("w", &tensors).unwrap().dequantize();
    assert_eq!(weights, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}
