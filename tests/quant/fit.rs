//! Quantisation: codes are the nearest, scales are good ones.

use proptest::prelude::*;
use tilewright::quant::{Format, Group, HalfType, QuantizedWeights, Scheme, ZeroPoints, Zeros};
use tilewright::{bf16, f16};

use crate::case::{Noise, any_scheme, schemes, weights};

fn any_integer_scheme() -> impl Strategy<Value = Scheme> {
    prop::sample::select(schemes().into_iter().filter(|s| s.format.is_integer()).collect::<Vec<_>>())
}

/// About normal, some of them far out, shifted.
fn draw(count: usize, seed: u64, shift: f32) -> Vec<f32> {
    let mut noise = Noise::new(seed);
    let mut normal = || (0..6).map(|_| noise.unit()).sum::<f32>() * 0.02;
    (0..count).map(|i| normal() * if i % 61 == 7 { 5.0 } else { 1.0 } + shift).collect()
}

/// The weight that each code stands for in a group, by the definition of the modes.
fn choices(weights: &QuantizedWeights, row: usize, group: usize) -> Vec<f64> {
    let i = row * weights.groups() + group;
    let format = weights.scheme().format;
    let scale = f64::from(weights.scales().get(i));
    let weight = |q: f64| match weights.zeros() {
        ZeroPoints::None => q * scale,
        ZeroPoints::Original(zeros) => (q - f64::from(zeros.get(i))) * scale,
        ZeroPoints::Rescaled(zeros) => q * scale - f64::from(zeros.get(i)),
        ZeroPoints::Packed(zeros) => (q - f64::from(zeros[i])) * scale,
    };
    let values = (0..format.codes()).map(|code| f64::from(format.value(code as u8)));
    values.filter(|value| value.is_finite()).map(weight).collect()
}

