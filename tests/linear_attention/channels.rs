//! Gates of channels.

use tilewright::ops::LinearAttention;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::Case;

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
    Ok(())
}

/// Elements of f16 that have no room for another factor.
pub fn large(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let shape = [1, 64, 1, 64];
    let large = |i: usize| if i.is_multiple_of(7) { 60000.0 } else { 0.0 };
    let q: Vec<f16> = (0..64 * 64).map(|i| f16::from_f32(large(i))).collect();
    let (q, k) =
        (Tensor::from_slice(device, &q, &shape)?, Tensor::filled(device, f16::from_f32(1e-4), &shape)?);
    let v = Tensor::filled(device, f16::ONE, &shape)?;
    let gates = Tensor::filled(device, -0.2f32, &shape)?;
    let mut o = Tensor::filled(device, f16::NAN, &shape)?;
    let mut operator = LinearAttention::new().channel_gates(&gates.view()).scale(0.01);
    operator.run(&stream, &q.view(), &k.view(), &v.view(), &mut o.view_mut())?;
    // Each query has nine or ten channels, of which each has what a sum of decays leaves of its keys.
    for (row, o) in o.to_vec_on(&stream)?.chunks(64).enumerate() {
        let channels = (row * 64..row * 64 + 64).filter(|i| i.is_multiple_of(7)).count() as f64;
        let kept: f64 = (0..=row).map(|i| (-0.2 * i as f64).exp()).sum();
        let right = channels * kept * 60000.0 * 1e-4 * 0.01;
        assert!(
            o.iter().all(|o| (f64::from(o.to_f32()) - right).abs() < 3e-3 * right),
            "row {row}: {}",
            o[0]
        );
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
