//! Tensors that lie in memory as views do.

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;
use tilewright_support::reference::relative_error;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Sizes};
use crate::operand::Place;

/// Places for one tensor: in the usual orders, with gaps, misaligned, with a head dimension that is not contiguous.
fn places(shape: [usize; 4]) -> Vec<Place> {
    vec![
        Place::bhsd(shape),
        Place::bshd(shape),
        // [length, batch, heads, head dimension], and lines with unused elements behind them.
        Place::ordered(shape, [2, 0, 1, 3], 8),
        Place::ordered(shape, [0, 2, 1, 3], 24),
        // Aligned to 16, 8 and 2 bytes.
        Place::bhsd(shape).shifted(8),
        Place::bshd(shape).shifted(4),
        Place::bhsd(shape).shifted(1),
        Place::ordered(shape, [0, 2, 1, 3], 2),
        Place::ordered(shape, [0, 1, 2, 3], 1),
        // [batch, heads, head dimension, length].
        Place::ordered(shape, [0, 1, 3, 2], 0),
    ]
}

/// Each tensor in every place while the others are packed, and all in every place together.
pub fn everywhere(device: &Device) -> Outcome {
    let sizes = Sizes { batch: 2, heads: 4, kv_heads: 2, ..Sizes::new(70, 90, [64, 72]) };
    let mut case = Case::<f16>::new(sizes);
    let packed = case.places;
    let count = places(packed[0].shape).len();
    for at in 0..count {
        for which in 0..packed.len() {
            case.places[which] = places(packed[which].shape)[at];
            case.check(device)?;
            case.places = packed;
        }
        case.places = packed.map(|place| places(place.shape)[at]);
        if device.is_emulator() {
            case.check(device)?
        } else {
            case.check_all(device)?
        }
        case.places = packed;
    }
    Ok(())
}

/// Q, K and V cut out of [batch, length, 3, heads, head dimension] by the methods of views.
pub fn fused(device: &Device) -> Outcome {
    let [batch, length, heads, columns] = [2, 100, 3, 64];
    let data = normal::<bf16>(5, batch * length * 3 * heads * columns);
    let tensor = Tensor::from_slice(device, &data, &[batch, length, 3, heads, columns])?;
    let mut o = Tensor::filled(device, bf16::NAN, &[batch, length, heads, columns])?;
    let stream = Stream::new(device)?;
    let part = |which| tensor.view().select(2, which)?.transpose(1, 2);
    let mut out = o.view_mut().transpose(1, 2)?;
    Attention::new().causal().run(&stream, &part(0)?, &part(1)?, &part(2)?, &mut out)?;
    let o = o.to_vec_on(&stream)?;
    let scores = Scores { causal: true, ..Scores::new(columns) };
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        let lines = |which: usize| -> Vec<bf16> {
            let line = |i: usize| &data[(((b * length + i) * 3 + which) * heads + h) * columns..][..columns];
            (0..length).flat_map(line).copied().collect()
        };
        let [q, k, v] = [lines(0), lines(1), lines(2)];
        let rows = Head::new([&q, &k, &v], length, length, [columns; 2])
            .rows(&(0..length).collect::<Vec<_>>(), &scores);
        let exact: Vec<f64> = rows.into_iter().flat_map(|row| row.o).collect();
        let out = |i: usize| &o[((b * length + i) * heads + h) * columns..][..columns];
        let out: Vec<bf16> = (0..length).flat_map(out).copied().collect();
        let error = relative_error(&out, &exact);
        assert!(error < 4e-3, "sequence {b}, head {h}: {error}");
    }
    Ok(())
}

/// One head of keys and values, and one sequence, for all: broadcast views.
pub fn repetition(device: &Device) -> Outcome {
    let sizes = Sizes { batch: 2, heads: 4, kv_heads: 4, ..Sizes::new(70, 90, [64, 64]) };
    let mut case = Case::<f16>::new(sizes);
    for strides in [[0, 0, 64, 1], [90 * 64, 0, 64, 1], [0, 90 * 64, 64, 1]] {
        for which in [1, 2] {
            let place = Place { strides, ..case.places[which] };
            // The same values wherever the same memory is meant.
            let of = |i: usize| (i / (4 * 90 * 64), i / (90 * 64) % 4, i % (90 * 64));
            let data = normal::<f16>(7, case.inputs[which].len());
            let repeated = |i: usize| {
                let (b, h, rest) = of(i);
                data[usize::from(strides[0] > 0) * b * 4 * 90 * 64
                    + usize::from(strides[1] > 0) * h * 90 * 64
                    + rest]
            };
            case.inputs[which] = (0..data.len()).map(repeated).collect();
            case.places[which] = place;
        }
        case.check_all(device)?;
    }
    Ok(())
}
