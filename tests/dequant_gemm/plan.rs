//! Plans: made once, run many times.

use tilewright::ops::{DequantGemm, DequantGemmInt8, DequantPlan, DequantViews, DeviceWeights, HalfElement};
use tilewright::quant::{Format, Group, Order, QuantizedWeights, Scheme, Zeros};
use tilewright::{Device, Error, Stream, Tensor, TensorView, TensorViewMut, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{compare, reference};

/// Of which some tiles are divided by all kernels that take these weights.
const SIZE: [usize; 3] = [5, 320, 1536];

fn quantized(seed: u64, format: Format) -> tilewright::Result<QuantizedWeights> {
    let [_, n, k] = SIZE;
    let scheme = Scheme { format, group: Group::K64, zeros: Zeros::None, scales: f16::HALF };
    QuantizedWeights::quantize("w", &normal::<f32>(seed, n * k), [n, k], scheme)
}

fn plan(device: &Device, w: &DeviceWeights) -> tilewright::Result<DequantPlan> {
    let [m, n, k] = SIZE;
    let a = TensorView::<f16>::without_memory(device, &[m, k], &[k, 1], 16)?;
    let c = TensorViewMut::<f16>::without_memory(device, &[m, n], &[n, 1], 2)?;
    DequantGemm::new().plan(&a, w, &c)
}

/// A plan that was made without memory, for weights of two layers, in memory that holds anything.
pub fn runs(device: &Device) -> Outcome {
    let [m, n, k] = SIZE;
    let layers = [quantized(1, Format::I4)?, quantized(2, Format::I4)?];
    let weights = [0, 1].map(|i| DeviceWeights::upload(device, &layers[i].pack(Order::B16)?));
    let [first, second] = weights;
    let weights = [first?, second?];
    let plan = plan(device, &weights[0])?;
    let stream = Stream::new(device)?;
    let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
    assert!(plan.workspace_len() > 0, "no tile is divided");
    for seed in 10..13 {
        for (layer, w) in layers.iter().zip(&weights) {
            let a = normal::<f16>(seed, m * k);
            let at = Tensor::from_slice(device, &a, &[m, k])?;
            // C begins at an odd place.
            let mut c = Tensor::filled(device, f16::NAN, &[m * n + 1])?;
            let mut view = c.view_mut().narrow(0, 1, m * n)?.reshape(&[m, n])?;
            let mut views = DequantViews { workspace: Some(memory.view_mut()), ..DequantViews::default() };
            plan.run(&stream, &at.view(), w, &mut view, &mut views)?;
            compare(&c.to_vec_on(&stream)?[1..], &reference(&a, layer), |_, x| x)?;
        }
    }
    // Of int8 a plan is the same.
    let integers = quantized_for_bytes()?;
    let w = DeviceWeights::upload(device, &integers.pack(Order::B8)?)?;
    let a =
        Tensor::from_slice(device, &(0..m * k).map(|i| (i * 7 % 11) as i8 - 5).collect::<Vec<_>>(), &[m, k])?;
    let (mut c, mut want) =
        (Tensor::filled(device, -1i32, &[m, n])?, Tensor::filled(device, -2i32, &[m, n])?);
    DequantGemmInt8::new().run(&stream, &a.view(), &w, &mut want.view_mut())?;
    let plan = DequantGemmInt8::new().plan(&a.view(), &w, &c.view_mut())?;
    let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len().max(1)])?;
    let mut views = DequantViews { workspace: Some(memory.view_mut()), ..DequantViews::default() };
    plan.run(&stream, &a.view(), &w, &mut c.view_mut(), &mut views)?;
    assert_eq!(c.to_vec_on(&stream)?, want.to_vec_on(&stream)?);
    Ok(())
}

fn quantized_for_bytes() -> tilewright::Result<QuantizedWeights> {
    let [_, n, k] = SIZE;
    let (format, group, zeros) = (Format::I4, Group::Row, Zeros::None);
    let scheme = Scheme { format, group, zeros, scales: f16::HALF };
    QuantizedWeights::quantize("w", &normal::<f32>(3, n * k), [n, k], scheme)
}

