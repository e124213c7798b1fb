//! Calls that are refused name the argument, what it was, and what is allowed; they leave the output alone.

use tilewright::ops::{CrossEntropy, Norm, Softmax};
use tilewright::{Device, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::suite::Outcome;

pub fn softmax(device: &Device) -> Outcome {
    let (stream, other) = (Stream::new(device)?, Device::emulator_with_seed(5));
    let x = Tensor::<f16>::zeros(device, &[4, 100])?;
    let there = Tensor::<f16>::zeros(&other, &[4, 100])?;
    let mut y = Tensor::filled(device, f16::NAN, &[4, 100])?;
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[4, 100], &[100, 1])? };
    let plain = Softmax::new();
    for (softmax, x, message) in [
        (plain.scale(0.0), x.view(), "`scale` was 0; it must be positive and finite".to_owned()),
        (plain.scale(-1.0), x.view(), "`scale` was -1; it must be positive and finite".to_owned()),
        (plain.scale(f32::NAN), x.view(), "`scale` was NaN; it must be positive and finite".to_owned()),
        (plain.scale(f32::INFINITY), x.view(), "`scale` was inf; it must be positive and finite".to_owned()),
        (
            plain,
            x.view().narrow(1, 0, 99)?,
            "`y` was of shape [4, 100]; it must be of shape [4, 99], the shape of `x`".to_owned(),
        ),
        (
            plain,
            x.view().select(0, 0)?.select(0, 0)?,
            "`x` was of shape []; it must be of 1 dimension or more".to_owned(),
        ),
        (
            plain,
            inside,
            "`y` overlaps `x`; what a call writes must lie apart from all else that it uses".to_owned(),
        ),
        (
            plain,
            there.view(),
            format!("`x` was on emulator:5; it must be on {}, the device of this call", device.label()),
        ),
    ] {
        let error = softmax.run(&stream, &x, &mut y.view_mut()).expect_err(&message);
        assert_eq!(error.to_string(), message);
    }
    for (name, reason) in [
        ("softmax_sm_80_f32_any", "not a kernel for f16"),
        ("softmax_sm_80_f16_16x256", "it reads x row-major, in lines aligned to 16 bytes"),
        ("none", "not a kernel for f16"),
    ] {
        let error = plain.kernel(name).run(&stream, &x.view(), &mut y.view_mut()).expect_err(name);
        let text = format!("`kernel` was {name:?}, {reason}; it must be one of ");
        assert!(error.to_string().starts_with(&text), "{error}");
        assert!(error.to_string().ends_with("softmax_sm_80_f16_any"), "{error}");
    }
    let wide = Tensor::<f16>::zeros(device, &[2, 512])?;
    let mut to = Tensor::<f16>::zeros(device, &[2, 512])?;
    let error = plain.kernel("softmax_sm_80_f16_16x256").run(&stream, &wide.view(), &mut to.view_mut());
    let error = error.expect_err("too long a row").to_string();
    assert!(error.contains("it takes rows of elements up to 256; it must be one of "), "{error}");
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn masked_softmax(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::<f16>::zeros(device, &[4, 96])?;
    let mut y = Tensor::filled(device, f16::NAN, &[4, 96])?;
    let wide = Tensor::<f32>::zeros(device, &[3, 96])?;
    let other = Tensor::<bf16>::zeros(device, &[96])?;
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[96], &[1])? };
    let (wide, other, plain) = (wide.view(), other.view(), Softmax::new());
    for (softmax, message) in [
        (
            plain.mask(&wide),
            "`mask` was of shape [3, 96]; it must be one that broadcasts to [4, 96], the shape of `x`",
        ),
        (plain.mask(&other), "`mask` was of bf16; it must be of f32 or of f16, the element type of `x`"),
        (
            plain.mask(&inside),
            "`y` overlaps `mask`; what a call writes must lie apart from all else that it uses",
        ),
    ] {
        let error = softmax.run(&stream, &x.view(), &mut y.view_mut()).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let row = x.view().select(0, 0)?;
    let error = plain.causal().run(&stream, &row, &mut y.view_mut().select(0, 0)?).expect_err("one row");
    let text = "`x` was of shape [96]; it must be of 2 dimensions or more, to be causal";
    assert_eq!(error.to_string(), text);
    let forced = plain.causal().kernel("softmax_sm_80_f16_any");
    let error = forced.run(&stream, &x.view(), &mut y.view_mut()).expect_err("a kernel without masks");
    let text =
        "`kernel` was \"softmax_sm_80_f16_any\", not a kernel for f16; it must be one of masked_softmax_";
    assert!(error.to_string().starts_with(text), "{error}");
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn softmax_gradient(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (y, short) = (zeros(&[4, 96])?, zeros(&[4, 95])?);
    let mut dx = Tensor::filled(device, f16::NAN, &[4, 96])?;
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, dx.address(), &[4, 96], &[96, 1])? };
    let plain = Softmax::new();
    for (softmax, y, dy, message) in [
        (plain.scale(0.0), y.view(), y.view(), "`scale` was 0; it must be positive and finite"),
        (
            plain,
            y.view(),
            short.view(),
            "`dy` was of shape [4, 95]; it must be of shape [4, 96], the shape of `y`",
        ),
        (
            plain,
            short.view(),
            short.view(),
            "`dx` was of shape [4, 96]; it must be of shape [4, 95], the shape of `y`",
        ),
        (
            plain,
            y.view(),
            inside,
            "`dx` overlaps `dy`; what a call writes must lie apart from all else that it uses",
        ),
        (
            plain,
            y.view().select(0, 0)?.select(0, 0)?,
            y.view(),
            "`y` was of shape []; it must be of 1 dimension or more",
        ),
    ] {
        let error = softmax.run_gradient(&stream, &y, &dy, &mut dx.view_mut()).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let forced = plain.kernel("softmax_sm_80_f16_any");
    let error = forced.run_gradient(&stream, &y.view(), &y.view(), &mut dx.view_mut()).expect_err("forward");
    let text =
        "`kernel` was \"softmax_sm_80_f16_any\", not a kernel for f16; it must be one of softmax_gradient_";
    assert!(error.to_string().starts_with(text), "{error}");
    assert!(dx.to_vec()?.iter().all(|dx| dx.is_nan()));
    Ok(())
}

