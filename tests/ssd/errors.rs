//! Calls that are refused name the argument, what it was, and what is allowed; they leave the output alone.

use tilewright::ops::{CausalConv1d, CausalConv1dGradient, Ssd, SsdGradient, SsdStep};
use tilewright::{Device, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::suite::Outcome;

#[track_caller]
fn says<T>(result: tilewright::Result<T>, message: &str) {
    match result {
        Ok(_) => panic!("no error: {message}"),
        Err(error) => assert_eq!(error.to_string(), message),
    }
}

pub fn conv(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let there = Device::emulator_with_seed(5);
    let zeros = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (x, w, wide) = (zeros(&[2, 5, 8])?, zeros(&[8, 4])?, zeros(&[8, 9])?);
    let mut y = Tensor::filled(device, f16::NAN, &[2, 5, 8])?;
    let (bias, state) = (zeros(&[7])?, zeros(&[2, 8, 4])?);
    let offsets = Tensor::<i32>::zeros(device, &[3])?;
    let (bias, state, offsets) = (bias.view(), state.view(), offsets.view());
    let (mut room, mut small) = (zeros(&[2, 8, 3])?, zeros(&[1, 8, 3])?);
    let (x, w) = (x.view(), w.view());
    let plain = CausalConv1d::<f16>::new;
    let flat = x.clone().select(0, 0)?;
    says(
        plain().run(&stream, &flat, &w, &mut y.view_mut()),
        "`x` was of shape [5, 8]; it must be of 3 dimensions: batch, length, channels",
    );
    let text =
        "`w` was of shape [8, 9]; it must be of shape [8, width], of the channels of `x`, a width of 1 to 8";
    says(plain().run(&stream, &x, &wide.view(), &mut y.view_mut()), text);
    let mut part = y.view_mut().narrow(1, 0, 4)?;
    says(
        plain().run(&stream, &x, &w, &mut part),
        "`y` was of shape [2, 4, 8]; it must be of shape [2, 5, 8]: that of `x`",
    );
    let text = "`bias` was of shape [7]; it must be of shape [8]: the channels of `x`";
    says(plain().bias(&bias).run(&stream, &x, &w, &mut y.view_mut()), text);
    let text = "`initial_state` was of shape [2, 8, 4]; it must be of shape [2, 8, 3]: sequences, channels and width - 1";
    says(plain().initial_state(&state).run(&stream, &x, &w, &mut y.view_mut()), text);
    let mut one = small.view_mut();
    let text =
        "`state` was of shape [1, 8, 3]; it must be of shape [2, 8, 3]: sequences, channels and width - 1";
    says(plain().state(&mut one).run(&stream, &x, &w, &mut y.view_mut()), text);
    let text =
        "`x` was of a batch of 2; it must be of a batch of 1: packed sequences follow each other in its rows";
    says(plain().packed(&offsets, 5).run(&stream, &x, &w, &mut y.view_mut()), text);
    let single = x.clone().narrow(0, 0, 1)?;
    let none = offsets.clone().narrow(0, 0, 0)?;
    let error = plain().packed(&none, 5).run(&stream, &single, &w, &mut y.view_mut().narrow(0, 0, 1)?);
    assert!(error.expect_err("no offsets").to_string().starts_with("`offsets` was of shape [0]"));
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[2, 5, 8], &[40, 8, 1])? };
    let text = "`y` overlaps `x`; what a call writes must lie apart from all else that it uses";
    says(plain().run(&stream, &inside, &w, &mut y.view_mut()), text);
    let elsewhere = Tensor::<f16>::zeros(&there, &[8, 4])?;
    let text = format!("`w` was on emulator:5; it must be on {}, the device of this call", device.label());
    says(plain().run(&stream, &x, &elsewhere.view(), &mut y.view_mut()), &text);
    let error = plain().kernel("none").run(&stream, &x, &w, &mut y.view_mut()).expect_err("no such kernel");
    assert!(
        error.to_string().starts_with("`kernel` was \"none\", not a kernel for f16; it must be one of "),
        "{error}"
    );
    let mut room = room.view_mut();
    let text = "`x` was of shape [2, 5, 8]; it must be of 2 dimensions: batch, channels";
    says(plain().step(&stream, &x, &w, &mut y.view_mut(), &mut room), text);
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn scan(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |shape: &[usize]| Tensor::<bf16>::zeros(device, shape);
    let (x, b, c) = (zeros(&[1, 9, 4, 64])?, zeros(&[1, 9, 2, 32])?, zeros(&[1, 9, 2, 32])?);
    let (thin, wide, odd) = (zeros(&[1, 9, 2, 31])?, zeros(&[1, 9, 2, 257])?, zeros(&[1, 9, 3, 32])?);
    let (dt, a) = (zeros(&[1, 9, 4])?, Tensor::<f32>::zeros(device, &[4])?);
    let (few, state) = (Tensor::<f32>::zeros(device, &[3])?, Tensor::<f32>::zeros(device, &[1, 4, 64, 31])?);
    let mut y = Tensor::filled(device, bf16::NAN, &[1, 9, 4, 64])?;
    let mut room = Tensor::<f32>::zeros(device, &[8])?;
    let (x, b, c, dt, a, few, state) =
        (x.view(), b.view(), c.view(), dt.view(), a.view(), few.view(), state.view());
    let plain = Ssd::<bf16>::new;
    let mut run = |mut ssd: Ssd<'_, bf16>, message: &str| {
        says(ssd.run(&stream, &x, &dt, &a, [&b, &c], &mut y.view_mut()), message)
    };
    run(plain().chunk(100), "`chunk` was 100; it must be a multiple of 64");
    run(plain().chunk(0), "`chunk` was 0; it must be a multiple of 64");
    run(
        plain().dt_limits(-1.0, 1.0),
        "`dt_limits` was from -1 to 1; it must be from 0 or more to as much or more",
    );
    run(
        plain().dt_limits(2.0, 1.0),
        "`dt_limits` was from 2 to 1; it must be from 0 or more to as much or more",
    );
    run(plain().skip(&few), "`skip` was of shape [3]; it must be of shape [4]: the heads of `x`");
    run(plain().dt_bias(&few), "`dt_bias` was of shape [3]; it must be of shape [4]: the heads of `x`");
    run(plain().gate(&b), "`z` was of shape [1, 9, 2, 32]; it must be of shape [1, 9, 4, 64]: that of `x`");
    let text = "`initial_state` was of shape [1, 4, 64, 31]; it must be of shape [1, 4, 64, 32]: sequences, heads, the columns of `x` and those of `b`";
    run(plain().initial_state(&state), text);
    let mut small = room.view_mut();
    let text =
        "`workspace` was of shape [8] and strides [1]; it must be contiguous, of 1024 elements or more";
    run(plain().workspace(&mut small), text);
    let (thin, wide, odd) = (thin.view(), wide.view(), odd.view());
    let mut with = |bc: [&TensorView<'_, bf16>; 2], message: &str| {
        says(plain().run(&stream, &x, &dt, &a, bc, &mut y.view_mut()), message)
    };
    with([&thin, &b], "`c` was of shape [1, 9, 2, 32]; it must be of shape [1, 9, 2, 31]: that of `b`");
    with([&wide, &wide], "`b` was of shape [1, 9, 2, 257]; it must be of 1 to 256 columns");
    with(
        [&odd, &odd],
        "`b` was of shape [1, 9, 3, 32]; it must be of a number of groups that divides the 4 heads of `x`",
    );
    let short = b.clone().narrow(1, 0, 8)?;
    with(
        [&short, &short],
        "`b` was of shape [1, 8, 2, 32]; it must be of shape [1, 9, 2, 32]: the batch and the length of `x`, groups, columns",
    );
    let text = "`a` was of shape [3]; it must be of shape [4]: the heads of `x`";
    says(plain().run(&stream, &x, &dt, &few, [&b, &c], &mut y.view_mut()), text);
    let text = "`dt` was of shape [1, 9, 2]; it must be of shape [1, 9, 4]: that of `x` without its columns";
    says(plain().run(&stream, &x, &dt.clone().narrow(2, 0, 2)?, &a, [&b, &c], &mut y.view_mut()), text);
    let error =
        plain().kernel("chunk_scan_sm_80_f16_n64s2").run(&stream, &x, &dt, &a, [&b, &c], &mut y.view_mut());
    assert!(
        error
            .expect_err("of f16")
            .to_string()
            .contains("not a kernel for bf16; it must be one of chunk_scan_")
    );
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn step(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |shape: &[usize]| Tensor::<bf16>::zeros(device, shape);
    let (x, b, dt) = (zeros(&[2, 4, 64])?, zeros(&[2, 1, 32])?, zeros(&[2, 4])?);
    let a = Tensor::<f32>::zeros(device, &[4])?;
    let mut y = Tensor::filled(device, bf16::NAN, &[2, 4, 64])?;
    let mut of_f16 = Tensor::<f16>::zeros(device, &[2, 4, 64, 32])?;
    let mut thin = Tensor::<f32>::zeros(device, &[2, 4, 64, 16])?;
    let mut state = Tensor::<f32>::zeros(device, &[2, 4, 64, 32])?;
    let time = Tensor::<f16>::zeros(device, &[2, 4])?;
    let (x, b, dt, a) = (x.view(), b.view(), dt.view(), a.view());
    let plain = SsdStep::<bf16>::new();
    let text = "`state` was of f16; it must be of f32 or of bf16, the element type of `x`";
    says(plain.run(&stream, &x, &dt, &a, [&b, &b], &mut y.view_mut(), &mut of_f16.view_mut()), text);
    let text = "`dt` was of f16; it must be of f32 or of bf16, the element type of `x`";
    says(plain.run(&stream, &x, &time.view(), &a, [&b, &b], &mut y.view_mut(), &mut state.view_mut()), text);
    let text = "`state` was of shape [2, 4, 64, 16]; it must be of shape [2, 4, 64, 32]: sequences, heads, the columns of `x` and those of `b`";
    says(plain.run(&stream, &x, &dt, &a, [&b, &b], &mut y.view_mut(), &mut thin.view_mut()), text);
    let text = "`x` was of shape [4, 64]; it must be of 3 dimensions: batch, heads, columns";
    says(
        plain.run(
            &stream,
            &x.clone().select(0, 0)?,
            &dt,
            &a,
            [&b, &b],
            &mut y.view_mut(),
            &mut state.view_mut(),
        ),
        text,
    );
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn gradients(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |shape: &[usize]| Tensor::<bf16>::zeros(device, shape);
    let (x, b, dt) = (zeros(&[1, 9, 4, 64])?, zeros(&[1, 9, 2, 32])?, zeros(&[1, 9, 4])?);
    let (wide, few) = (zeros(&[1, 9, 2, 129])?, zeros(&[1, 8, 4, 64])?);
    let a = Tensor::<f32>::zeros(device, &[4])?;
    let state = Tensor::<f32>::zeros(device, &[1, 4, 64, 31])?;
    let mut y = Tensor::filled(device, bf16::NAN, &[1, 9, 4, 64])?;
    let mut short = Tensor::filled(device, bf16::NAN, &[1, 9, 4, 63])?;
    let (mut three, mut room) = (Tensor::<f32>::zeros(device, &[3])?, Tensor::<f32>::zeros(device, &[8])?);
    let (x, b, dt, a, wide, few) = (x.view(), b.view(), dt.view(), a.view(), wide.view(), few.view());
    let (state, mut short, mut three, mut room) =
        (state.view(), short.view_mut(), three.view_mut(), room.view_mut());
    let plain = SsdGradient::<bf16>::new;
    let run = |mut of: SsdGradient<'_, bf16>, message: &str| {
        says(of.run(&stream, &x, &dt, &a, [&b, &b], &x), message)
    };
    let text = "`dx` was of shape [1, 9, 4, 63]; it must be of shape [1, 9, 4, 64]: that of `x`";
    run(plain().dx(&mut short), text);
    let text = "`d_a` was of shape [3]; it must be of shape [4]: the heads of `x`";
    run(plain().d_a(&mut three), text);
    let text = "`d_gate` was wanted of a scan without a gate; it must be left out, or `gate` given";
    run(plain().d_gate(&mut y.view_mut()), text);
    let text = "`d_final_state` was of shape [1, 4, 64, 31]; it must be of shape [1, 4, 64, 32]: sequences, heads, the columns of `x` and those of `b`";
    run(plain().d_final_state(&state), text);
    run(plain().chunk(100), "`chunk` was 100; it must be a multiple of 64");
    let error = plain().dx(&mut y.view_mut()).workspace(&mut room).run(&stream, &x, &dt, &a, [&b, &b], &x);
    let error = error.expect_err("too small").to_string();
    assert!(
        error.starts_with("`workspace` was of shape [8] and strides [1]; it must be contiguous, of "),
        "{error}"
    );
    let text = "`dy` was of shape [1, 8, 4, 64]; it must be of shape [1, 9, 4, 64]: that of `x`";
    says(plain().run(&stream, &x, &dt, &a, [&b, &b], &few), text);
    let error = plain().run(&stream, &x, &dt, &a, [&wide, &wide], &x).expect_err("wide lines lie anywhere");
    assert!(error.to_string().contains("it reads B row-major, in lines aligned to 16 bytes"), "{error}");
    // SAFETY: no call may use it.
    let inside =
        unsafe { TensorView::from_raw_parts(device, y.address(), &[1, 9, 4, 64], &[2304, 256, 64, 1])? };
    let text = "`dx` overlaps `dy`; what a call writes must lie apart from all else that it uses";
    says(plain().dx(&mut y.view_mut()).run(&stream, &x, &dt, &a, [&b, &b], &inside), text);
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));

    let (x, w, few) = (zeros(&[2, 5, 8])?, zeros(&[8, 4])?, zeros(&[2, 5, 7])?);
    let (x, w, few) = (x.view(), w.view(), few.view());
    let mut d_w = Tensor::filled(device, bf16::NAN, &[8, 3])?;
    let text = "`dy` was of shape [2, 5, 7]; it must be of shape [2, 5, 8]: that of `x`";
    says(CausalConv1dGradient::new().run(&stream, &x, &w, &few), text);
    let text = "`d_w` was of shape [8, 3]; it must be of shape [8, 4]: that of `w`";
    says(CausalConv1dGradient::new().d_w(&mut d_w.view_mut()).run(&stream, &x, &w, &x), text);
    let text = "`d_initial_state` was of shape [8, 3]; it must be of shape [2, 8, 3]: sequences, channels and width - 1";
    says(CausalConv1dGradient::new().d_initial_state(&mut d_w.view_mut()).run(&stream, &x, &w, &x), text);
    Ok(())
}
