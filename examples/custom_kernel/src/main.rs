//! Kernels written in this crate, launched through tilewright and compared with the CPU.

use std::process::ExitCode;

use custom_kernel::{
    KERNELS, Weights, gemv, gemv_reference, modulate, modulate_reference, relative_error, softmax,
    softmax_reference, swiglu, swiglu_reference,
};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tilewright::quant::{Format, Group, HalfType, Halves, Order, QuantizedWeights, ZeroPoints};
use tilewright::{Device, Error, Event, Result, Stream, Tensor, f16};

/// f16 rounds to 1 part in 2048.
const TOLERANCE: f64 = 1.0 / 1024.0;

fn main() -> ExitCode {
    for kernel in KERNELS.entries() {
        println!("{kernel:?}");
    }
    // A GPU or, where there is none, the emulator, which says so.
    let device = match Device::default() {
        Ok(device) => device,
        Err(error) => return failed(&error),
    };
    println!("on {device:?}");
    match run(&device) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

/// Runs the operators; whether they agree with the CPU.
fn run(device: &Device) -> Result<bool> {
    let stream = device.default_stream();

    let (rows, cols) = (1000, 1000);
    let logits = data(1, rows * cols, 4.0);
    let x = Tensor::from_slice(device, &logits, &[rows, cols])?;
    let mut y = Tensor::<f16>::zeros(device, &[rows, cols])?;
    softmax(&stream, &x.view(), &mut y.view_mut())?;
    let softmax_agrees = report(
        &format!("softmax over {rows} x {cols}"),
        &y.to_vec_on(&stream)?,
        &softmax_reference(&logits, cols),
    );

    let (m, n, k) = (200, 328, 520);
    let (x, gate, up) = (data(2, m * k, 1.0), data(3, n * k, 0.1), data(4, n * k, 0.1));
    let reference = swiglu_reference(&x, &gate, &up, k);
    let x = Tensor::from_slice(device, &x, &[m, k])?;
    let [gate, up] = [gate, up].map(|weights| Tensor::from_slice(device, &weights, &[n, k]));
    let (gate, up) = (gate?, up?);
    let mut y = Tensor::<f16>::zeros(device, &[m, n])?;
    swiglu(&stream, &x.view(), &gate.view(), &up.view(), &mut y.view_mut())?;
    let swiglu_agrees = report(&format!("swiglu of {m} x {n} x {k}"), &y.to_vec_on(&stream)?, &reference);

    Ok(softmax_agrees
        && swiglu_agrees
        && modulated_agree(device, &stream)?
        && products_agree(device, &stream)?)
}

/// Scales and shifts the columns of a batch's tokens.
fn modulated_agree(device: &Device, stream: &Stream) -> Result<bool> {
    let (shape, factors) = ([2, 100, 1000], [2, 1, 1000]);
    let [x, scale, shift] = [(7, 200_000), (8, 2000), (9, 2000)].map(|(seed, len)| data(seed, len, 1.0));
    let of_x = Tensor::from_slice(device, &x, &shape)?;
    let [scale, shift] = [scale, shift].map(|data| Tensor::from_slice(device, &data, &factors));
    let (scale, shift, mut y) = (scale?, shift?, Tensor::<f16>::zeros(device, &shape)?);
    modulate(stream, &of_x.view(), &scale.view(), &shift.view(), &mut y.view_mut())?;
    let [scale, shift] = [scale, shift].map(|factor| factor.view().broadcast(&shape)?.to_vec());
    let reference = modulate_reference(&x, &scale?, &shift?);
    Ok(report("modulate of 2 x 100 x 1000", &y.to_vec_on(stream)?, &reference))
}

/// Multiplies packed weights with a vector; on a GPU, larger ones, which it times.
fn products_agree(device: &Device, stream: &Stream) -> Result<bool> {
    let [n, k] = if device.is_emulator() { [200, 456] } else { [8192, 8192] };
    let (codes, groups) = (data(5, n * k, 1.0), Group::K128.count(k));
    let codes = codes.iter().map(|code| ((code.to_f32() + 1.0) * 7.5) as u8).collect();
    let scales = Halves::round(HalfType::F16, (0..n * groups).map(|i| (i % 7 + 1) as f64 / 256.0));
    let group = Group::K128;
    let w = QuantizedWeights::new("w", Format::U4, group, [n, k], codes, scales, ZeroPoints::None)?;
    let x = data(6, k, 1.0);
    let reference = gemv_reference(&w.dequantize(), &x);
    let packed = w.pack(Order::B16)?;
    // More than the L2 cache holds.
    let sets = if device.is_emulator() { 1 } else { 8 };
    let w: Vec<_> = (0..sets).map(|_| Weights::upload(device, &packed)).collect::<Result<_>>()?;
    let x = Tensor::from_slice(device, &x, &[k])?;
    let mut y = Tensor::<f32>::zeros(device, &[n])?;
    gemv(stream, &w[0], &x.view(), &mut y.view_mut())?;
    let agree = report(&format!("gemv of {n} x {k}, u4"), &y.to_vec_on(stream)?, &reference);
    if !device.is_emulator() {
        let (start, end, launches) = (Event::new(device)?, Event::new(device)?, 200);
        stream.record(&start)?;
        for i in 0..launches {
            gemv(stream, &w[i % sets], &x.view(), &mut y.view_mut())?;
        }
        stream.record(&end)?;
        let ms = f64::from(start.elapsed_ms(&end)?) / launches as f64;
        println!("gemv: {:.1} µs, {:.0} GB/s of codes and scales", ms * 1e3, w[0].bytes() as f64 / ms / 1e6);
    }
    Ok(agree)
}

/// Numbers spread evenly over -`size` to `size`.
fn data(seed: u64, len: usize, size: f32) -> Vec<f16> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..len).map(|_| f16::from_f32(random.random_range(-size..size))).collect()
}

/// Says how far the result is from the reference; whether that is near enough.
fn report<T: Copy + Into<f64>>(what: &str, y: &[T], reference: &[f64]) -> bool {
    let error = relative_error(y, reference);
    let agrees = error <= TOLERANCE;
    println!("{what}: relative error {error:.1e}, {}", if agrees { "as on the CPU" } else { "WRONG" });
    agrees
}
