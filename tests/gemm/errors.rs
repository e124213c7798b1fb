//! Errors that come with a real device. The host library's own tests have the others.

use tilewright::ops::{Gemm, gemm};
use tilewright::{Device, Error, Stream, Tensor, TensorView, TensorViewMut, f16};
use tilewright_support::foreign::ForeignMemory;
use tilewright_support::suite::Outcome;

/// Calls that fail leave C alone, and the device goes on working.
pub fn leave_everything_alone(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let ones = |rows, cols| Tensor::filled(device, f16::ONE, &[rows, cols]);
    let (a, b, bias) = (ones(64, 32)?, ones(32, 48)?, ones(64, 2)?);
    let mut c = Tensor::filled(device, f16::NAN, &[64, 48])?;
    let wide = ones(40, 48)?;
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::from_raw_parts(device, c.address(), &[64, 32], &[48, 1])? };
    let (plain, bias) = (Gemm::new(), bias.view());
    let (with_bias, with_kernel) = (Gemm::new().bias(&bias), Gemm::new().kernel("none such"));
    for (name, gemm, a, b) in [
        ("b", &plain, a.view(), wide.view()),
        ("a", &plain, b.view(), b.view()),
        ("b", &plain, a.view(), b.view().narrow(1, 0, 40)?),
        ("a", &plain, a.view().select(0, 0)?, b.view()),
        ("bias", &with_bias, a.view(), b.view()),
        ("kernel", &with_kernel, a.view(), b.view()),
        ("c", &plain, inside, b.view()),
    ] {
        match gemm.run(&stream, &a, &b, &mut c.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            Err(Error::Overlap { written, other: "a" }) if written == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    gemm(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.to_f32() == 32.0));
    Ok(())
}

/// One operator goes from device to device; tensors of two devices are refused, each by the name of its own.
pub fn two_devices(device: &Device) -> Outcome {
    let other = Device::emulator_with_seed(5);
    let product = Gemm::new().alpha(0.5);
    let zeros = |device| Tensor::<f16>::filled(device, f16::ONE, &[40, 40]);
    for device in [device, &other, device] {
        let (x, mut c) = (zeros(device)?, zeros(device)?);
        product.run(&Stream::new(device)?, &x.view(), &x.view(), &mut c.view_mut())?;
        assert!(c.to_vec()?.iter().all(|x| x.to_f32() == 20.0));
    }
    let (x, there, mut c) = (zeros(device)?, zeros(&other)?, zeros(device)?);
    let error = product.run(&Stream::new(device)?, &x.view(), &there.view(), &mut c.view_mut());
    let text = format!("`b` was on emulator:5; it must be on {}, the device of this call", device.label());
    assert_eq!(error.expect_err("two devices").to_string(), text);
    Ok(())
}

/// Views of memory that is too small for them cannot be made.
pub fn too_small(device: &Device) -> Outcome {
    let tensor = Tensor::<f16>::zeros(device, &[1024, 1024])?;
    // The driver may round an allocation up, so ask for far more.
    let rows = 1 << 24;
    // SAFETY: the tensor outlives the view.
    let view =
        unsafe { TensorView::<f16>::from_raw_parts(device, tensor.address(), &[rows, 1024], &[1024, 1]) };
    let text = view.expect_err("a view beyond its memory").to_string();
    assert!(text.starts_with("`address` was 0x") && text.contains("before its allocation's end"), "{text}");
    assert!(text.ends_with(&format!("with room for the view's {} bytes", rows * 2048)), "{text}");
    Ok(())
}

/// Views of memory of another context cannot be made.
pub fn foreign(device: &Device) -> Outcome {
    // The context of the device is there first.
    device.synchronize()?;
    let foreign = ForeignMemory::new(1 << 20)?;
    // SAFETY: the memory outlives the view.
    let view =
        unsafe { TensorViewMut::<f16>::from_raw_parts(device, foreign.address(), &[64, 64], &[64, 1]) };
    match view {
        Err(Error::WrongDevice { argument, expected, .. }) => {
            assert_eq!((&*argument, expected.as_str()), ("address", device.label()));
        }
        other => return Err(format!("{other:?}").into()),
    }
    Ok(())
}

/// With a second GPU: its tensors and streams are refused by name.
pub fn second_device(device: &Device) -> Outcome {
    let Ok(other) = Device::cuda(1) else {
        println!("there is one GPU");
        return Ok(());
    };
    let zeros = |device| Tensor::<f16>::zeros(device, &[64, 64]);
    let (here, there, mut c) = (zeros(device)?, zeros(&other)?, zeros(device)?);
    let (stream, foreign) = (Stream::new(device)?, Stream::new(&other)?);
    let mut check = |stream, a: &Tensor<f16>, b: &Tensor<f16>, name| {
        let error = gemm(stream, &a.view(), &b.view(), &mut c.view_mut()).expect_err("two devices");
        let text = format!("`{name}` was on cuda:1; it must be on cuda:0, the device of this call");
        assert_eq!(error.to_string(), text);
    };
    check(&stream, &there, &here, "a");
    check(&stream, &here, &there, "b");
    check(&foreign, &here, &here, "stream");
    Ok(())
}
