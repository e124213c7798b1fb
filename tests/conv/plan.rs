//! Plans that run many times, of views that had no memory.

use tilewright::ops::{Activation, Conv, ConvGradient, ConvViews};
use tilewright::{Device, Stream, Tensor, TensorView, f16};
use tilewright_support::planned::{nowhere, nowhere_mut, packed, random, refused, value};
use tilewright_support::suite::Outcome;

const X: [usize; 4] = [2, 9, 9, 24];
const W: [usize; 4] = [40, 3, 3, 24];
const Y: [usize; 4] = [2, 5, 5, 40];

fn strided<'a>() -> Conv<'a, f16> {
    Conv::new().stride([2, 2]).padding([1, 1]).activation(Activation::Relu)
}

/// Convolutions with an epilogue, and products of matrices: the same bits as calls, on other images each time.
pub fn outputs(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (bias, residual) = (random(device, 7, &[Y[3]])?, random(device, 8, &Y)?);
    let plan = {
        let (bias, residual) = (nowhere(device, &[Y[3]])?, nowhere(device, &Y)?);
        let (x, w, y) = (nowhere(device, &X)?, nowhere(device, &W)?, nowhere_mut(device, &Y)?);
        value(strided().bias(&bias).residual(&residual).plan(&x, &w, &y)?)
    };
    let w = random(device, 1, &W)?;
    for seed in 2..4 {
        let x = random(device, seed, &X)?;
        let [mut y, mut called] = [Tensor::filled(device, f16::NAN, &Y)?, Tensor::zeros(device, &Y)?];
        let views = ConvViews { bias: Some(bias.view()), residual: Some(residual.view()) };
        plan.run(&stream, &x.view(), &w.view(), &mut y.view_mut(), &views)?;
        let (bias, residual) = (bias.view(), residual.view());
        let conv = strided().bias(&bias).residual(&residual);
        conv.run(&stream, &x.view(), &w.view(), &mut called.view_mut())?;
        assert_eq!(y.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
    }
    let (x, w, to) = ([3, 8, 8, 64], [32, 1, 1, 64], [3, 8, 8, 32]);
    let plan =
        Conv::<f16>::new().plan(&nowhere(device, &x)?, &nowhere(device, &w)?, &nowhere_mut(device, &to)?)?;
    assert!(plan.is_product(), "{plan}");
    let (x, w) = (random(device, 1, &x)?, random(device, 2, &w)?);
    let [mut y, mut called] = [Tensor::filled(device, f16::NAN, &to)?, Tensor::zeros(device, &to)?];
    plan.run(&stream, &x.view(), &w.view(), &mut y.view_mut(), &ConvViews::default())?;
    Conv::new().run(&stream, &x.view(), &w.view(), &mut called.view_mut())?;
    assert_eq!(y.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
    let other = nowhere(device, x.shape())?;
    let result = plan.run(&stream, &other, &w.view(), &mut y.view_mut(), &ConvViews::default());
    assert_eq!(refused(result), "x");
    Ok(())
}

/// Gradients: the same bits as calls.
pub fn gradients(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let of = || ConvGradient::new().stride([2, 2]).padding([1, 1]);
    let images =
        of().images_plan(&nowhere(device, &Y)?, &nowhere(device, &W)?, &nowhere_mut::<f16>(device, &X)?)?;
    let filters =
        of().filters_plan(&nowhere(device, &X)?, &nowhere(device, &Y)?, &nowhere_mut::<f16>(device, &W)?)?;
    let (images, filters) = (value(images), value(filters));
    assert_eq!(images.kernels().len(), 4, "{images}");
    let w = random(device, 1, &W)?;
    let mut memory = Tensor::filled(device, f32::NAN, &[filters.workspace_len().max(1)])?;
    for seed in 2..4 {
        let (x, dy) = (random(device, seed, &X)?, random(device, seed + 5, &Y)?);
        let (x, dy) = (x.view(), dy.view());
        let [mut dx, mut dx_called] = [Tensor::filled(device, f16::NAN, &X)?, Tensor::zeros(device, &X)?];
        images.run(&stream, &dy, &w.view(), &mut dx.view_mut())?;
        of().images(&stream, &dy, &w.view(), &mut dx_called.view_mut())?;
        assert_eq!(dx.to_vec_on(&stream)?, dx_called.to_vec_on(&stream)?);
        let [mut dw, mut dw_called] = [Tensor::filled(device, f16::NAN, &W)?, Tensor::zeros(device, &W)?];
        filters.run(&stream, &x, &dy, &mut dw.view_mut(), Some(&mut memory.view_mut()))?;
        of().filters(&stream, &x, &dy, &mut dw_called.view_mut())?;
        assert_eq!(dw.to_vec_on(&stream)?, dw_called.to_vec_on(&stream)?);
    }
    Ok(())
}

/// What runs with a plan is what it was made for; the error names what is not.
pub fn refuses(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let plan = strided().plan(&nowhere(device, &X)?, &nowhere(device, &W)?, &nowhere_mut(device, &Y)?)?;
    let (x, w, bias) = (random(device, 1, &X)?, random(device, 2, &W)?, random(device, 3, &[Y[3]])?);
    let mut y = Tensor::filled(device, f16::NAN, &Y)?;
    let none = ConvViews::default;
    let mut run = |x: TensorView<'_, f16>, w: TensorView<'_, f16>, views: &ConvViews<'_, f16>| {
        refused(plan.run(&stream, &x, &w, &mut y.view_mut(), views))
    };
    assert_eq!(run(x.view().narrow(0, 0, 1)?, w.view(), &none()), "x");
    assert_eq!(run(x.view().transpose(1, 2)?, w.view(), &none()), "x");
    assert_eq!(run(x.view(), w.view().transpose(1, 2)?, &none()), "w");
    let given = ConvViews { bias: Some(bias.view()), ..none() };
    assert_eq!(run(x.view(), w.view(), &given), "bias");
    assert!(y.to_vec_on(&stream)?.iter().all(|y| y.is_nan()), "something ran");
    // SAFETY: nothing runs.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &Y, &packed(&Y))? };
    let same = Conv::new().plan(&inside, &nowhere(device, &[40, 1, 1, 40])?, &nowhere_mut(device, &Y)?)?;
    let one = random(device, 2, &[40, 1, 1, 40])?;
    assert_eq!(refused(same.run(&stream, &inside, &one.view(), &mut y.view_mut(), &none())), "y");

    let of = ConvGradient::new().stride([2, 2]).padding([1, 1]);
    let plan =
        of.filters_plan(&nowhere(device, &X)?, &nowhere(device, &Y)?, &nowhere_mut::<f16>(device, &W)?)?;
    if plan.workspace_len() > 0 {
        let (dy, mut dw) = (random(device, 3, &Y)?, Tensor::filled(device, f16::NAN, &W)?);
        let mut short = Tensor::<f32>::zeros(device, &[plan.workspace_len() - 1])?;
        let (dy, mut short) = (dy.view(), short.view_mut());
        for workspace in [None, Some(&mut short)] {
            let result = plan.run(&stream, &x.view(), &dy, &mut dw.view_mut(), workspace);
            assert_eq!(refused(result), "workspace");
        }
        assert!(dw.to_vec_on(&stream)?.iter().all(|dw| dw.is_nan()), "something ran");
    }
    Ok(())
}
