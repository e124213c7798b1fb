//! What happens to the sums.

use tilewright::ops::{Activation, DequantGemm, DeviceWeights, Gelu, Identity, Relu, Silu};
use tilewright::quant::{Format, Group, Order, Zeros};
use tilewright::{Device, Stream, Tensor, TensorView, f16};
use tilewright_support::random::normal;
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
    let run = |c: Vec<f16>, f: fn(f64) -> f64| {
        compare(&c, &want, |i, x| f(f64::from(alpha) * x + bias[i % n].to_f64()))
    };
    fn with<E: Activation>(
        device: &Device,
        a: &TensorView<'_, f16>,
        w: &DeviceWeights,
        bias: &TensorView<'_, f16>,
        alpha: f32,
    ) -> tilewright::Result<Vec<f16>> {
        let mut c = Tensor::filled(device, f16::NAN, &[a.shape()[0], w.shape()[0]])?;
        let mut gemm = DequantGemm::new().alpha(alpha).bias(bias).activation::<E>();
        gemm.run(&Stream::new(device)?, a, w, &mut c.view_mut())?;
        c.to_vec()
    }
    let (a, bias) = (at.view(), bias_at.view());
    run(with::<Identity>(device, &a, &packed, &bias, alpha)?, |x| x)?;
    run(with::<Relu>(device, &a, &packed, &bias, alpha)?, |x| x.max(0.0))?;
    run(with::<Silu>(device, &a, &packed, &bias, alpha)?, |x| x / (1.0 + (-x).exp()))?;
    // Abramowitz & Stegun 7.1.26, as the kernel has it.
    run(with::<Gelu>(device, &a, &packed, &bias, alpha)?, |x| {
        let z = x.abs() / std::f64::consts::SQRT_2;
        let t = 1.0 / (1.0 + 0.327_591_1 * z);
        let poly = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
        let erf = 1.0 - poly.iter().fold(0.0, |sum, c| (sum + c) * t) * (-z * z).exp();
        0.5 * x * (1.0 + erf.copysign(x))
    })?;
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
