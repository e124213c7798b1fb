//! Three operators with kernels of this crate: what stands between a kernel and a function that is safe to call.

mod gemv;
mod reference;
mod softmax;
mod swiglu;

use std::borrow::Cow;

use tilewright::{Error, KernelSet, Result, TensorView, TensorViewMut, f16};

pub use gemv::{Weights, gemv};
pub use reference::{gemv_reference, relative_error, softmax_reference, swiglu_reference};
pub use softmax::softmax;
pub use swiglu::{swiglu, swiglu_for};

/// The kernels that the build script compiled.
static KERNELS: KernelSet = tilewright::include_kernels!();

/// The kernels of this crate.
pub fn kernels() -> &'static KernelSet {
    &KERNELS
}

/// What a launch asks of its output: the shape, and that it lies on the inputs' device and apart from them.
fn check_output(
    y: &TensorViewMut<'_, f16>,
    shape: [usize; 2],
    inputs: &[&TensorView<'_, f16>],
) -> Result<()> {
    if *y.shape() != shape {
        return Err(wrong("y", y.shape(), format!("of shape {shape:?}")));
    }
    for input in inputs {
        if input.device() != y.device() {
            let (was, expected) = (y.device().label().into(), input.device().label().into());
            return Err(Error::WrongDevice { argument: "y".into(), was, expected });
        }
        if input.overlaps(&y.as_view()) {
            return Err(wrong("y", y.shape(), "apart from the inputs in memory"));
        }
    }
    Ok(())
}

fn wrong(argument: &'static str, was: &[usize], allowed: impl Into<Cow<'static, str>>) -> Error {
    Error::Argument { argument: argument.into(), was: format!("of shape {was:?}"), allowed: allowed.into() }
}
