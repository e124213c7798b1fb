//! Gates of channels.

use tilewright::ops::LinearAttention;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input};

/// Every kernel, of whole and partial chunks.
pub fn each(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 128], [256, 64]] {
        Case::new(130, columns).channels(-0.1).check_all::<f16>(device)?;
    }
    Case::new(64, [128, 64]).channels(-0.5).check_all::<bf16>(device)
}

/// Of all strengths: 0 leaves everything, exp(-80) nothing.
pub fn strengths(device: &Device) -> Outcome {
    for mean in [0.0, -0.01, -1.0, -5.0, -80.0, f32::NEG_INFINITY] {
        Case { heads: 1, ..Case::new(150, [64, 64]) }.channels(mean).check::<f16>(device)?;
    }
    // About what elements have room for from the middle of a chunk.
    for mean in [-0.08, -0.11, -0.15] {
        Case { heads: 1, ..Case::new(128, [64, 64]) }.channels(mean).check::<f16>(device)?;
    }
    for mean in [-1.0, -1.5, -2.0, -8.0] {
        Case { heads: 1, ..Case::new(128, [128, 64]) }.channels(mean).check::<bf16>(device)?;
    }
    Ok(())
}

/// Elements that have no room for another factor.
pub fn large(device: &Device) -> Outcome {
    large_by::<f16>(device, 60000.0, -0.2)?;
    large_by::<bf16>(device, 1e30, -1.2)
}

fn large_by<T: Input>(device: &Device, large: f32, gate: f32) -> Outcome {
    let stream = Stream::new(device)?;
    let (shape, small) = ([1, 64, 1, 64], 6.0 / large);
    let values = |f: &dyn Fn(usize) -> f32| T::round(&(0..64 * 64).map(f).collect::<Vec<_>>());
    let q = values(&|i| if i.is_multiple_of(7) { large } else { 0.0 });
    let (k, v) = (values(&|_| small), values(&|_| 1.0));
    let tensor = |data: &[T]| Tensor::from_slice(device, data, &shape);
    let (q, k, v) = (tensor(&q)?, tensor(&k)?, tensor(&v)?);
    let gates = Tensor::filled(device, gate, &shape)?;
    let mut o = Tensor::filled(device, T::POISON, &shape)?;
    let mut operator = LinearAttention::new().channel_gates(&gates.view()).scale(0.01);
    operator.run(&stream, &q.view(), &k.view(), &v.view(), &mut o.view_mut())?;
    // Each query has nine or ten channels, of which each has what a sum of decays leaves of its keys.
    for (row, o) in T::widen(&o.to_vec_on(&stream)?).chunks(64).enumerate() {
        let channels = (row * 64..row * 64 + 64).filter(|i| i.is_multiple_of(7)).count() as f64;
        let kept: f64 = (0..=row).map(|i| (f64::from(gate) * i as f64).exp()).sum();
        let right = channels * kept * 6.0 * 0.01;
        let allowed = 4.0 * T::ROUNDING * right;
        assert!(o.iter().all(|&o| (f64::from(o) - right).abs() < allowed), "row {row}: {}", o[0]);
    }
    Ok(())
}

/// Lengths of all kinds, one after the other too.
pub fn lengths(device: &Device) -> Outcome {
    for rows in [0, 1, 63, 64, 65, 500] {
        Case { heads: 1, ..Case::new(rows, [64, 64]) }.channels(-0.05).check::<bf16>(device)?;
    }
    let packed = Case::new(0, [64, 64]).packed(&[70, 0, 1, 129, 64, 0]).channels(-0.1);
    packed.check_all::<f16>(device)?;
    Case { batch: 2, ..Case::new(70, [40, 72]) }.channels(-0.3).check::<f16>(device)
}

/// Few and many segments, some of which have no rows, of one and of several sequences; gates that leave nothing too.
pub fn segments(device: &Device) -> Outcome {
    for (segments, mean) in [(2, -0.02), (3, -0.02), (9, -0.5), (3, f32::NEG_INFINITY)] {
        Case { heads: 1, ..Case::new(300, [64, 64]) }
            .channels(mean)
            .segments(segments)
            .check::<f16>(device)?;
    }
    Case { batch: 2, ..Case::new(200, [128, 72]) }.channels(-0.01).segments(3).check_all::<bf16>(device)?;
    let packed = Case::new(0, [256, 64]).packed(&[70, 0, 1, 129]).channels(-0.1).segments(2);
    packed.check::<f16>(device)
}

/// V whose rows do not begin at multiples of 16 bytes, in every kernel.
pub fn unaligned(device: &Device) -> Outcome {
    let case = Case::new(100, [64, 67]).channels(-0.1);
    case.check_all::<f16>(device)?;
    case.segments(2).check::<bf16>(device)
}
