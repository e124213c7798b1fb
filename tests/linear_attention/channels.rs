//! Gates of channels.

use tilewright::{Device, bf16, f16};
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

/// Lengths of all kinds, one after the other too.
pub fn lengths(device: &Device) -> Outcome {
    for rows in [0, 1, 63, 64, 65, 500] {
        Case { heads: 1, ..Case::new(rows, [64, 64]) }.channels(-0.05).check::<bf16>(device)?;
    }
    let packed = Case::new(0, [64, 64]).packed(&[70, 0, 1, 129, 64, 0]).channels(-0.1);
    packed.check_all::<f16>(device)?;
    Case { batch: 2, ..Case::new(70, [40, 72]) }.channels(-0.3).check::<f16>(device)
}
