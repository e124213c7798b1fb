//! Decays that all channels of a head share.

use tilewright::{Device, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::Case;

/// Retention's decays: ln(1 - 2^(-5 - i)).
fn retention(heads: usize) -> Vec<f32> {
    (0..heads).map(|i| (-(-5.0 - i as f32).exp2()).ln_1p()).collect()
}

/// Every kernel, with decays and with gates.
pub fn each(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 128], [256, 128]] {
        Case::new(130, columns).decay(&retention(2)).gates(-0.1).check_all::<f16>(device)?;
    }
    Case::new(64, [128, 64]).check_all::<bf16>(device)
}

/// Decays of 0, 1 and what is between; exp(-80) is all but nothing.
pub fn decays(device: &Device) -> Outcome {
    Case::new(200, [64, 64]).decay(&[0.0, -80.0, f32::NEG_INFINITY, -0.3]).check::<f16>(device)?;
    Case::new(150, [64, 64]).decay(&retention(8)).check::<bf16>(device)
}

/// Gates of all strengths.
pub fn gates(device: &Device) -> Outcome {
    for mean in [0.0, -0.01, -1.0, -80.0] {
        Case::new(190, [64, 64]).gates(mean).check::<f16>(device)?;
    }
    Case::new(190, [128, 64]).gates(-0.2).decay(&[-0.1, -3.0]).check::<bf16>(device)
}

/// Around the chunk's length, and long.
pub fn lengths(device: &Device) -> Outcome {
    for rows in [0, 1, 63, 64, 65, 1000] {
        Case::new(rows, [64, 64]).gates(-0.05).check::<f16>(device)?;
    }
    Case { heads: 1, ..Case::new(4097, [64, 64]) }.check::<bf16>(device)
}

/// Those that kernels are made for and others, with several sequences.
pub fn head_dimensions(device: &Device) -> Outcome {
    for columns in [[64, 256], [256, 64], [201, 33], [72, 40], [33, 70], [1, 1]] {
        let case = Case { batch: 2, heads: 1, ..Case::new(70, columns) };
        case.clone().gates(-0.1).check::<f16>(device)?;
        Case { states: false, ..case }.check::<bf16>(device)?;
    }
    Ok(())
}

/// Few and many segments, some of which have no rows.
pub fn segments(device: &Device) -> Outcome {
    for segments in [1, 2, 3, 5, 9] {
        Case::new(300, [64, 64]).gates(-0.02).segments(segments).check::<f16>(device)?;
    }
    let case = Case { batch: 2, ..Case::new(200, [128, 64]) };
    case.decay(&[-0.01, -0.2]).segments(3).check_all::<bf16>(device)
}

/// Lengths of all kinds, in segments too.
pub fn packed(device: &Device) -> Outcome {
    let lengths = [70, 0, 1, 129, 64, 0];
    for segments in [1, 2] {
        let case = Case::new(0, [64, 64]).packed(&lengths).gates(-0.1).segments(segments);
        case.check_all::<f16>(device)?;
    }
    Case::new(0, [128, 128]).packed(&lengths).check::<bf16>(device)
}
