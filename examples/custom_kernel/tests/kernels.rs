//! The operators at sizes that do not fit tiles, on views that do not fit their fast paths.

use std::process::ExitCode;

use custom_kernel::{
    KERNELS, Weights, gemv, gemv_reference, modulate, modulate_reference, relative_error, softmax,
    softmax_reference, swiglu, swiglu_for, swiglu_reference,
};
use custom_kernel_device::modulate::modulate as modulate_kernel;
use tilewright::quant::{Format, Group, HalfType, Order, QuantizedWeights, Scheme, Zeros};
use tilewright::{Arch, Device, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, Suite};

fn main() -> ExitCode {
    Suite::new()
        .test("kernels are compiled for the architectures that they are for", compiled)
        .device(Arch::Sm80, "softmax over rows of any length", softmax_lengths)
        .device(Arch::Sm80, "softmax of a transposed matrix", softmax_strides)
        .device(Arch::Sm80, "swiglu for Ampere", |device| swiglu_sizes(device, Arch::Sm80))
        .device(Arch::Sm90a, "swiglu for Hopper", |device| swiglu_sizes(device, Arch::Sm90a))
        .device(Arch::Sm80, "swiglu of windows, for Ampere", |device| swiglu_windows(device, Arch::Sm80))
        .device(Arch::Sm90a, "swiglu of windows, for Hopper", |device| swiglu_windows(device, Arch::Sm90a))
        .device(Arch::Sm80, "modulate tensors of any shape and strides", modulated)
        .device(Arch::Sm80, "gemv of packed u4 weights", gemv_sizes)
        .device(Arch::Sm80, "modulate by any number of CTAs", modulated_by)
        .device(Arch::Sm80, "arguments that do not fit are named", refusals)
        .main()
}

fn compiled() -> Outcome {
    let mut found: Vec<_> = KERNELS.entries().iter().map(|entry| (entry.arch, entry.name)).collect();
    found.sort();
    let expected = [
        (Arch::Sm80, "gemv_u4"),
        (Arch::Sm80, "modulate_f16"),
        (Arch::Sm80, "softmax_f16_1024"),
        (Arch::Sm80, "softmax_f16_256"),
        (Arch::Sm80, "softmax_f16_4096"),
        (Arch::Sm80, "swiglu_ampere"),
        (Arch::Sm80, "swiglu_unaligned"),
        (Arch::Sm90a, "swiglu_hopper"),
    ];
    assert_eq!(found, expected);
    Ok(())
}

/// A tensor whose elements are NaN until a kernel writes them.
fn poisoned(device: &Device, shape: &[usize]) -> tilewright::Result<Tensor<f16>> {
    Tensor::filled(device, f16::NAN, shape)
}

fn assert_near(what: &str, y: &[f16], reference: &[f64]) {
    let error = relative_error(y, reference);
    assert!(error < 1e-3, "{what}: relative error {error:e}");
}

fn softmax_lengths(device: &Device) -> Outcome {
    let stream = device.default_stream();
    for (rows, cols) in
        [(1, 1), (7, 8), (4, 255), (129, 256), (5, 257), (33, 1000), (64, 1024), (3, 4095), (6, 4096)]
    {
        let data = normal::<f16>((rows * cols) as u64, rows * cols);
        let x = Tensor::from_slice(device, &data, &[rows, cols])?;
        let mut y = poisoned(device, &[rows, cols])?;
        softmax(&stream, &x.view(), &mut y.view_mut())?;
        assert_near(&format!("{rows} x {cols}"), &y.to_vec()?, &softmax_reference(&data, cols));
    }
    Ok(())
}

fn softmax_strides(device: &Device) -> Outcome {
    let (rows, cols) = (65, 100);
    let data = normal::<f16>(1, rows * cols);
    let columns = Tensor::from_slice(device, &data, &[cols, rows])?;
    let x = columns.view().transpose(0, 1)?;
    let mut y = poisoned(device, &[rows, cols + 3])?;
    softmax(&device.default_stream(), &x, &mut y.view_mut().narrow(1, 2, cols)?)?;
    assert_near("a window", &y.view().narrow(1, 2, cols)?.to_vec()?, &softmax_reference(&x.to_vec()?, cols));
    let outside =
        y.view().narrow(1, 0, 2)?.to_vec()?.into_iter().chain(y.view().select(1, cols + 2)?.to_vec()?);
    assert!(outside.into_iter().all(f16::is_nan), "nothing is stored beside the window");
    Ok(())
}

