//! The delta rule, without decays and with all kinds of them.

use tilewright::{Device, bf16, f16};
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
