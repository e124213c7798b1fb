//! Scales of every kind.

use tilewright::ops::ScaledGemm;
use tilewright::{Device, F8E4M3, F8E5M2, Stream, Tensor, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Case, Scaled};

pub fn of_floats(device: &Device) -> Outcome {
    for size in [[5, 70, 272], [35, 200, 528], [200, 264, 400]] {
        for scaled in [Scaled::Tensors, Scaled::Rows, Scaled::Blocks] {
            Case::<F8E4M3, F8E4M3>::new(size, scaled).check::<bf16>(device)?;
        }
    }
    let size = [200, 136, 272];
    Case::<F8E4M3, F8E4M3>::new(size, Scaled::Blocks).check::<f32>(device)?;
    Case::<F8E4M3, F8E4M3>::new(size, Scaled::Blocks).check::<f16>(device)?;
    Case::<F8E5M2, F8E4M3>::new(size, Scaled::Rows).check::<bf16>(device)
}

pub fn of_integers(device: &Device) -> Outcome {
    for scaled in [Scaled::No, Scaled::Tensors, Scaled::Rows] {
        let mut case = Case::<i8, i8>::new([70, 150, 272], scaled);
        case.biased = true;
        case.alpha = 1.0 / 4096.0;
        case.check::<bf16>(device)?;
        case.check::<f16>(device)?;
    }
    Ok(())
}

/// Each stays in its row, column or block.
pub fn not_numbers(device: &Device) -> Outcome {
    for scaled in [Scaled::Rows, Scaled::Blocks] {
        let [m, n, k] = [40, 150, 272];
        let mut case = Case::<F8E4M3, F8E4M3>::new([m, n, k], scaled);
        let of = if scaled == Scaled::Rows { 1 } else { 3 };
        let special = [0.0, f32::INFINITY, f32::NAN, f32::NEG_INFINITY, -0.0];
        for (i, x) in special.into_iter().enumerate() {
            case.scales[0][7 * i * of] = x;
        }
        case.scales[1][0] = 0.0;
        case.check::<bf16>(device)?;
    }
    // A view that is broadcast is a scale of every row.
    let (a, one) = (Tensor::<F8E4M3>::zeros(device, &[5, 32])?, Tensor::filled(device, f32::NAN, &[1])?);
    let (scale, mut c) = (one.view().broadcast(&[5])?, Tensor::filled(device, 1.0f32, &[5, 5])?);
    ScaledGemm::new().scale_b(&scale).run(&Stream::new(device)?, &a.view(), &a.view(), &mut c.view_mut())?;
    assert!(c.to_vec()?.iter().all(|x| x.is_nan()));
    Ok(())
}
