//! What happens to the sums.

use tilewright::ops::{Activation, DequantGemm, DeviceWeights};
use tilewright::quant::{Format, Group, Order, Zeros};
use tilewright::{Device, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::reference::erf;
use tilewright_support::suite::Outcome;

use crate::case::{compare, reference, weights};

/// alpha, a bias and each activation.
pub fn all(device: &Device) -> Outcome {
    [Group::K64, Group::K128].into_iter().try_for_each(|group| all_in(device, group))
}

/// Kernels are chosen by groups, too.
fn all_in(device: &Device, group: Group) -> Outcome {
    let (m, n, k) = (6, 72, 128);
    let w = weights::<f16>([n, k], (Format::U4, group, Zeros::None))?;
    let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let (a, bias) = (normal::<f16>(7, m * k), normal::<f16>(8, n));
    let at = Tensor::from_slice(device, &a, &[m, k])?;
    let bias_at = Tensor::from_slice(device, &bias, &[n])?;
    let alpha = 0.125;
    let want = reference(&a, &w);
    let (a, bias_view, stream) = (at.view(), bias_at.view(), Stream::new(device)?);
    for activation in Activation::ALL {
        let exact = |x: f64| match activation {
            Activation::Identity => x,
            Activation::Relu => x.max(0.0),
            Activation::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
            Activation::Silu => x / (1.0 + (-x).exp()),
        };
        let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
        let mut gemm = DequantGemm::new().alpha(alpha).bias(&bias_view).activation(activation);
        gemm.run(&stream, &a, &packed, &mut c.view_mut())?;
        compare(&c.to_vec_on(&stream)?, &want, |i, x| exact(f64::from(alpha) * x + bias[i % n].to_f64()))
            .map_err(|what| format!("{activation}: {what}"))?;
    }
    Ok(())
}

/// A workspace that is long enough serves call after call; one that is not is refused.
pub fn workspace(device: &Device) -> Outcome {
    let (m, n, k) = (3, 200, 1024);
    let w = weights::<f16>([n, k], (Format::U4, Group::K64, Zeros::None))?;
    let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let a = normal::<f16>(7, m * k);
    let at = Tensor::from_slice(device, &a, &[m, k])?;
    let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
    let len = DequantGemm::new().workspace_len(&at.view(), &packed, &c.view_mut())?;
    let mut memory = Tensor::<f32>::zeros(device, &[len.max(1)])?;
    let stream = Stream::new(device)?;
    for _ in 0..2 {
        let mut view = memory.view_mut();
        DequantGemm::new().workspace(&mut view).run(&stream, &at.view(), &packed, &mut c.view_mut())?;
        compare(&c.to_vec_on(&stream)?, &reference(&a, &w), |_, x| x)?;
    }
    if memory.to_vec_on(&stream)?.iter().take(len.min(4096)).any(|x| x.to_bits() != 0) {
        return Err("counters were left behind".into());
    }
    if len > 0 {
        let mut short = memory.view_mut().narrow(0, 0, len - 1)?;
        let refused =
            DequantGemm::new().workspace(&mut short).run(&stream, &at.view(), &packed, &mut c.view_mut());
        assert!(refused.is_err_and(|error| error.to_string().contains("workspace")));
    }
    Ok(())
}