pub fn norm(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (x, short, w, wide) = (zeros(&[4, 96])?, zeros(&[4, 95])?, zeros(&[95])?, zeros(&[96])?);
    let mut y = Tensor::filled(device, f16::NAN, &[4, 96])?;
    let mut s = Tensor::filled(device, f16::NAN, &[4, 96])?;
    let (w, wide) = (w.view(), wide.view());
    let plain = Norm::rms();
    for (norm, message) in [
        (plain.epsilon(-1.0), "`epsilon` was -1; it must be not negative, and finite"),
        (plain.epsilon(f32::NAN), "`epsilon` was NaN; it must be not negative, and finite"),
        (plain.weight(&w), "`weight` was of shape [95]; it must be of shape [96]"),
        (plain.weight(&wide).bias(&w), "`bias` was of shape [95]; it must be of shape [96]"),
    ] {
        let error = norm.run(&stream, &x.view(), &mut y.view_mut()).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let error = plain.run(&stream, &short.view(), &mut y.view_mut()).expect_err("another shape");
    let text = "`y` was of shape [4, 96]; it must be of shape [4, 95], the shape of `x`";
    assert_eq!(error.to_string(), text);
    let error = plain.run_added(&stream, &x.view(), &short.view(), &mut s.view_mut(), &mut y.view_mut());
    let text = "`residual` was of shape [4, 95]; it must be of shape [4, 96], the shape of `x`";
    assert_eq!(error.expect_err("another shape").to_string(), text);
    // SAFETY: no call may use it.
    let mut inside =
        unsafe { TensorViewMut::<f16>::from_raw_parts(device, y.address(), &[4, 96], &[96, 1])? };
    let error = plain.run_added(&stream, &x.view(), &x.view(), &mut inside, &mut y.view_mut());
    let text = "`y` overlaps `sum`; what a call writes must lie apart from all else that it uses";
    assert_eq!(error.expect_err("sum is y").to_string(), text);
    let error = plain.kernel("add_norm_sm_80_f16_16x256").run(&stream, &x.view(), &mut y.view_mut());
    let error = error.expect_err("a kernel that adds").to_string();
    assert!(error.contains("it adds a residual; it must be one of norm_"), "{error}");
    let error = plain.kernel("norm_sm_80_f16_16x256");
    let error = error.run_added(&stream, &x.view(), &x.view(), &mut s.view_mut(), &mut y.view_mut());
    let error = error.expect_err("a kernel that does not").to_string();
    assert!(error.contains("it adds no residual; it must be one of "), "{error}");
    assert!(y.to_vec()?.iter().chain(&s.to_vec()?).all(|y| y.is_nan()));
    Ok(())
}

pub fn norm_gradient(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (x, short, w) = (zeros(&[4, 96])?, zeros(&[4, 95])?, zeros(&[95])?);
    let mut dx = Tensor::filled(device, f16::NAN, &[4, 96])?;
    let (mut few, mut less, mut all) = (zeros(&[95])?, zeros(&[95])?, zeros(&[96])?);
    let (x, short, w) = (x.view(), short.view(), w.view());
    let (mut few, mut less, mut all) = (few.view_mut(), less.view_mut(), all.view_mut());
    // SAFETY: no call may use it.
    let mut inside = unsafe { TensorViewMut::<f16>::from_raw_parts(device, dx.address(), &[96], &[1])? };
    let mut little = Tensor::<f32>::zeros(device, &[95])?;
    let mut little = little.view_mut();
    let error = Norm::rms().gradient().run(&stream, &x, &short, &mut dx.view_mut()).expect_err("another dy");
    let text = "`dy` was of shape [4, 95]; it must be of shape [4, 96], the shape of `x`";
    assert_eq!(error.to_string(), text);
    for (mut gradient, message) in [
        (Norm::rms().epsilon(-1.0).gradient(), "`epsilon` was -1; it must be not negative, and finite"),
        (Norm::rms().weight(&w).gradient(), "`weight` was of shape [95]; it must be of shape [96]"),
        (
            Norm::rms().gradient().d_sum(&short),
            "`d_sum` was of shape [4, 95]; it must be of shape [4, 96], the shape of `x`",
        ),
        (Norm::rms().gradient().d_weight(&mut few), "`d_weight` was of shape [95]; it must be of shape [96]"),
        (Norm::layer().gradient().d_bias(&mut less), "`d_bias` was of shape [95]; it must be of shape [96]"),
        (
            Norm::layer().gradient().d_bias(&mut inside),
            "`d_bias` overlaps `dx`; what a call writes must lie apart from all else that it uses",
        ),
        (
            Norm::layer().gradient().d_bias(&mut all).workspace(&mut little),
            "`workspace` was of shape [95] and strides [1]; it must be contiguous, of 96 elements or more",
        ),
    ] {
        let error = gradient.run(&stream, &x, &x, &mut dx.view_mut()).expect_err(message);
        assert!(error.to_string().starts_with(message), "{error}");
    }
    let mut forced = Norm::rms().gradient().kernel("norm_sm_80_f16_any");
    let error = forced.run(&stream, &x, &x, &mut dx.view_mut()).expect_err("forward");
    let text = "`kernel` was \"norm_sm_80_f16_any\", not a kernel for f16; it must be one of norm_gradient_";
    assert!(error.to_string().starts_with(text), "{error}");
    assert!(dx.to_vec()?.iter().all(|dx| dx.is_nan()));
    Ok(())
}

pub fn cross_entropy(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::<f16>::zeros(device, &[4, 96])?;
    let [labels, short] = [4, 3].map(|rows| Tensor::<i32>::zeros(device, &[rows]));
    let (labels, short) = (labels?, short?);
    let mut loss = Tensor::filled(device, f32::NAN, &[4])?;
    let plain = CrossEntropy::new();
    for (options, message) in [
        (plain.smoothing(1.5), "`smoothing` was 1.5; it must be from 0 to 1"),
        (plain.smoothing(f32::NAN), "`smoothing` was NaN; it must be from 0 to 1"),
        (plain.z_loss(-1.0), "`z_loss` was -1; it must be not negative, and finite"),
        (plain.scale(f32::INFINITY), "`scale` was inf; it must be finite"),
    ] {
        let error = options.run(&stream, &x.view(), &labels.view(), &mut loss.view_mut()).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let error = plain.run(&stream, &x.view(), &short.view(), &mut loss.view_mut()).expect_err("few labels");
    let text = "`labels` was of shape [3]; it must be of shape [4]: one for each row of `logits`";
    assert_eq!(error.to_string(), text);
    let error = plain.run(&stream, &x.view(), &labels.view(), &mut loss.view_mut().narrow(0, 0, 3)?);
    let text = "`loss` was of shape [3]; it must be of shape [4]: one for each row of `logits`";
    assert_eq!(error.expect_err("few losses").to_string(), text);
    let mut narrow = Tensor::<f16>::zeros(device, &[4, 95])?;
    let error = plain.run_with_gradient(
        &stream,
        &x.view(),
        &labels.view(),
        &mut loss.view_mut(),
        &mut narrow.view_mut(),
    );
    let text = "`gradient` was of shape [4, 95]; it must be of shape [4, 96], the shape of `logits`";
    assert_eq!(error.expect_err("another shape").to_string(), text);
    // SAFETY: no call may use it.
    let mut over = unsafe { TensorViewMut::<f16>::from_raw_parts(device, x.address(), &[4, 96], &[96, 1])? };
    let error = plain.run_with_gradient(&stream, &x.view(), &labels.view(), &mut loss.view_mut(), &mut over);
    let text = "`gradient` overlaps `logits`; what a call writes must lie apart from all else that it uses";
    assert_eq!(error.expect_err("in place").to_string(), text);
    // Elements repeated without memory of their own.
    let vast = x.view().narrow(0, 0, 1)?.narrow(1, 0, 1)?.broadcast(&[1, 1 << 32])?;
    let (one, mut one_loss) = (labels.view().narrow(0, 0, 1)?, loss.view_mut().narrow(0, 0, 1)?);
    let error = plain.run(&stream, &vast, &one, &mut one_loss).expect_err("rows that cannot be counted");
    let text = "`logits` was of shape [1, 4294967296]; it must be of sizes below 2^32";
    assert_eq!(error.to_string(), text);
    assert!(loss.to_vec()?.iter().all(|loss| loss.is_nan()));
    Ok(())
}
