//! Tensors of bytes and of f32 in units of 16 bits, in which kernels of such count what is contiguous.

use super::{of_address, of_shape};
use crate::tensor::{Layout, Untyped};
use crate::{DType, Element, Error, Result, TensorView};

/// Bytes to which lines are aligned, and of which they are multiples.
const ALIGNED: usize = 16;
/// Bytes of a unit.
pub(in crate::ops) const UNIT: usize = 2;

/// Tensors in units of 16 bits: to what moves them, they are any such elements.
pub(in crate::ops) fn units<T: Element>(name: &'static str, matrices: &TensorView<'_, T>) -> Result<Untyped> {
    let (shape, strides, address) = (matrices.shape(), matrices.strides(), matrices.address());
    let (last, width) = (shape.len() - 1, T::DTYPE.bytes());
    let k = shape[last];
    if !(k * width).is_multiple_of(ALIGNED) {
        let many = ALIGNED / width;
        let allowed = format!("of a multiple of {many} columns: rows are read {ALIGNED} bytes at a time");
        return Err(Error::argument(name, of_shape(shape), allowed));
    }
    // To another line, in bytes; where there is none the stride does not matter.
    let lines =
        || shape[..last].iter().zip(strides).map(|(&count, &stride)| (count, stride.saturating_mul(width)));
    let aligned = lines().all(|(count, line)| count <= 1 || line.is_multiple_of(ALIGNED));
    if !matrices.is_empty() && (strides[last] != 1 || !aligned || !address.is_multiple_of(ALIGNED as u64)) {
        let was = format!("of strides {strides:?} at {}", of_address(address));
        let allowed = format!("of contiguous rows that begin at multiples of {ALIGNED} bytes");
        return Err(Error::argument(name, was, allowed));
    }
    let sizes: Vec<_> = shape[..last].iter().copied().chain([k * width / UNIT]).collect();
    let strides: Vec<_> = lines().map(|(_, line)| line / UNIT).chain([1]).collect();
    let layout = Layout::strided(&sizes, &strides)?;
    Ok(Untyped { dtype: DType::F16, layout, ..matrices.untyped() })
}
