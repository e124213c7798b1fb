//! Imports of GPTQ checkpoints, against weights that are packed here as those are.

use proptest::prelude::*;
use rand::seq::SliceRandom;
use tilewright::f16;
use tilewright::quant::{GptqTensors, GptqVersion, Group, Halves, QuantizedWeights};

use crate::case::Noise;

/// A layer's integers, as GPTQ has them before it packs them.
struct Layer {
    bits: u32,
    n: usize,
    k: usize,
    group: usize,
    /// \[K\]\[N\]
    codes: Vec<u32>,
    /// \[groups\]\[N\]
    zeros: Vec<u32>,
    scales: Vec<f16>,
}

impl Layer {
    fn new(bits: u32, n: usize, k: usize, group: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let groups = k.div_ceil(group);
        let mut draw = |count| (0..count).map(|_| noise.next() % (1 << bits)).collect::<Vec<_>>();
        let (codes, zeros) = (draw(k * n), draw(groups * n));
        let scales = (0..groups * n).map(|_| f16::from_f32(noise.unit())).collect();
        Layer { bits, n, k, group, codes, zeros, scales }
    }

    /// `pack` of the checkpoints: 32 / bits integers to a word, along the lines or along each line.
    fn qweight(&self) -> Vec<i32> {
        let per_word = 32 / self.bits as usize;
        let mut words = vec![0u32; self.k.div_ceil(per_word) * self.n];
        for (i, &code) in self.codes.iter().enumerate() {
            let (k, n) = (i / self.n, i % self.n);
            words[k / per_word * self.n + n] += code << (k % per_word * self.bits as usize);
        }
        words.into_iter().map(u32::cast_signed).collect()
    }

    fn qzeros(&self, version: GptqVersion) -> Vec<i32> {
        let per_word = 32 / self.bits as usize;
        let columns = self.n.div_ceil(per_word);
        let mut words = vec![0u32; self.zeros.len() / self.n * columns];
        for (i, &zero) in self.zeros.iter().enumerate() {
            let (group, n) = (i / self.n, i % self.n);
            let highest = (1 << self.bits) - 1;
            let stored = match version {
                GptqVersion::V1 if zero == 0 => highest,
                GptqVersion::V1 => zero - 1,
                GptqVersion::V2 => zero,
            };
            words[group * columns + n / per_word] += stored << (n % per_word * self.bits as usize);
        }
        words.into_iter().map(u32::cast_signed).collect()
    }

    /// The weights: (code - zero) scale, of the group that each input feature has.
    fn weights(&self, g_idx: &[i32]) -> Vec<f64> {
        let at = |n: usize, k: usize| {
            let group = g_idx[k] as usize * self.n + n;
            let (code, zero) = (self.codes[k * self.n + n], self.zeros[group]);
            (f64::from(code) - f64::from(zero)) * self.scales[group].to_f64()
        };
        (0..self.n * self.k).map(|i| at(i / self.k, i % self.k)).collect()
    }
}

/// Calls with the tensors of the layer's checkpoint.
fn with<R>(
    layer: &Layer,
    group: Group,
    version: GptqVersion,
    g_idx: Option<&[i32]>,
    import: impl Fn(&GptqTensors) -> R,
) -> R {
    import(&GptqTensors {
        bits: layer.bits,
        group,
        version,
        shape: [layer.n, layer.k],
        qweight: &layer.qweight(),
        qzeros: &layer.qzeros(version),
        scales: &Halves::F16(layer.scales.clone()),
        g_idx,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn weights_are_those_of_the_checkpoint(
        bits in prop::sample::select(vec![2u32, 4, 8]),
        group in prop::sample::select(Group::ALL.to_vec()),
        v2: bool, n in 1usize..80, k in 1usize..260, seed: u64,
    ) {
        let layer = Layer::new(bits, n, k, group.len(k), seed);
        let version = if v2 { GptqVersion::V2 } else { GptqVersion::V1 };
        let in_order: Vec<_> = (0..k).map(|k| (k / layer.group) as i32).collect();
        let import = |tensors: &GptqTensors| QuantizedWeights::from_gptq("q_proj", tensors).unwrap();
        let imported = with(&layer, group, version, v2.then_some(&in_order), import);
        prop_assert_eq!(imported.dequantize(), layer.weights(&in_order));
        prop_assert_eq!(imported.scheme().format.bits(), bits);
    }

    /// Groups of input features from anywhere: the weights are there, in the order that comes with them.
    #[test]
    fn activation_order_is_sorted(
        bits in prop::sample::select(vec![2u32, 4, 8]),
        group in prop::sample::select(vec![Group::K32, Group::K64, Group::K128]),
        n in 1usize..20, k in 2usize..300, seed: u64,
    ) {
        let layer = Layer::new(bits, n, k, group.len(k), seed);
        let mut g_idx: Vec<_> = (0..k).map(|k| (k / layer.group) as i32).collect();
        g_idx.shuffle(&mut Noise::new(seed).0);
        let import = |tensors: &GptqTensors| QuantizedWeights::from_gptq_act_order("q_proj", tensors).unwrap();
        let (imported, order) = with(&layer, group, GptqVersion::V1, Some(&g_idx), import);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert!(sorted.iter().copied().eq(0..k), "each input feature once");
        let (found, expected) = (imported.dequantize(), layer.weights(&g_idx));
        for (row, (j, feature)) in (0..n).flat_map(|row| order.iter().enumerate().map(move |at| (row, at))) {
            prop_assert_eq!(found[row * k + j], expected[row * k + feature], "[{}, {}]", row, j);
        }
    }
}

/// A word written down by hand: codes 0 to 7 from the lowest nibble up, and zeros of 8 less one.
#[test]
fn a_word_is_read_from_its_lowest_bits() {
    let scales = Halves::F16(vec![f16::ONE; 8]);
    let words: Vec<i32> = (0..8).map(|n| 0x7654_3210_i32.rotate_left(4 * n)).collect();
    let tensors = GptqTensors {
        bits: 4,
        group: Group::Row,
        version: GptqVersion::V1,
        shape: [8, 8],
        qweight: &words,
        qzeros: &[0x7777_7777],
        scales: &scales,
        g_idx: None,
    };
    let weights = QuantizedWeights::from_gptq("w", &tensors).unwrap().dequantize();
    assert_eq!(weights[..8], [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0]);
    assert_eq!(weights[8..12], [-1.0, -8.0, -7.0, -6.0]);
}
