//! Calls that are refused name the argument, what it was, and what is allowed; they leave the output alone.

use tilewright::ops::{Reduce, Reduction};
use tilewright::{Device, Stream, Tensor, TensorView, TensorViewMut, f16};
use tilewright_support::suite::Outcome;

pub fn reduce(device: &Device) -> Outcome {
    let (stream, other) = (Stream::new(device)?, Device::emulator_with_seed(5));
    let x = Tensor::<f16>::zeros(device, &[4, 100])?;
    let there = Tensor::<f16>::zeros(&other, &[4, 100])?;
    let mut y = Tensor::filled(device, f16::NAN, &[4])?;
    // SAFETY: no call may use it.
    let over = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[4, 100], &[1, 0])? };
    let vast = x.view().narrow(0, 0, 1)?.narrow(1, 0, 1)?.broadcast(&[4, 1 << 32])?;
    let run = |x: &TensorView<'_, f16>, dims: &[usize], y: &mut TensorViewMut<'_, f16>| {
        let error = Reduce::new(Reduction::Sum).run(&stream, x, dims, y).expect_err("a call that is refused");
        error.to_string()
    };
    for dims in [&[][..], &[2], &[1, 1], &[0, 1, 7]] {
        let text =
            format!("`dims` was {dims:?}; it must be one or more of the 2 dimensions of `x`, each once");
        assert_eq!(run(&x.view(), dims, &mut y.view_mut()), text);
    }
    for (x, dims, message) in [
        (
            x.view(),
            &[0][..],
            "`y` was of shape [4]; it must be of shape [100]: `x` without the dimensions [0]".to_owned(),
        ),
        (
            x.view(),
            &[1, 0],
            "`y` was of shape [4]; it must be of shape []: `x` without the dimensions [1, 0]".to_owned(),
        ),
        (
            over,
            &[1],
            "`y` overlaps `x`; what a call writes must lie apart from all else that it uses".to_owned(),
        ),
        (vast, &[1], "`x` was of shape [4, 4294967296]; it must be of sizes below 2^32".to_owned()),
        (
            there.view(),
            &[1],
            format!("`x` was on emulator:5; it must be on {}, the device of this call", device.label()),
        ),
    ] {
        assert_eq!(run(&x, dims, &mut y.view_mut()), message);
    }
    for (name, reason) in [
        ("reduce_rows_sm_80_f32", "not a kernel for f16"),
        ("reduce_rows_sm_80_f16", "it reads elements of a result that are contiguous"),
        ("none", "not a kernel for f16"),
    ] {
        let mut y = Tensor::<f16>::zeros(device, &[100])?;
        let mut by_name = Reduce::new(Reduction::Sum).kernel(name);
        let error = by_name.run(&stream, &x.view(), &[0], &mut y.view_mut()).expect_err(name).to_string();
        assert!(
            error.starts_with(&format!("`kernel` was {name:?}, {reason}; it must be one of reduce_columns")),
            "{error}"
        );
    }
    let mut ragged = Tensor::<f16>::zeros(device, &[99])?;
    let mut by_name = Reduce::new(Reduction::Sum).kernel("reduce_columns_sm_80_f16");
    let narrow = x.view().narrow(1, 0, 99)?;
    let error =
        by_name.run(&stream, &narrow, &[0], &mut ragged.view_mut()).expect_err("no vectors").to_string();
    assert!(error.contains("it reads neighbouring results' elements in vectors of 16 bytes"), "{error}");
    let long = Tensor::<f16>::zeros(device, &[1 << 20])?;
    let (mut one, mut few) = (Tensor::<f16>::zeros(device, &[])?, Tensor::<f32>::zeros(device, &[1])?);
    let len = Reduce::new(Reduction::Sum).workspace_len(&long.view(), &[0], &one.view_mut())?;
    if len > 1 {
        let mut few = few.view_mut();
        let mut sum = Reduce::new(Reduction::Sum).workspace(&mut few);
        let error = sum.run(&stream, &long.view(), &[0], &mut one.view_mut()).expect_err("little memory");
        let text = format!(
            "`workspace` was of shape [1] and strides [1]; it must be contiguous, of {len} elements or more"
        );
        assert_eq!(error.to_string(), text);
    }
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}
