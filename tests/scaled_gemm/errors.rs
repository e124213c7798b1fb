//! Calls that are refused, each by the name of an argument.

use tilewright::ops::{Activation, ScaledGemm};
use tilewright::{Device, Error, F8E5M2, Stream, Tensor, TensorView, bf16};
use tilewright_support::suite::Outcome;

pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let ones = |rows, columns| Tensor::filled(device, 1i8, &[rows, columns]);
    let (a, b, narrow, odd) = (ones(24, 48)?, ones(40, 48)?, ones(40, 32)?, ones(40, 40)?);
    let scale = |shape: &[usize]| Tensor::filled(device, 1.0f32, shape);
    let (rows, wrong, blocks) = (scale(&[24])?, scale(&[23])?, scale(&[24, 1])?);
    let bias = Tensor::filled(device, bf16::ONE, &[39])?;
    let mut c = Tensor::filled(device, bf16::NAN, &[24, 40])?;
    let (rows, wrong, blocks, bias) = (rows.view(), wrong.view(), blocks.view(), bias.view());
    let new = ScaledGemm::<bf16>::new;
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<i8>::from_raw_parts(device, c.address(), &[24, 48], &[48, 1])? };
    for (name, gemm, a, b) in [
        ("b", new(), a.view(), narrow.view()),
        ("a", new(), b.view(), b.view()),
        ("a", new(), a.view().select(0, 0)?, b.view()),
        ("a", new(), a.view().narrow(1, 0, 40)?, odd.view()),
        ("b", new(), a.view().narrow(1, 0, 32)?, b.view().narrow(1, 8, 32)?),
        ("a", new(), a.view().narrow(1, 1, 32)?, narrow.view()),
        ("scale_a", new().scale_a(&wrong), a.view(), b.view()),
        ("scale_b", new().scale_b(&rows), a.view(), b.view()),
        ("scale_b", new().scale_a(&blocks), a.view(), b.view()),
        ("bias", new().bias(&bias), a.view(), b.view()),
        ("kernel", new().kernel("none such"), a.view(), b.view()),
        ("c", new(), inside, b.view()),
    ] {
        match gemm.run(&stream, &a, &b, &mut c.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            Err(Error::Overlap { written, other: "a" }) if written == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    let mut sums = Tensor::<i32>::zeros(device, &[24, 40])?;
    let new = ScaledGemm::<i32>::new;
    for (name, gemm) in [
        ("scale_a", new().scale_a(&rows)),
        ("alpha", new().alpha(2.0)),
        ("activation", new().activation(Activation::Relu)),
    ] {
        match gemm.run(&stream, &a.view(), &b.view(), &mut sums.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    // Kernels scale blocks of e4m3 alone.
    let block = scale(&[1, 1])?;
    let (block, new) = (block.view(), || ScaledGemm::<bf16>::new());
    let floats = [Tensor::<F8E5M2>::zeros(device, &[24, 48])?, Tensor::<F8E5M2>::zeros(device, &[40, 48])?];
    let [left, right] = floats.each_ref().map(Tensor::view);
    let gemm = || new().scale_a(&blocks).scale_b(&block);
    let text = "`scale_a` was of blocks; it must be of shape [1] or one value a row: scales of blocks are of products of e4m3";
    for error in [
        gemm().run(&stream, &a.view(), &b.view(), &mut c.view_mut()),
        gemm().run(&stream, &left, &right, &mut c.view_mut()),
    ] {
        assert_eq!(error.expect_err("of blocks").to_string(), text);
    }
    let mut wide = Tensor::<f32>::zeros(device, &[24, 40])?;
    let error = ScaledGemm::new().run(&stream, &a.view(), &b.view(), &mut wide.view_mut());
    let text = "`c` was of f32; it must be of bf16, f16, i32, for products of i8";
    assert_eq!(error.expect_err("int8 to f32").to_string(), text);
    Ok(())
}
