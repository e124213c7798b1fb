//! What tests of plans make them of, and how runs are refused.

use tilewright::{Device, Element, Error, Result, Tensor, TensorView, TensorViewMut};

use crate::Real;
use crate::random::normal;

/// Row-major strides.
pub fn packed(shape: &[usize]) -> Vec<usize> {
    (1..=shape.len()).map(|dim| shape[dim..].iter().product()).collect()
}

/// A packed view without memory.
///
/// # Errors
/// As of [`TensorView::without_memory`].
pub fn nowhere<T: Element>(device: &Device, shape: &[usize]) -> Result<TensorView<'static, T>> {
    TensorView::without_memory(device, shape, &packed(shape), 16)
}

/// The same, to be written.
///
/// # Errors
/// As of [`TensorViewMut::without_memory`].
pub fn nowhere_mut<T: Element>(device: &Device, shape: &[usize]) -> Result<TensorViewMut<'static, T>> {
    TensorViewMut::without_memory(device, shape, &packed(shape), 16)
}

/// A tensor of random numbers.
///
/// # Errors
/// As of [`Tensor::from_slice`].
pub fn random<T: Real>(device: &Device, seed: u64, shape: &[usize]) -> Result<Tensor<T>> {
    Tensor::from_slice(device, &normal::<T>(seed, shape.iter().product()), shape)
}

/// A plan, which is a value: threads share it, and it outlives all that it was made of.
pub fn value<P: Send + Sync + Clone + 'static>(plan: P) -> P {
    plan
}

/// The name of the argument that a run was refused for; of one that was not, what came of it.
pub fn refused(result: Result<()>) -> String {
    match result {
        Err(Error::Argument { argument, .. } | Error::WrongDevice { argument, .. }) => argument.to_string(),
        Err(Error::Overlap { written, .. }) => written.to_string(),
        other => format!("{other:?}"),
    }
}