fn swiglu_sizes(device: &Device, arch: Arch) -> Outcome {
    let stream = device.default_stream();
    for (m, n, k) in
        [(1, 8, 8), (128, 128, 64), (129, 264, 72), (300, 130, 1000), (15, 7, 33), (65, 127, 129), (4, 4, 0)]
    {
        let [x, gate, up] = [(1, m), (2, n), (3, n)].map(|(seed, rows)| normal::<f16>(seed, rows * k));
        let reference = if k == 0 { vec![0.0; m * n] } else { swiglu_reference(&x, &gate, &up, k) };
        let x = Tensor::from_slice(device, &x, &[m, k])?;
        let gate = Tensor::from_slice(device, &gate, &[n, k])?;
        let up = Tensor::from_slice(device, &up, &[n, k])?;
        let mut y = poisoned(device, &[m, n])?;
        swiglu_for(arch, &stream, &x.view(), &gate.view(), &up.view(), &mut y.view_mut())?;
        let y = y.to_vec()?;
        if k == 0 {
            assert!(y.iter().all(|y| y.to_f32() == 0.0), "{m} x {n} x {k}");
        } else {
            assert_near(&format!("{m} x {n} x {k}"), &y, &reference);
        }
    }
    Ok(())
}

/// Lines that are aligned, and end within a piece of 16 bytes: what lies behind them must not count.
fn swiglu_windows(device: &Device, arch: Arch) -> Outcome {
    let (rows, k, stride) = (70, 60, 64);
    let data = [1, 2, 3].map(|seed| normal::<f16>(seed, rows * k));
    let reference = swiglu_reference(&data[0], &data[1], &data[2], k);
    let wide = data.map(|data| {
        let line = |line: &[f16]| line.iter().copied().chain([f16::NAN; 4]).collect::<Vec<_>>();
        Tensor::from_slice(device, &data.chunks(k).flat_map(line).collect::<Vec<_>>(), &[rows, stride])
    });
    let [x, gate, up] = wide.map(|wide| wide.expect("room"));
    let mut y = poisoned(device, &[rows, rows])?;
    let [x, gate, up] = [&x, &gate, &up].map(|wide| wide.view().narrow(1, 0, k).expect("so many columns"));
    swiglu_for(arch, &device.default_stream(), &x, &gate, &up, &mut y.view_mut())?;
    assert_near("windows", &y.to_vec()?, &reference);
    Ok(())
}

fn u4([n, k]: [usize; 2]) -> tilewright::Result<QuantizedWeights> {
    let scheme = Scheme { format: Format::U4, group: Group::K128, zeros: Zeros::None, scales: HalfType::F16 };
    QuantizedWeights::quantize("w", &normal::<f32>(9, n * k), [n, k], scheme)
}

fn gemv_sizes(device: &Device) -> Outcome {
    for (n, k) in [(1, 1), (15, 64), (64, 127), (130, 520), (17, 2200), (80, 4096)] {
        let (w, x) = (u4([n, k])?, normal::<f16>(1, k));
        let on = Weights::upload(device, &w.pack(Order::B16)?)?;
        let (at, mut y) = (Tensor::from_slice(device, &x, &[k])?, Tensor::filled(device, f32::NAN, &[n])?);
        gemv(&device.default_stream(), &on, &at.view(), &mut y.view_mut())?;
        let error = relative_error(&y.to_vec()?, &gemv_reference(&w.dequantize(), &x));
        assert!(error < 1e-5, "{n} x {k}: relative error {error:e}");
    }
    Ok(())
}

