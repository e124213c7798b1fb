//! Gated units in the epilogue.

use tilewright::ops::{Activation, DequantGemm, DeviceWeights};
use tilewright::quant::{Format, Group, Order, Zeros};
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::activation::exact;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Activations, reference, weights};

/// Gates, or ups, that follow each other.
const GATES: usize = 8;

/// Every kernel that streams weights, with rows for one tile and for several, in one panel and in several.
pub fn units(device: &Device) -> Outcome {
    units_of::<f16>(device)?;
    units_of::<f16>(device)?;
    units_of::<bf16>(device)
}

fn units_of<T: Activations>(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (format, zeros, m, n, k) in [
        (Format::U4, Zeros::Original, 1, 80, 384),
        (Format::U4, Zeros::Original, 9, 112, 512),
        (Format::U4, Zeros::Original, 3, 16, 8448),
    ] {
        let w = weights::<T>([n, k], (format, Group::K128, zeros))?;
        let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
        let a = normal::<T>(7, m * k);
        let (at, half) = (Tensor::from_slice(device, &a, &[m, k])?, n / 2);
        let sums = reference(&a, &w);
        let alpha = (k as f32).sqrt().recip();
        let new = || DequantGemm::<T>::new().alpha(alpha).activation(Activation::Silu).gated();
        let mut c = Tensor::filled(device, T::POISON, &[m, half])?;
        let candidates = new().candidates(&at.view(), &packed, &c.view_mut())?;
        let able = candidates.iter().filter(|kernel| kernel.rejection().is_none());
        let names: Vec<_> = able.map(|kernel| kernel.name()).collect();
        assert!(!names.is_empty(), "{candidates:?}");
        assert!(names.iter().all(|name| name.starts_with("dequant_stream_")));
        for name in names {
            c.fill(&stream, T::POISON)?;
            new().kernel(name).run(&stream, &at.view(), &packed, &mut c.view_mut())?;
            for (i, got) in T::widen(&c.to_vec_on(&stream)?).into_iter().enumerate() {
                let (row, column) = (i / half, i % half);
                let at = row * n + column / GATES * 2 * GATES + column % GATES;
                let [(gate, gates), (up, ups)] = [sums[at], sums[at + GATES]]
                    .map(|(sum, all)| (f64::from(alpha) * sum, f64::from(alpha) * all));
                let want = exact(Activation::Silu, gate) * up;
                let allowed =
                    T::ROUNDING * (want.abs() + 3.0 * (gates * (1.0 + up.abs()) + ups * (1.0 + gate.abs())));
                let off = (f64::from(got) - want).abs();
                if off.is_nan() || off > allowed {
                    return Err(format!("{name}, {m} x {n} x {k}: element {i} is {got}, not {want}").into());
                }
            }
        }
    }
    Ok(())
}

/// What has no gated units says so.
pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |rows: usize, cols: usize| Tensor::<f16>::zeros(device, &[rows, cols]);
    for (name, n, columns, biased) in [("w", 72, 36, false), ("c", 80, 80, false), ("bias", 80, 40, true)] {
        let w = weights::<f16>([n, 128], (Format::U4, Group::K128, Zeros::None))?;
        let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
        let (a, mut c, bias) = (zeros(1, 128)?, zeros(1, columns)?, zeros(1, columns)?);
        let bias = bias.view().select(0, 0)?;
        let gemm = DequantGemm::new().gated();
        let mut gemm = if biased { gemm.bias(&bias) } else { gemm };
        match gemm.run(&stream, &a.view(), &packed, &mut c.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    Ok(())
}
