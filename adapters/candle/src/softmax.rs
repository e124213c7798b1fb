//! Softmax of rows.

use candle_core::shape::Dim;
use candle_core::{D, Result, Tensor};
use tilewright::ops::Softmax;

use crate::call::{Call, Held};
use crate::element::float;

/// softmax(x) over the last dimension: of f16, bf16 or f32, with any strides, of 1 to 5 dimensions.
pub fn softmax_last_dim(x: &Tensor) -> Result<Tensor> {
    over("softmax_last_dim", x, D::Minus1, Softmax::new())
}

/// softmax(x) over a dimension; see [`softmax_last_dim`].
pub fn softmax<I: Dim>(x: &Tensor, dim: I) -> Result<Tensor> {
    over("softmax", x, dim, Softmax::new())
}

/// The logarithm of softmax(x) over a dimension; see [`softmax_last_dim`].
pub fn log_softmax<I: Dim>(x: &Tensor, dim: I) -> Result<Tensor> {
    over("log_softmax", x, dim, Softmax::new().log())
}

fn over<I: Dim>(op: &'static str, x: &Tensor, dim: I, softmax: Softmax<'_>) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), op)?;
    Call::run(op, &[("x", x)], |call| {
        let held = Held::new("x", x);
        float!("x" x, T => {
            let x = call.read::<T>(&held)?;
            let x = x.view();
            let (shape, last) = (x.shape().to_vec(), x.rank() - 1);
            let x = x.transpose(dim, last)?;
            call.write::<T>(&shape, |y| {
                Ok(softmax.run(call.stream(), &x, &mut y.transpose(dim, last)?)?)
            })
        })
    })
}
