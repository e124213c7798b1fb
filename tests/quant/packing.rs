//! Packing loses nothing and puts every code where the specification says.

use proptest::prelude::*;
use tilewright::quant::{
    Format, Group, HalfType, Halves, Order, QuantizedWeights, Scheme, ZeroPoints, Zeros,
};

use crate::case::{any_scheme, schemes, weights};

fn orders(format: Format) -> &'static [Order] {
    if format.is_integer() { &[Order::B16, Order::B8] } else { &[Order::B16] }
}

#[test]
fn every_scheme_goes_there_and_back() {
    for (seed, scheme) in schemes().into_iter().enumerate() {
        for &order in orders(scheme.format) {
            let weights = weights(scheme, [67, 131], seed as u64);
            let packed = weights.pack(order).unwrap();
            assert_eq!(packed.header().scheme, scheme);
            assert_eq!(packed.unpack().unwrap(), weights, "{scheme:?} {order:?}");
        }
    }
}

/// Where a code stands: docs/quantized-weights.md, not the functions that pack.
fn specified(order: Order, bits: usize, [n, k]: [usize; 2], blocks_k: usize) -> usize {
    let block = n / 64 * blocks_k + k / 64;
    let (row, k) = (n % 64, k % 64);
    let rows = row / 8 % 2;
    let (lane, s, r, e) = match order {
        Order::B16 => (row / 16 * 32 + row % 8 * 4 + k % 8 / 2, k / 16, rows + k / 8 % 2 * 2, k % 2),
        Order::B8 => (row / 16 * 32 + row % 8 * 4 + k % 16 / 4, k / 32, rows + k / 16 % 2 * 2, k % 4),
    };
    let bit = match (order, bits) {
        (Order::B16, 1) => 4 * s + r + 16 * e,
        (Order::B16, 2) => s / 2 * 32 + 2 * (4 * (s % 2) + r) + 16 * e,
        (Order::B16, 4) => s * 32 + 4 * r + 16 * e,
        (Order::B16, _) => s * 64 + r / 2 * 32 + 8 * (2 * (r % 2) + e),
        (Order::B8, 1) => 8 * e + 4 * s + r,
        (Order::B8, 2) => s * 32 + 8 * e + 2 * r,
        (Order::B8, 4) => (2 * s + r / 2) * 32 + 8 * e + 4 * (r % 2),
        (Order::B8, _) => (4 * s + r) * 32 + 8 * e,
    };
    let in_block = match bits {
        8 => bit / 128 * 128 * 128 + lane * 128 + bit % 128,
        _ => lane * 32 * bits + bit,
    };
    block * 64 * 64 * bits + in_block
}

#[test]
fn codes_and_scales_stand_where_the_specification_says() {
    let shape @ [n, k] = [130, 200];
    for (seed, scheme) in schemes().into_iter().enumerate() {
        let bits = scheme.format.bits() as usize;
        let weights = weights(scheme, shape, seed as u64);
        for &order in orders(scheme.format) {
            let packed = weights.pack(order).unwrap();
            assert_eq!(packed.codes().len(), 192 * 256 * bits / 8);
            for (row, col) in (0..192).flat_map(|row| (0..256).map(move |col| (row, col))) {
                let at = specified(order, bits, [row, col], 4);
                let found = packed.codes()[at / 8] >> (at % 8) & (0xff >> (8 - bits));
                let code = if row < n && col < k {
                    weights.codes()[row * k + col]
                } else {
                    scheme.format.nearest(0.0)
                };
                assert_eq!(found, scheme.format.packed(code), "{scheme:?} {order:?} [{row}, {col}]");
            }
            let groups = weights.groups();
            let expect = |packed: &Halves, natural: &dyn Fn(usize) -> f32| {
                assert_eq!((packed.len(), packed.kind()), (groups * 192, scheme.scales));
                for (group, row) in (0..groups).flat_map(|group| (0..192).map(move |row| (group, row))) {
                    let expected = if row < n { natural(row * groups + group) } else { 0.0 };
                    assert_eq!(packed.get(group * 192 + row), expected, "{scheme:?} [{group}, {row}]");
                }
            };
            expect(packed.scales(), &|i| weights.scales().get(i));
            match weights.zeros() {
                ZeroPoints::None => assert_eq!(packed.zeros(), None),
                ZeroPoints::Original(zeros) | ZeroPoints::Rescaled(zeros) => {
                    expect(packed.zeros().unwrap(), &|i| zeros.get(i));
                }
                ZeroPoints::Packed(zeros) => expect(packed.zeros().unwrap(), &|i| zeros[i].into()),
            }
        }
    }
}

