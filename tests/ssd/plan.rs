//! Plans that run many times, of views that had no memory.

use tilewright::ops::{CausalConv1d, CausalConv1dViews, Ssd, SsdStep, SsdStepViews, SsdViews};
use tilewright::{Device, Stream, Tensor, TensorView, bf16};
use tilewright_support::planned::{nowhere, nowhere_mut, random, refused, value};
use tilewright_support::suite::Outcome;

const LENGTH: usize = 150;
const HEADS: usize = 3;
const P: usize = 64;
const N: usize = 64;

/// Packed sequences of a scan with all options, in chunks: the same bits as calls.
pub fn scans(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (x, dt, bc, state) = ([1, LENGTH, HEADS, P], [1, LENGTH, HEADS], [1, LENGTH, 1, N], [2, HEADS, P, N]);
    let plan = {
        let (heads, states) = (nowhere(device, &[HEADS])?, nowhere(device, &state)?);
        let mut last = nowhere_mut(device, &state)?;
        let offsets = nowhere::<i64>(device, &[3])?;
        let ssd = Ssd::new().softplus().skip(&heads).dt_bias(&heads).gate(&nowhere(device, &x)?);
        let ssd = ssd.initial_state(&states).final_state(&mut last).packed(&offsets, 100).chunk(64);
        let (b, y) = (nowhere(device, &bc)?, nowhere_mut::<bf16>(device, &x)?);
        value(ssd.plan(&nowhere(device, &x)?, &nowhere::<bf16>(device, &dt)?, &heads, [&b, &b], &y)?)
    };
    let (z, skip, bias) =
        (random::<bf16>(device, 21, &x)?, random(device, 22, &[HEADS])?, random(device, 23, &[HEADS])?);
    let a = Tensor::filled(device, -0.5f32, &[HEADS])?;
    let initial = random::<f32>(device, 24, &state)?;
    let offsets = Tensor::<i64>::from_slice(device, &[0, 90, 150], &[3])?;
    let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
    for seed in 1..3 {
        let (from, steps) = (random::<bf16>(device, seed, &x)?, random::<bf16>(device, seed + 3, &dt)?);
        let (b, c) = (random::<bf16>(device, seed + 6, &bc)?, random::<bf16>(device, seed + 9, &bc)?);
        let (from, steps, b, c) = (from.view(), steps.view(), b.view(), c.view());
        let mut results = Vec::new();
        for planned in [true, false] {
            let mut y = Tensor::filled(device, bf16::NAN, &x)?;
            let mut last = Tensor::filled(device, f32::NAN, &state)?;
            if planned {
                let mut views = SsdViews {
                    gate: Some(z.view()),
                    dt_bias: Some(bias.view()),
                    skip: Some(skip.view()),
                    initial_state: Some(initial.view()),
                    final_state: Some(last.view_mut()),
                    offsets: Some(offsets.view().into()),
                    workspace: Some(memory.view_mut()),
                };
                plan.run(&stream, &from, &steps, &a.view(), [&b, &c], &mut y.view_mut(), &mut views)?;
            } else {
                let mut last = last.view_mut();
                let ssd = Ssd::new().softplus().skip(&skip.view()).dt_bias(&bias.view()).gate(&z.view());
                let ssd = ssd.initial_state(&initial.view()).final_state(&mut last);
                ssd.packed(offsets.view(), 100).chunk(64).run(
                    &stream,
                    &from,
                    &steps,
                    &a.view(),
                    [&b, &c],
                    &mut y.view_mut(),
                )?;
            }
            let y: Vec<u16> = y.to_vec_on(&stream)?.into_iter().map(bf16::to_bits).collect();
            results.push((y, last.to_vec_on(&stream)?));
        }
        assert_eq!(results[0], results[1]);
    }
    let (from, y) = (Tensor::<bf16>::zeros(device, &x)?, Tensor::<bf16>::zeros(device, &x)?);
    let (b, steps) = (Tensor::<bf16>::zeros(device, &bc)?, Tensor::<bf16>::zeros(device, &dt)?);
    let (from, b, steps, mut y) = (from.view(), b.view(), steps.view(), y);
    let mut run = |x: &TensorView<'_, bf16>, a: &Tensor<f32>, views: &mut SsdViews<'_, bf16>| {
        refused(plan.run(&stream, x, &steps, &a.view(), [&b, &b], &mut y.view_mut(), views))
    };
    let mut none = SsdViews::default();
    assert_eq!(run(&from.clone().narrow(1, 1, 149)?, &a, &mut none), "x");
    assert_eq!(run(&from, &Tensor::zeros(device, &[HEADS + 1])?, &mut none), "a");
    assert_eq!(run(&from, &a, &mut none), "z");
    Ok(())
}

