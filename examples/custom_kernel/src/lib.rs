//! Four operators with kernels of this crate: what stands between a kernel and a function that is safe to call.

mod gemv;
mod modulate;
mod reference;
mod softmax;
mod swiglu;

use std::borrow::Cow;

use tilewright::Error;

pub use custom_kernel_device::KERNELS;
pub use gemv::{Weights, gemv};
pub use modulate::modulate;
pub use reference::{
    gemv_reference, modulate_reference, relative_error, softmax_reference, swiglu_reference,
};
pub use softmax::softmax;
pub use swiglu::{swiglu, swiglu_for};

fn wrong(argument: &'static str, was: &[usize], allowed: impl Into<Cow<'static, str>>) -> Error {
    Error::Argument { argument: argument.into(), was: format!("of shape {was:?}"), allowed: allowed.into() }
}
