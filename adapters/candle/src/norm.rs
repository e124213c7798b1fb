//! Norms of rows.

use candle_core::{Result, Tensor};
use tilewright::ops::Norm;

use crate::call::{Call, Held};
use crate::element::float;

/// x / sqrt(mean of x² + `epsilon`) w over the last dimension: `x` of f16, bf16 or f32, with any strides, `weight` as long as a row, of x's type.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    Call::run("rms_norm", &[("x", x), ("weight", weight)], |call| {
        let held = [Held::new("x", x), Held::new("weight", weight)];
        float!("x" x, T => {
            let [x, weight] = held.each_ref().map(|held| call.read::<T>(held));
            let (x, weight) = (x?, weight?);
            let (x, weight) = (x.view(), weight.view());
            call.write::<T>(x.shape(), |mut y| {
                Ok(Norm::rms().weight(&weight).epsilon(epsilon).run(call.stream(), &x, &mut y)?)
            })
        })
    })
}

/// s = x + residual, and [`rms_norm`] of s, in one pass: (norm, s), of x's shape. The norm is that of s before it is rounded.
pub fn rms_norm_residual(
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    epsilon: f32,
) -> Result<(Tensor, Tensor)> {
    let tensors = [("x", x), ("residual", residual), ("weight", weight)];
    Call::run("rms_norm_residual", &tensors, |call| {
        let held = tensors.map(|(name, tensor)| Held::new(name, tensor));
        float!("x" x, T => {
            let [x, residual, weight] = held.each_ref().map(|held| call.read::<T>(held));
            let (x, residual, weight) = (x?, residual?, weight?);
            let (x, residual, weight) = (x.view(), residual.view(), weight.view());
            let [sum, y] = call.write_both::<T>([x.shape(); 2], |[mut sum, mut y]| {
                let norm = Norm::rms().weight(&weight).epsilon(epsilon);
                Ok(norm.run_added(call.stream(), &x, &residual, &mut sum, &mut y)?)
            })?;
            Ok((y, sum))
        })
    })
}

/// (x - mean) / sqrt(variance + `epsilon`) w + b over the last dimension; otherwise as [`rms_norm`].
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f32) -> Result<Tensor> {
    let tensors = [("x", x), ("weight", weight), ("bias", bias)];
    Call::run("layer_norm", &tensors, |call| {
        let held = tensors.map(|(name, tensor)| Held::new(name, tensor));
        float!("x" x, T => {
            let [x, weight, bias] = held.each_ref().map(|held| call.read::<T>(held));
            let (x, weight, bias) = (x?, weight?, bias?);
            let (x, weight, bias) = (x.view(), weight.view(), bias.view());
            call.write::<T>(x.shape(), |mut y| {
                let norm = Norm::layer().weight(&weight).bias(&bias).epsilon(epsilon);
                Ok(norm.run(call.stream(), &x, &mut y)?)
            })
        })
    })
}