/// Tokens one by one, of a convolution and of a scan's step, whose states go on: the same bits as calls.
pub fn steps(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (batch, channels, width) = (2, 40, 4);
    let of_state = [batch, channels, width - 1];
    let plan = {
        let mut state = nowhere_mut(device, &of_state)?;
        let (x, w) = (nowhere(device, &[batch, 1, channels])?, nowhere(device, &[channels, width])?);
        let conv = CausalConv1d::<bf16>::new().silu().state(&mut state);
        value(conv.plan(&x, &w, &nowhere_mut(device, &[batch, 1, channels])?)?)
    };
    let w = random::<bf16>(device, 1, &[channels, width])?;
    let (mut state, mut called) = (Tensor::zeros(device, &of_state)?, Tensor::zeros(device, &of_state)?);
    for token in 0..5 {
        let x = random::<bf16>(device, 10 + token, &[batch, 1, channels])?;
        let (mut y, mut to) =
            (Tensor::filled(device, bf16::NAN, x.shape())?, Tensor::zeros(device, &[batch, channels])?);
        let mut views = CausalConv1dViews { state: Some(state.view_mut()), ..CausalConv1dViews::default() };
        plan.run(&stream, &x.view(), &w.view(), &mut y.view_mut(), &mut views)?;
        let from = x.view().select(1, 0)?;
        CausalConv1d::new().silu().step(
            &stream,
            &from,
            &w.view(),
            &mut to.view_mut(),
            &mut called.view_mut(),
        )?;
        assert_eq!(y.to_vec_on(&stream)?, to.to_vec_on(&stream)?);
    }
    assert_eq!(state.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
    let x = random::<bf16>(device, 1, &[batch, 1, channels])?;
    let mut y = Tensor::<bf16>::zeros(device, x.shape())?;
    let mut none = CausalConv1dViews::default();
    assert_eq!(refused(plan.run(&stream, &x.view(), &w.view(), &mut y.view_mut(), &mut none)), "state");

    let (of_x, of_b, of_state) = ([batch, HEADS, P], [batch, 1, N], [batch, HEADS, P, N]);
    let plan = {
        let (x, b, heads) = (nowhere(device, &of_x)?, nowhere(device, &of_b)?, nowhere(device, &[HEADS])?);
        let dt = nowhere::<f32>(device, &[batch, HEADS])?;
        let (y, state) = (nowhere_mut(device, &of_x)?, nowhere_mut::<f32>(device, &of_state)?);
        let step = SsdStep::<bf16>::new().softplus().skip(&heads);
        value(step.plan(&x, &dt, &heads, [&b, &b], &y, &state)?)
    };
    let (a, skip) = (Tensor::filled(device, -0.5f32, &[HEADS])?, random::<f32>(device, 2, &[HEADS])?);
    let (mut state, mut called) =
        (Tensor::<f32>::zeros(device, &of_state)?, Tensor::<f32>::zeros(device, &of_state)?);
    let mut y = Tensor::filled(device, bf16::NAN, &of_x)?;
    for token in 0..4 {
        let (x, b) = (random::<bf16>(device, 30 + token, &of_x)?, random::<bf16>(device, 40 + token, &of_b)?);
        let dt = random::<f32>(device, 50 + token, &[batch, HEADS])?;
        let (x, b, dt) = (x.view(), b.view(), dt.view());
        let views = SsdStepViews { skip: Some(skip.view()), ..SsdStepViews::default() };
        plan.run(&stream, &x, &dt, &a.view(), [&b, &b], &mut y.view_mut(), &mut state.view_mut(), &views)?;
        let mut to = Tensor::zeros(device, &of_x)?;
        let step = SsdStep::new().softplus().skip(&skip.view());
        step.run(&stream, &x, &dt, &a.view(), [&b, &b], &mut to.view_mut(), &mut called.view_mut())?;
        assert_eq!(y.to_vec_on(&stream)?, to.to_vec_on(&stream)?);
    }
    assert_eq!(state.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
    let (x, b, dt) = (Tensor::<bf16>::zeros(device, &of_x)?, random::<bf16>(device, 1, &of_b)?, a.view());
    let dt = dt.reshape(&[1, HEADS])?.broadcast(&[batch, HEADS])?;
    let mut run = |dt: &TensorView<'_, f32>, views: &SsdStepViews<'_, bf16>| {
        let (b, mut state, mut y) = (b.view(), state.view_mut(), y.view_mut());
        refused(plan.run(&stream, &x.view(), dt, &a.view(), [&b, &b], &mut y, &mut state, views))
    };
    let views = SsdStepViews { skip: Some(skip.view()), ..SsdStepViews::default() };
    assert_eq!(run(&dt, &views), "dt");
    let given = SsdStepViews { gate: Some(x.view()), ..views };
    let dt = random::<f32>(device, 1, &[batch, HEADS])?;
    assert_eq!(run(&dt.view(), &given), "z");
    assert_eq!(run(&dt.view(), &SsdStepViews::default()), "skip");
    Ok(())
}