/// One plan on two threads, each with a stream and a workspace, and in a graph that is launched again and again.
pub fn streams(device: &Device) -> Outcome {
    let [m, n, k] = SIZE;
    let layer = quantized(1, Format::U4)?;
    let w = DeviceWeights::upload(device, &layer.pack(Order::B16)?)?;
    let plan = plan(device, &w)?;
    let a = normal::<f16>(5, m * k);
    let (at, want) = (Tensor::from_slice(device, &a, &[m, k])?, reference(&a, &layer));
    let run = |times: usize| {
        let stream = Stream::new(device)?;
        let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
        let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
        for _ in 0..times {
            let mut views = DequantViews { workspace: Some(memory.view_mut()), ..DequantViews::default() };
            plan.run(&stream, &at.view(), &w, &mut c.view_mut(), &mut views)?;
        }
        c.to_vec_on(&stream)
    };
    let results = std::thread::scope(|scope| {
        let threads = [1, 3].map(|times| scope.spawn(move || run(times)));
        threads.map(|thread| thread.join().expect("no thread panics"))
    });
    for result in results {
        compare(&result?, &want, |_, x| x)?;
    }
    let stream = Stream::new(device)?;
    let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
    let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
    let graph = stream.capture(|stream| {
        let mut views = DequantViews { workspace: Some(memory.view_mut()), ..DequantViews::default() };
        plan.run(stream, &at.view(), &w, &mut c.view_mut(), &mut views)
    })?;
    for _ in 0..3 {
        c.fill(&stream, f16::NAN)?;
        // SAFETY: the tensors are alive, and nothing else uses them.
        unsafe { graph.launch(&stream)? };
        compare(&c.to_vec_on(&stream)?, &want, |_, x| x)?;
    }
    Ok(())
}

/// What runs with a plan is what it was made for; the error names what is not.
pub fn refuses(device: &Device) -> Outcome {
    let [m, n, k] = SIZE;
    let w = DeviceWeights::upload(device, &quantized(1, Format::U4)?.pack(Order::B16)?)?;
    let other = DeviceWeights::upload(device, &quantized(1, Format::I4)?.pack(Order::B16)?)?;
    let (plan, stream) = (plan(device, &w)?, Stream::new(device)?);
    let a = Tensor::<f16>::zeros(device, &[m * k + 8])?;
    let of = |shape: &[usize], at: usize| a.view().narrow(0, at, shape.iter().product())?.reshape(shape);
    let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
    let mut memory = Tensor::<f32>::zeros(device, &[plan.workspace_len()])?;
    let bias = Tensor::<f16>::zeros(device, &[n])?;
    let mut run = |a: TensorView<'_, f16>, w: &DeviceWeights, views: &mut DequantViews<'_, f16>| match plan
        .run(&stream, &a, w, &mut c.view_mut(), views)
    {
        Err(Error::Argument { argument, .. }) => argument.to_string(),
        Err(Error::Weights { argument, .. }) => argument.to_owned(),
        other => format!("{other:?}"),
    };
    let none = DequantViews::default;
    let whole = || of(&[m, k], 0);
    assert_eq!(run(of(&[m - 1, k], 0)?, &w, &mut none()), "a");
    assert_eq!(run(of(&[k, m], 0)?.transpose(0, 1)?, &w, &mut none()), "a");
    assert_eq!(run(of(&[m, k], 1)?, &w, &mut none()), "a");
    assert_eq!(run(TensorView::without_memory(device, &[m, k], &[k, 1], 16)?, &w, &mut none()), "a");
    assert_eq!(run(whole()?, &other, &mut none()), "w");
    assert_eq!(run(whole()?, &w, &mut none()), "workspace");
    let mut with_bias = DequantViews { bias: Some(bias.view()), ..none() };
    assert_eq!(run(whole()?, &w, &mut with_bias), "bias");
    let mut short = memory.view_mut().narrow(0, 0, plan.workspace_len() - 1)?;
    let mut views = DequantViews { workspace: Some(short.reborrow()), ..none() };
    assert_eq!(run(whole()?, &w, &mut views), "workspace");
    assert!(c.to_vec()?.iter().all(|x| x.is_nan()), "something ran");
    Ok(())
}
