//! Biases, residuals and activations, and filters of one pixel.

use tilewright::ops::{Activation, Conv};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::activation::exact as activated;
use tilewright_support::convolution::{Case, Exact, Of};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Input, Runs, wide};

/// A case with a bias and a residual, on every kernel that takes them.
fn finished<T: Input>(device: &Device, case: Case, activation: Activation, with: [bool; 2]) -> Outcome {
    let ([x, w, _], k) = (case.numbers::<T>(), case.outputs);
    let (bias, residual) = (normal::<T>(4, k), normal::<T>(5, case.y().iter().product()));
    let exact = Exact::new(&case, Of::Outputs, [&wide(&x), &wide(&w), &[]]);
    let (x, w) = (Tensor::from_slice(device, &x, &case.x())?, Tensor::from_slice(device, &w, &case.w())?);
    let (b, r) =
        (Tensor::from_slice(device, &bias, &[k])?, Tensor::from_slice(device, &residual, &case.y())?);
    let (b, r) = (b.view(), r.view());
    let options = |conv: Conv<'static, T>| -> Conv<'_, T> {
        let mut conv: Conv<'_, T> = conv;
        if with[0] {
            conv = conv.bias(&b);
        }
        if with[1] {
            conv = conv.residual(&r);
        }
        conv.activation(activation)
    };
    let (bias, residual) = (wide(&bias), wide(&residual));
    let stream = Stream::new(device)?;
    let mut y = Tensor::<T>::zeros(device, &case.y())?;
    let all = options(case.conv()).candidates(&x.view(), &w.view(), &y.view_mut())?;
    let names = all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| Some(kernel.name()));
    for name in names.chain([None]) {
        let mut conv = options(case.conv());
        if let Some(name) = name {
            conv = conv.kernel(name);
        }
        y = Tensor::from_slice(device, &T::round(&vec![f32::NAN; y.len()]), &case.y())?;
        conv.run(&stream, &x.view(), &w.view(), &mut y.view_mut())?;
        let finish = |at: usize, sum: f64| {
            let terms = [if with[0] { bias[at % k] } else { 0.0 }, if with[1] { residual[at] } else { 0.0 }];
            (activated(activation, sum + terms[0] + terms[1]), terms[0].abs() + terms[1].abs())
        };
        exact
            .check(&y.to_vec_on(&stream)?, finish)
            .map_err(|error| format!("{name:?}: {error}\n{case:?}"))?;
    }
    Ok(())
}

pub fn all(device: &Device) -> Outcome {
    let case =
        Case { images: 2, pixels: [6, 5], channels: 24, outputs: 40, filter: [3, 3], ..Case::default() };
    let case = case.padded([1, 1]);
    // Tiles that have fewer outputs than they have room for, with terms of their own.
    finished::<f16>(device, Case { outputs: 136, ..case }, Activation::Silu, [true, true])?;
    for activation in Activation::ALL {
        finished::<f16>(device, case, activation, [true, true])?;
    }
    finished::<bf16>(device, case, Activation::Relu, [true, false])?;
    finished::<bf16>(device, case, Activation::Identity, [false, true])?;
    let depthwise = Case { channels: 40, groups: 40, ..case };
    finished::<f16>(device, depthwise, Activation::Silu, [true, true])?;
    finished::<f32>(device, depthwise, Activation::Gelu, [true, true])?;
    finished::<f16>(device, Case { channels: 16, groups: 2, ..case }, Activation::Relu, [true, true])
}

/// They are GEMMs where they can be, and convolutions with the same result where they cannot.
pub fn products(device: &Device) -> Outcome {
    let case = Case { images: 2, pixels: [6, 5], channels: 24, outputs: 40, ..Case::default() };
    let x = Tensor::<f16>::zeros(device, &case.x())?;
    let w = Tensor::<f16>::zeros(device, &case.w())?;
    let mut y = Tensor::<f16>::zeros(device, &case.y())?;
    let plan = case.conv().plan(&x.view(), &w.view(), &y.view_mut())?;
    assert!(plan.is_product(), "{plan}");
    assert!(plan.name().starts_with("gemm_"));
    let residual = Tensor::<f16>::zeros(device, &case.y())?;
    let residual = residual.view();
    let plan = case.conv().residual(&residual).plan(&x.view(), &w.view(), &y.view_mut())?;
    assert!(!plan.is_product() && plan.name().starts_with("conv_"), "{plan}");
    finished::<f16>(device, case, Activation::Relu, [true, false])?;
    finished::<f16>(device, case, Activation::Relu, [true, true])?;
    finished::<f16>(device, Case { stride: [2, 2], ..case }, Activation::Identity, [true, false])?;
    finished::<f16>(device, case.padded([1, 0]), Activation::Identity, [true, false])
}
