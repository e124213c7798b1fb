//! Narrow weights made wide, and products of these.

use tilewright::ops::{DequantGemm, DeviceWeights};
use tilewright::quant::{Format, Group, Order, QuantizedWeights, Zeros};
use tilewright::{Device, Stream, Tensor, TensorViewMut, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Activations, check, kernels, weights};
use crate::codes::zeros;

/// Compares wide weights, whose rows lie `stride` apart, with the host's; between rows nothing is written.
fn compare<T: Activations>(got: &[T], stride: usize, w: &QuantizedWeights) -> Result<(), String> {
    let [_, k] = w.shape();
    for (i, (got, want)) in got.chunks(stride).zip(w.dequantize().chunks(k)).enumerate() {
        let largest = want.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        // A zero's product is rounded before it is subtracted.
        let shift = if w.scheme().zeros == Zeros::None { 0.0 } else { 3.0 * largest };
        for (j, (got, &want)) in T::widen(&got[..k]).into_iter().zip(want).enumerate() {
            // Values of nf4 are rounded before they are scaled.
            let allowed = T::ROUNDING * (2.1 * want.abs() + shift) + 6e-8;
            let off = (f64::from(got) - want).abs();
            if off.is_nan() || off > allowed {
                return Err(format!("{:?}: ({i}, {j}) is {got}, not {want} (within {allowed})", w.scheme()));
            }
        }
        if T::widen(&got[k..]).into_iter().any(|x| !x.is_nan()) {
            return Err(format!("{:?}: row {i} is written behind its end", w.scheme()));
        }
    }
    Ok(())
}

fn of_scheme<T: Activations>(device: &Device, shape: [usize; 2], scheme: (Format, Group, Zeros)) -> Outcome {
    let ([n, k], stream) = (shape, Stream::new(device)?);
    let w = weights::<T>(shape, scheme)?;
    let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let stride = k + 5;
    let wide = Tensor::filled(device, T::POISON, &[n, stride])?;
    // SAFETY: the memory is the tensor's, which outlives the view, and nothing else uses it.
    let mut view =
        unsafe { TensorViewMut::<T>::from_raw_parts(device, wide.address(), &[n, k], &[stride, 1])? };
    packed.dequantize(&stream, &mut view)?;
    Ok(compare(&wide.to_vec_on(&stream)?, stride, &w)?)
}

/// Every format with each mode of zeros and groups in turn, of rows and depths that end inside of blocks.
pub fn as_on_the_host(device: &Device) -> Outcome {
    for (i, format) in Format::ALL.into_iter().enumerate() {
        for (j, zeros) in zeros(format).into_iter().enumerate() {
            let scheme = (format, Group::ALL[(i + j) % Group::ALL.len()], zeros);
            of_scheme::<f16>(device, [70, 200], scheme)?;
            of_scheme::<bf16>(device, [70, 200], scheme)?;
        }
    }
    // Several tiles.
    of_scheme::<f16>(device, [130, 2100], (Format::NF4, Group::K64, Zeros::None))
}

/// More weights than are made wide at a time.
pub fn slabs(device: &Device) -> Outcome {
    let k = 2048;
    // Two slabs of a MiB for each of the emulator's SMs; on a GPU one.
    let w = weights::<f16>([1100, k], (Format::I8, Group::K128, Zeros::Original))?;
    let names = kernels::<f16>(device, 3, &w)?;
    let name = names.iter().find(|name| name.contains("widen")).ok_or("no kernel makes weights wide")?;
    if device.is_emulator() {
        let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
        let (a, mut c) = (Tensor::<f16>::zeros(device, &[3, k])?, Tensor::<f16>::zeros(device, &[3, 1100])?);
        let plan = DequantGemm::new().kernel(name).plan(&a.view(), &packed, &c.view_mut())?;
        // In halves of what the workspace counts in.
        assert!(2 * plan.workspace_len() < 1100 * k, "all weights are one slab");
    }
    check::<f16>(device, 3, &w, Some(name))
}

/// What cannot be made wide is refused by name.
pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let w = weights::<f16>([64, 128], (Format::U4, Group::K128, Zeros::None))?;
    let [b16, b8] = [Order::B16, Order::B8].map(|order| DeviceWeights::upload(device, &w.pack(order)?));
    let (b16, b8) = (b16?, b8?);
    let expect = |outcome: tilewright::Result<()>, words: &str| match outcome {
        Ok(()) => Err(format!("nothing is refused where {words:?} was expected")),
        Err(error) if error.to_string().contains(words) => Ok(()),
        Err(error) => Err(format!("{error} does not say {words:?}")),
    };
    let mut wide = Tensor::<f16>::zeros(device, &[64, 128])?;
    let mut turned = Tensor::<f16>::zeros(device, &[128, 64])?;
    let mut other = Tensor::<bf16>::zeros(device, &[64, 128])?;
    expect(b16.dequantize(&stream, &mut turned.view_mut()), "`wide` was of shape")?;
    expect(b16.dequantize(&stream, &mut other.view_mut()), "scales")?;
    expect(b8.dequantize(&stream, &mut wide.view_mut()), "order")?;
    // Gated products of few rows alone have kernels.
    let (a, mut c) = (Tensor::<f16>::zeros(device, &[4, 128])?, Tensor::<f16>::zeros(device, &[4, 32])?);
    let candidates = DequantGemm::new().gated().candidates(&a.view(), &b16, &c.view_mut())?;
    let widens = candidates.iter().find(|kernel| kernel.name().contains("widen"));
    let widens = widens.ok_or("no candidate makes weights wide")?;
    Ok(widens.rejection().map(|_| ()).ok_or("a product by wide weights takes gated units")?)
}