fn modulated(device: &Device) -> Outcome {
    let stream = device.default_stream();
    for shape @ [batch, tokens, cols] in
        [[1, 1, 1], [2, 3, 8], [3, 5, 33], [2, 7, 1000], [1, 1, 131_072], [300, 1, 40], [0, 2, 8], [2, 2, 0]]
    {
        let factors = [batch, 1, cols];
        let x = normal::<f16>(1, shape.iter().product());
        let [scale, shift] = [2, 3].map(|seed| normal::<f16>(seed, batch * cols));
        let (x, scale) =
            (Tensor::from_slice(device, &x, &shape)?, Tensor::from_slice(device, &scale, &factors)?);
        let shift = Tensor::from_slice(device, &shift, &factors)?;
        // Tokens and batch the other way round, and rows that are padded.
        let mut y = poisoned(device, &[tokens, batch, cols + 3])?;
        let inside = y.view_mut().narrow(2, 0, cols)?;
        modulate(&stream, &x.view(), &scale.view(), &shift.view(), &mut inside.transpose(0, 1)?)?;
        let mut straight = poisoned(device, &shape)?;
        modulate(&stream, &x.view(), &scale.view(), &shift.view(), &mut straight.view_mut())?;
        let wide = |factor: &Tensor<f16>| factor.view().broadcast(&shape)?.to_vec();
        let reference = modulate_reference(&x.to_vec()?, &wide(&scale)?, &wide(&shift)?);
        let strided = y.view().narrow(2, 0, cols)?.transpose(0, 1)?.to_vec()?;
        for y in [strided, straight.to_vec()?] {
            for (y, exact) in y.iter().zip(&reference) {
                let off = (y.to_f64() - exact).abs();
                assert!(off <= 1e-3 * exact.abs() + 1e-6, "{shape:?}: {y} in place of {exact}");
            }
        }
        assert!(
            y.view().narrow(2, cols, 3)?.to_vec()?.into_iter().all(f16::is_nan),
            "nothing is stored beside"
        );
    }
    Ok(())
}

/// CTAs go on behind the whole grid, however large it is.
fn modulated_by(device: &Device) -> Outcome {
    let (stream, shape) = (device.default_stream(), [3, 7, 1000]);
    let [x, scale, shift] = [1, 2, 3].map(|seed| normal::<f16>(seed, 21_000));
    let reference = modulate_reference(&x, &scale, &shift);
    let [x, scale, shift] = [x, scale, shift].map(|data| Tensor::from_slice(device, &data, &shape));
    let (x, scale, shift) = (x?, scale?, shift?);
    for ctas in [1, 2, 7, 100] {
        let mut y = poisoned(device, &shape)?;
        let arguments = (&x.view(), &scale.view(), &shift.view(), &mut y.view_mut());
        device.kernel::<modulate_kernel<f16>>(&KERNELS)?.launch(&stream, [ctas, 1, 1], arguments)?;
        assert_near(&format!("{ctas} CTAs"), &y.to_vec()?, &reference);
    }
    Ok(())
}

fn refusals(device: &Device) -> Outcome {
    let stream = device.default_stream();
    let [a, b] = [[8, 16], [16, 8]].map(|shape| Tensor::<f16>::zeros(device, &shape));
    let (a, b) = (a?, b?);
    let mut y = Tensor::<f16>::zeros(device, &[8, 8])?;
    let error = softmax(&stream, &a.view(), &mut y.view_mut()).unwrap_err().to_string();
    assert_eq!(
        error,
        "`x` was of shape [8, 16]; it must be such that x.shape() == y.shape(), with `y` of shape [8, 8]"
    );
    let error = swiglu(&stream, &a.view(), &a.view(), &b.view(), &mut y.view_mut()).unwrap_err().to_string();
    let rule = "it must be such that u.shape() == g.shape(), with `g` of shape [16, 8]";
    assert_eq!(error, format!("`u` was of shape [8, 16]; {rule}"));
    let error = Weights::upload(device, &u4([8, 8])?.pack(Order::B8)?).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("order b16")));
    let wide = Tensor::<f16>::zeros(device, &[1, 4097])?;
    let mut y = Tensor::<f16>::zeros(device, &[1, 4097])?;
    let error = softmax(&stream, &wide.view(), &mut y.view_mut()).unwrap_err().to_string();
    assert!(error.ends_with("a matrix of at most 4096 columns"), "{error}");
    Ok(())
}