/// The sum of squared errors of each group.
fn errors(quantized: &QuantizedWeights, weights: &[f32]) -> Vec<f64> {
    let [_, k] = quantized.shape();
    let found = quantized.dequantize();
    let rows = found.chunks(k).zip(weights.chunks(k));
    let len = quantized.scheme().group.len(k);
    rows.flat_map(|(found, weights)| {
        found
            .chunks(len)
            .zip(weights.chunks(len))
            .map(|(found, weights)| found.iter().zip(weights).map(|(x, &w)| (x - f64::from(w)).powi(2)).sum())
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn codes_are_the_nearest(
        scheme in any_scheme(), n in 1usize..5, k in 1usize..140, seed: u64, shift in -0.1f32..0.1,
    ) {
        let weights = draw(n * k, seed, shift);
        let quantized = QuantizedWeights::quantize("w", &weights, [n, k], scheme).unwrap();
        let found = quantized.dequantize();
        for (i, &w) in weights.iter().enumerate() {
            let group = i % k / scheme.group.len(k);
            let distance = |x: &f64| (x - f64::from(w)).abs();
            let least = choices(&quantized, i / k, group).iter().map(distance).fold(f64::INFINITY, f64::min);
            prop_assert!(
                distance(&found[i]) <= least * (1.0 + 1e-9) + 1e-300,
                "{:?} at {}: {} for {}", scheme, i, found[i], w
            );
        }
    }

    /// Even steps over a group's whole range, a half of one wrong at most, and a digit of their type.
    #[test]
    fn integers_are_as_good_as_even_steps(
        scheme in any_integer_scheme(), n in 1usize..4, k in 1usize..200, seed: u64, shift in -0.1f32..0.1,
    ) {
        let unsigned = scheme.format.range().0 == 0.0;
        let mut weights = draw(n * k, seed, shift);
        if unsigned && scheme.zeros == Zeros::None {
            weights.iter_mut().for_each(|w| *w = w.abs());
        }
        let quantized = QuantizedWeights::quantize("w", &weights, [n, k], scheme).unwrap();
        let len = scheme.group.len(k);
        let groups = weights.chunks(k).flat_map(|row| row.chunks(len));
        for (error, group) in errors(&quantized, &weights).into_iter().zip(groups) {
            let low = group.iter().copied().fold(0.0, f32::min);
            let high = group.iter().copied().fold(0.0, f32::max);
            let (lowest, highest) = scheme.format.range();
            let step = match scheme.zeros {
                Zeros::None if unsigned => high / highest,
                Zeros::None => (high / highest).max(low / lowest),
                _ => (high - low) / (highest - lowest),
            };
            // Steps between values, of which i1 has -1 and 1 alone. Packed zeros may be half a step beside the range.
            let gap = (highest - lowest) / (scheme.format.codes() - 1) as f32;
            let digit = if scheme.scales == HalfType::F16 { 1.0 / 1024.0 } else { 1.0 / 128.0 };
            let aside = if scheme.zeros == Zeros::Packed { 0.5 } else { 0.0 };
            let each = step * (gap * 0.5 + aside) + (high - low) * digit;
            let bound = f64::from(each).powi(2) * group.len() as f64;
            prop_assert!(error <= bound, "{:?}: {} is above {}", scheme, error, bound);
        }
    }

    /// Weights that the format holds come back exactly, if they reach from its lowest value to its highest.
    #[test]
    fn what_the_format_holds_is_exact(scheme in any_scheme(), n in 1usize..4, k in 2usize..200, seed: u64) {
        prop_assume!(k % scheme.group.len(k) != 1);
        let Scheme { format, group, zeros, .. } = scheme;
        let mut noise = Noise::new(seed);
        let (lowest, highest) = format.range();
        let exponent: Vec<i32> = (0..n * group.count(k)).map(|_| (noise.next() % 8) as i32 - 7).collect();
        let zero = if zeros == Zeros::None || !format.is_integer() { 0.0 } else { (lowest + highest).round() / 2.0 };
        let zero = if zeros == Zeros::Packed { zero.trunc() } else { zero };
        let len = group.len(k);
        let weights: Vec<f32> = (0..n * k).map(|i| {
            let value = match i % k % len {
                0 => lowest,
                1 => highest,
                _ => loop {
                    let value = format.value((noise.next() as usize % format.codes()) as u8);
                    if value.is_finite() { break value }
                },
            };
            (value - zero) * 2f32.powi(exponent[i / k * group.count(k) + i % k / len])
        }).collect();
        let quantized = QuantizedWeights::quantize("w", &weights, [n, k], scheme).unwrap();
        let found = quantized.dequantize();
        for (found, &w) in found.iter().zip(&weights) {
            prop_assert_eq!(*found, f64::from(w), "{:?}", scheme);
        }
    }
}

/// The plain scale: the largest magnitude becomes the largest value.
fn by_largest_magnitude(weights: &[f32], format: Format) -> f64 {
    let largest = weights.iter().fold(0.0f32, |largest, w| largest.max(w.abs()));
    let scale = f64::from(largest) / f64::from(format.range().1);
    let error = |&w: &f32| {
        (f64::from(format.value(format.nearest(f64::from(w) / scale))) * scale - f64::from(w)).powi(2)
    };
    weights.iter().map(error).sum()
}

#[test]
fn searching_beats_the_plain_scale() {
    for (format, part) in [(Format::I4, 0.9), (Format::I2, 0.5), (Format::I1, 0.3)] {
        let (group, scales) = (Group::K128, HalfType::F16);
        let scheme = Scheme { format, group, zeros: Zeros::None, scales };
        let weights = draw(64 * 128, 3, 0.0);
        let quantized = QuantizedWeights::quantize("w", &weights, [64, 128], scheme).unwrap();
        let searched: f64 = errors(&quantized, &weights).iter().sum();
        let plain: f64 = weights.chunks(128).map(|group| by_largest_magnitude(group, format)).sum();
        assert!(searched < plain * part, "{format}: {searched} beside {plain}");
    }
}

/// The best scale of signs is the mean magnitude.
#[test]
fn signs_have_the_mean_magnitude() {
    let scheme = Scheme { format: Format::I1, group: Group::Row, zeros: Zeros::None, scales: HalfType::F16 };
    let weights = draw(256, 5, 0.0);
    let quantized = QuantizedWeights::quantize("w", &weights, [1, 256], scheme).unwrap();
    let mean = weights.iter().map(|w| w.abs()).sum::<f32>() / 256.0;
    assert_eq!(quantized.scales().get(0), f16::from_f32(mean).to_f32());
}

#[test]
fn the_largest_magnitude_is_a_floats_largest_value() {
    for (format, largest) in
        [(Format::NF4, 1.0), (Format::FP4, 6.0), (Format::E4M3, 448.0), (Format::E5M2, 57344.0)]
    {
        let (group, scales) = (Group::K32, HalfType::BF16);
        let scheme = Scheme { format, group, zeros: Zeros::None, scales };
        let mut weights = draw(64, 9, 0.0);
        (weights[5], weights[40]) = (-0.75, 3.0);
        let quantized = QuantizedWeights::quantize("w", &weights, [1, 64], scheme).unwrap();
        assert_eq!(quantized.scales().get(0), bf16::from_f32(0.75 / largest).to_f32(), "{format}");
        assert_eq!(quantized.scales().get(1), bf16::from_f32(3.0 / largest).to_f32(), "{format}");
        assert_eq!(format.value(quantized.codes()[5]), -largest, "{format}");
        assert_eq!(format.value(quantized.codes()[40]), largest, "{format}");
    }
}

/// Small weights in fp8: a scale below f16's normal range would have lost its digits.
#[test]
fn small_floats_keep_their_digits() {
    for format in [Format::E4M3, Format::E5M2] {
        let (group, scales) = (Group::K128, HalfType::F16);
        let scheme = Scheme { format, group, zeros: Zeros::None, scales };
        let weights: Vec<f32> = draw(128, 4, 0.0).iter().map(|w| w * 1e-2).collect();
        let quantized = QuantizedWeights::quantize("w", &weights, [1, 128], scheme).unwrap();
        let relative = if format == Format::E4M3 { 1.0 / 16.0 } else { 1.0 / 8.0 };
        for (x, &w) in quantized.dequantize().iter().zip(&weights) {
            let error = (x - f64::from(w)).abs();
            assert!(error <= f64::from(w.abs()) * relative + 1e-7, "{format}: {x} for {w}");
        }
    }
}

/// So small that f16 has no scale between 1 and 2 units: the larger one is coarse, the smaller one clips.
#[test]
fn the_smallest_scales_do_not_clip() {
    let scheme = Scheme { format: Format::I8, group: Group::Row, zeros: Zeros::None, scales: HalfType::F16 };
    let unit = 2f32.powi(-24);
    let weights: Vec<f32> = (0..190).map(|i| i as f32 * unit).collect();
    let quantized = QuantizedWeights::quantize("w", &weights, [1, 190], scheme).unwrap();
    assert_eq!(quantized.scales().get(0), 2.0 * unit);
    assert!(errors(&quantized, &weights)[0] <= 190.0 * f64::from(unit).powi(2));
}

/// Zeros move the steps to where the weights are, far from 0.
#[test]
fn zeros_follow_the_weights() {
    let weights: Vec<f32> = draw(128, 2, 0.0).iter().map(|w| 3.0 + w.clamp(-0.1, 0.1)).collect();
    for scheme in schemes() {
        if !matches!(scheme.zeros, Zeros::Original | Zeros::Rescaled) {
            continue;
        }
        let quantized = QuantizedWeights::quantize("w", &weights, [1, 128], scheme).unwrap();
        let error = errors(&quantized, &weights).iter().sum::<f64>() / 128.0;
        let format = scheme.format;
        let mut values: Vec<_> = (0..format.codes()).map(|code| format.value(code as u8)).collect();
        values.retain(|value| value.is_finite());
        values.sort_by(f32::total_cmp);
        let widest = values.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f32::max);
        // Half a step of those that the format has between 2.9 and 3.1, and a digit of 3's zero.
        let digit = if scheme.scales == HalfType::F16 { 1.0 / 1024.0 } else { 1.0 / 128.0 };
        let each = 0.2 * widest / (values[values.len() - 1] - values[0]) / 2.0 + 3.0 * digit;
        assert!(error <= f64::from(each).powi(2), "{scheme:?}: {} for {each}", error.sqrt());
    }
}

#[test]
fn zeros_and_constants() {
    for scheme in schemes() {
        let zeros = QuantizedWeights::quantize("w", &[0.0f32; 70], [2, 35], scheme).unwrap();
        assert!(zeros.dequantize().iter().all(|&x| x == 0.0), "{scheme:?}");
        let unsigned = scheme.format.range().0 == 0.0;
        // All the same, and so nearly the same that no scale of 16 bits takes codes from one to the other.
        for (constant, last) in [(0.5f32, 0.5f32), (-0.5, -0.5), (0.5, 0.5f32.next_up()), (-0.5, -0.499_999)]
        {
            let mut weights = [constant; 70];
            (weights[31], weights[34], weights[69]) = (last, last, last);
            let quantized = QuantizedWeights::quantize("w", &weights, [2, 35], scheme).unwrap();
            let holds = constant > 0.0 || !unsigned || scheme.zeros != Zeros::None;
            let expected = if holds { f64::from(constant) } else { 0.0 };
            for x in quantized.dequantize() {
                assert!((x - expected).abs() < 0.005, "{scheme:?}: {x} for {constant}");
            }
            // Products with it are added up in f32 before they are scaled.
            if let ZeroPoints::Original(zeros) = quantized.zeros() {
                let largest = (0..zeros.len()).map(|i| zeros.get(i).abs()).fold(0.0, f32::max);
                let (lowest, highest) = scheme.format.range();
                assert!(
                    largest <= (2.0 * (highest - lowest)).max(65536.0),
                    "{scheme:?}: a zero of {largest} for {constant}"
                );
            }
        }
    }
}

#[test]
fn all_element_types_are_taken() {
    let scheme =
        Scheme { format: Format::U4, group: Group::K32, zeros: Zeros::Packed, scales: HalfType::F16 };
    let weights = draw(3 * 70, 6, 0.0);
    let rounded: Vec<f16> = weights.iter().copied().map(f16::from_f32).collect();
    let widened: Vec<f32> = rounded.iter().map(|w| w.to_f32()).collect();
    let narrow = QuantizedWeights::quantize("w", &rounded, [3, 70], scheme).unwrap();
    assert_eq!(narrow, QuantizedWeights::quantize("w", &widened, [3, 70], scheme).unwrap());
    let rounded: Vec<bf16> = weights.iter().copied().map(bf16::from_f32).collect();
    let widened: Vec<f32> = rounded.iter().map(|w| w.to_f32()).collect();
    let narrow = QuantizedWeights::quantize("w", &rounded, [3, 70], scheme).unwrap();
    assert_eq!(narrow, QuantizedWeights::quantize("w", &widened, [3, 70], scheme).unwrap());
}

/// By hand: (q - z) s and q s - z.
#[test]
fn dequantised_weights_are_the_definition() {
    for scheme in schemes() {
        let quantized = weights(scheme, [3, 150], 8);
        let found = quantized.dequantize();
        for (i, found) in found.iter().enumerate() {
            let (row, group) = (i / 150, i % 150 / scheme.group.len(150));
            let value = scheme.format.value(quantized.codes()[i]);
            if value.is_finite() {
                let by_code: Vec<_> = choices(&quantized, row, group);
                assert!(by_code.contains(found), "{scheme:?} [{row}, {}]", i % 150);
                assert_eq!(quantized.dequantize_row(row)[i % 150], *found);
            }
        }
    }
    let row = |zeros| {
        let scales = tilewright::quant::Halves::F16(vec![f16::from_f32(0.5); 2]);
        QuantizedWeights::new("w", Format::I2, Group::K32, [1, 33], vec![3; 33], scales, zeros).unwrap()
    };
    let zeros = |values: [f64; 2]| tilewright::quant::Halves::round(HalfType::F16, values);
    let ends = |weights: QuantizedWeights| [weights.dequantize()[0], weights.dequantize()[32]];
    assert_eq!(ends(row(ZeroPoints::None)), [-0.5, -0.5]);
    assert_eq!(ends(row(ZeroPoints::Original(zeros([1.0, 0.25])))), [-1.0, -0.625]);
    assert_eq!(ends(row(ZeroPoints::Rescaled(zeros([1.0, 0.25])))), [-1.5, -0.75]);
    assert_eq!(ends(row(ZeroPoints::Packed(vec![1, -2]))), [-1.0, 0.5]);
}

/// A range whose own scale f16 holds, but not the values less the zero.
#[test]
fn values_less_their_zeros_are_numbers() {
    let scheme =
        Scheme { format: Format::E5M2, group: Group::Row, zeros: Zeros::Original, scales: HalfType::F16 };
    let weights = [4.0212097f32, 4.0212097, 3.75, -0.1];
    let quantized = QuantizedWeights::quantize("w", &weights, [2, 2], scheme).unwrap();
    for (found, w) in quantized.dequantize().into_iter().zip(weights) {
        assert!((found - f64::from(w)).abs() < 0.3, "{found} for {w}");
    }
}