#[test]
fn extreme_codes() {
    for scheme in schemes() {
        let Scheme { format, group, .. } = scheme;
        for code in [0, (format.codes() - 1) as u8] {
            let shape @ [n, k] = [64, 64];
            let model = weights(scheme, shape, 1);
            let same = tilewright::quant::QuantizedWeights::new(
                "extreme",
                format,
                group,
                shape,
                vec![code; n * k],
                model.scales().clone(),
                model.zeros().clone(),
            )
            .unwrap();
            for &order in orders(format) {
                let packed = same.pack(order).unwrap();
                let word =
                    (0..8 / format.bits()).fold(0, |w, i| w | format.packed(code) << (i * format.bits()));
                assert!(packed.codes().iter().all(|&byte| byte == word), "{scheme:?} {code}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_shape_goes_there_and_back(
        scheme in any_scheme(), n in 1usize..200, k in 1usize..300, seed: u64, eight: bool,
    ) {
        let order = if eight && scheme.format.is_integer() { Order::B8 } else { Order::B16 };
        let weights = weights(scheme, [n, k], seed);
        let packed = weights.pack(order).unwrap();
        let zeros = packed.zeros().map_or(0, Halves::len);
        let groups = k.div_ceil(scheme.group.len(k)) * n.next_multiple_of(64);
        prop_assert_eq!(packed.scales().len(), groups);
        prop_assert_eq!(zeros, if scheme.zeros == Zeros::None { 0 } else { groups });
        prop_assert_eq!(packed.unpack().unwrap(), weights);
    }
}

/// Packed, matrices below each other are the blocks of one behind those of the other.
#[test]
fn matrices_are_stacked() {
    for (seed, scheme) in schemes().into_iter().enumerate() {
        let of = |rows: usize, seed: u64| weights(scheme, [rows, 131], seed);
        let all = [of(64, seed as u64), of(128, 100 + seed as u64), of(64, 200 + seed as u64)];
        let stacked = QuantizedWeights::stack("experts", &all).unwrap();
        assert_eq!((stacked.name(), stacked.shape(), stacked.scheme()), ("experts", [256, 131], scheme));
        // Some codes of fp8 are NaN.
        let bits = |w: &QuantizedWeights| w.dequantize().into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert!(bits(&stacked) == all.iter().flat_map(bits).collect::<Vec<_>>(), "{scheme:?}");
        for &order in orders(scheme.format) {
            let codes: Vec<u8> = all.iter().flat_map(|w| w.pack(order).unwrap().codes().to_vec()).collect();
            assert_eq!(stacked.pack(order).unwrap().codes(), codes);
        }
    }
}

#[test]
fn what_does_not_fit_is_not_stacked() {
    let scheme = Scheme { format: Format::U4, group: Group::K32, zeros: Zeros::None, scales: HalfType::F16 };
    let of = |scheme, k| weights(scheme, [64, k], 1);
    let first = of(scheme, 64);
    let error =
        |other: Vec<QuantizedWeights>| QuantizedWeights::stack("experts", &other).unwrap_err().to_string();
    assert!(error(vec![]).contains("`matrices`"));
    let narrow = error(vec![first.clone(), of(scheme, 32)]);
    assert!(
        narrow.contains("shape") && narrow.contains("[64, 32]") && narrow.contains("64 columns"),
        "{narrow}"
    );
    let other = error(vec![first, of(Scheme { zeros: Zeros::Original, ..scheme }, 64)]);
    assert!(other.contains("scheme") && other.contains("Original"), "{other}");
}
