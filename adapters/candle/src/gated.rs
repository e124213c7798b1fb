//! Gated units.

use candle_core::{Result, Tensor};
use tilewright::ops::{Activation, Gated};

use crate::call::{Call, Held, refuse};
use crate::element::float;

/// silu(gate) up, element by element: tensors of one shape, of f16, bf16 or f32, with any strides.
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gated_by("swiglu", gate, up, Activation::Silu)
}

/// gelu(gate) up; otherwise as [`swiglu`].
pub fn geglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gated_by("geglu", gate, up, Activation::Gelu)
}

/// [`swiglu`] of one tensor: in its last dimension the gate's columns, then as many of up's, as one product with both weights makes them.
pub fn swiglu_packed(x: &Tensor) -> Result<Tensor> {
    Call::run("swiglu_packed", &[("x", x)], |call| {
        let held = Held::new("x", x);
        float!("x" x, T => {
            let x = call.read::<T>(&held)?;
            let x = x.view();
            let mut shape = x.shape().to_vec();
            match shape.last_mut() {
                Some(columns) if columns.is_multiple_of(2) => *columns /= 2,
                _ => return refuse("x", format!("of shape {shape:?}"), "of an even number of columns"),
            }
            call.write::<T>(&shape, |mut y| {
                Ok(Gated::new(Activation::Silu).run_packed(call.stream(), &x, &mut y)?)
            })
        })
    })
}

/// act(gate) up, for the operator of this name.
pub(crate) fn gated_by(
    op: &'static str,
    gate: &Tensor,
    up: &Tensor,
    activation: Activation,
) -> Result<Tensor> {
    let tensors = [("gate", gate), ("up", up)];
    Call::run(op, &tensors, |call| {
        let held = tensors.map(|(name, tensor)| Held::new(name, tensor));
        float!("gate" gate, T => {
            let [gate, up] = held.each_ref().map(|held| call.read::<T>(held));
            let (gate, up) = (gate?, up?);
            let (gate, up) = (gate.view(), up.view());
            call.write::<T>(gate.shape(), |mut y| {
                Ok(Gated::new(activation).run(call.stream(), &gate, &up, &mut y)?)
            })
        })
    })
}
