//! Calls that are refused name the argument, what it was, and what is allowed; they leave the output alone.

use tilewright::ops::Softmax;
use tilewright::{Device, Stream, Tensor, TensorView, f16};
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
        ("softmax_sm_80_f16_4x256", "it reads x row-major, in lines aligned to 16 bytes"),
        ("none", "not a kernel for f16"),
    ] {
        let error = plain.kernel(name).run(&stream, &x.view(), &mut y.view_mut()).expect_err(name);
        let text = format!("`kernel` was {name:?}, {reason}; it must be one of softmax_sm_80_f16_any");
        assert_eq!(error.to_string(), text);
    }
    let wide = Tensor::<f16>::zeros(device, &[2, 512])?;
    let mut to = Tensor::<f16>::zeros(device, &[2, 512])?;
    let error = plain.kernel("softmax_sm_80_f16_4x256").run(&stream, &wide.view(), &mut to.view_mut());
    let error = error.expect_err("too long a row").to_string();
    assert!(error.contains("it takes rows of elements up to 256; it must be one of "), "{error}");
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}
