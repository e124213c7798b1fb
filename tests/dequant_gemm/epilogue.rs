//! What happens to the sums.

use std::collections::BTreeSet;

use tilewright::ops::{self, Activation, DequantGemm, DeviceWeights};
use tilewright::quant::{Format, Group, Order, Zeros};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::activation::exact;
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};

use crate::case::{Activations, compare, kernels, reference, weights};
use crate::codes::zeros;

/// alpha, a bias and each activation, on every kernel.
pub fn all(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    all_of::<f16>(device, &mut seen)?;
    all_of::<bf16>(device, &mut seen)?;
    let fits = |bytes| bytes <= device.shared_memory_per_cta();
    let runnable = ops::kernels().filter(|kernel| device.runs(kernel.arch) && fits(kernel.shared_bytes));
    let names = runnable.map(|kernel| kernel.name);
    let is_of_this = |name: &&str| {
        name.starts_with("widen_") || name.starts_with("dequant_") && !name.starts_with("dequant_gemm_int8")
    };
    let these = names.filter(is_of_this);
    assert_eq!(seen, these.collect::<BTreeSet<_>>());
    Ok(())
}

fn all_of<T: Activations>(device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
    let (m, n, k) = (6, 72, 128);
    let (a, bias) = (normal::<T>(7, m * k), normal::<T>(8, n));
    let at = Tensor::from_slice(device, &a, &[m, k])?;
    let bias_at = Tensor::from_slice(device, &bias, &[n])?;
    let (at, bias_view, bias) = (at.view(), bias_at.view(), T::widen(&bias));
    let (alpha, stream) = (0.125, Stream::new(device)?);
    for format in Format::ALL {
        for zeros in zeros(format) {
            let w = weights::<T>([n, k], (format, Group::K128, zeros))?;
            let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
            let want = reference(&a, &w);
            for name in kernels::<T>(device, m, &w)? {
                let of = format!("{name} {format:?} {zeros:?}");
                for (i, activation) in Activation::ALL.into_iter().enumerate() {
                    if !seen.insert(name) && !picked(device, (&of, i), 3) {
                        continue;
                    }
                    let mut c = Tensor::filled(device, T::POISON, &[m, n])?;
                    let gemm = DequantGemm::new().alpha(alpha).bias(&bias_view).activation(activation);
                    gemm.kernel(name).run(&stream, &at, &packed, &mut c.view_mut())?;
                    let of = |i: usize, x| exact(activation, f64::from(alpha) * x + f64::from(bias[i % n]));
                    compare(&c.to_vec_on(&stream)?, &want, of)
                        .map_err(|what| format!("{name}, {activation}: {what}"))?;
                }
            }
        }
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
    let stream = Stream::new(device)?;
    // Whatever it holds: zeros, ones, what the last call left.
    let mut memory = Tensor::<f32>::zeros(device, &[len.max(1)])?;
    for value in [Some(0), None, Some(1), Some(u32::MAX)] {
        if let Some(bits) = value {
            memory.fill(&stream, f32::from_bits(bits))?;
        }
        c.fill(&stream, f16::NAN)?;
        let mut view = memory.view_mut();
        DequantGemm::new().workspace(&mut view).run(&stream, &at.view(), &packed, &mut c.view_mut())?;
        compare(&c.to_vec_on(&stream)?, &reference(&a, &w), |_, x| x)?;
    }
    if len > 0 {
        let mut short = memory.view_mut().narrow(0, 0, len - 1)?;
        let refused =
            DequantGemm::new().workspace(&mut short).run(&stream, &at.view(), &packed, &mut c.view_mut());
        assert!(refused.is_err_and(|error| error.to_string().contains("workspace")));
    }
    Ok(())
}
