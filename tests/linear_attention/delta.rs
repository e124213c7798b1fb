//! The delta rule, without decays and with all kinds of them.

use tilewright::ops::LinearAttention;
use tilewright::{Device, Tensor, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::Case;

/// Every kernel, of whole and partial chunks.
pub fn each(device: &Device) -> Outcome {
    Case::new(130, [128, 128]).delta(1.0).gates(-0.1).check_all::<bf16>(device)?;
    Case::new(70, [128, 64]).delta(1.0).channels(-0.1).check_all::<f16>(device)?;
    Case::new(64, [64, 64]).delta(1.0).check_all::<f16>(device)
}

/// Decays of all strengths, and corrections beyond what is there.
pub fn strengths(device: &Device) -> Outcome {
    for mean in [0.0, -1.0, -80.0] {
        Case { heads: 1, ..Case::new(150, [64, 64]) }.delta(1.0).gates(mean).check::<f16>(device)?;
        Case { heads: 1, ..Case::new(90, [64, 64]) }.delta(1.0).channels(mean).check::<bf16>(device)?;
    }
    Case::new(100, [64, 64]).decay(&[-0.01, f32::NEG_INFINITY]).delta(2.0).check::<f16>(device)
}

/// Lengths of all kinds, one after the other too.
pub fn lengths(device: &Device) -> Outcome {
    for rows in [0, 1, 63, 65, 500] {
        Case { heads: 1, ..Case::new(rows, [64, 64]) }.delta(1.0).gates(-0.05).check::<bf16>(device)?;
    }
    let packed = Case::new(0, [72, 80]).packed(&[70, 0, 1, 129, 64, 0]).delta(1.0).gates(-0.1);
    packed.check_all::<f16>(device)
}

/// Keys of more than 128 channels: every kernel, lengths, sequences one after the other, segments.
pub fn wide(device: &Device) -> Outcome {
    let case = |rows, columns| Case { heads: 1, ..Case::new(rows, columns) }.delta(1.0);
    case(130, [256, 64]).gates(-0.1).check_all::<bf16>(device)?;
    case(70, [200, 72]).decay(&[-0.01, f32::NEG_INFINITY]).check::<f16>(device)?;
    for rows in [0, 1, 63, 65, 500] {
        case(rows, [256, 64]).gates(-0.05).check::<f16>(device)?;
    }
    case(0, [256, 72]).packed(&[70, 0, 1, 129]).gates(-0.1).segments(2).check_all::<f16>(device)?;
    case(200, [256, 64]).segments(3).check::<bf16>(device)
}

/// Few and many segments, some of which have no rows, of one and of several sequences; without decays a state turns as a whole.
pub fn segments(device: &Device) -> Outcome {
    for (segments, most) in [(2, 1.0), (5, 2.0), (9, 1.0)] {
        Case { heads: 1, ..Case::new(300, [64, 64]) }.delta(most).segments(segments).check::<f16>(device)?;
    }
    let case = Case { batch: 2, ..Case::new(200, [128, 136]) }.delta(1.0).segments(3);
    case.clone().gates(-0.05).check_all::<bf16>(device)?;
    case.decay(&[-0.01, f32::NEG_INFINITY]).check::<f16>(device)?;
    let packed = Case::new(0, [72, 80]).packed(&[70, 0, 1, 129, 64, 0]).delta(1.0).segments(2);
    packed.clone().gates(-0.1).check_all::<f16>(device)?;
    packed.channels(-0.1).check::<bf16>(device)
}

/// A long sequence, whole and in segments.
pub fn long(device: &Device) -> Outcome {
    let case = Case { heads: 1, states: false, ..Case::new(4097, [64, 64]) }.delta(1.0).gates(-0.01);
    case.check::<bf16>(device)?;
    case.segments(7).check::<bf16>(device)
}

/// One head of a long sequence leaves SMs without work: it is divided, in every form. Many are not.
pub fn divided(device: &Device) -> Outcome {
    for (heads, divided) in [(1, true), (2048, false)] {
        let rows = if divided { 16384 } else { 128 };
        let x = Tensor::<bf16>::uninit(device, &[1, rows, heads, 128])?;
        let (rows_of, channels) = ([1, rows, heads], [1, rows, heads, 128]);
        let (beta, gates) =
            (Tensor::<f32>::uninit(device, &rows_of)?, Tensor::<f32>::uninit(device, &channels)?);
        let mut o = Tensor::<bf16>::uninit(device, &channels)?;
        let new = LinearAttention::new;
        let forms = [new(), new().channel_gates(&gates.view()), new().delta(&beta.view())];
        for operator in forms {
            let plan = operator.plan(&x.view(), &x.view(), &x.view(), &o.view_mut())?.to_string();
            assert_eq!(plan.contains(" segments"), divided, "{plan}");
        }
    }
    Ok(())
}
