//! What a gated unit is asked to compute, checked.

use tilewright_pointwise::Operator;

use crate::ops::FloatElement;
use crate::ops::frame::{Named, check, of_shape};
use crate::ops::pointwise::{Call, Lies, Operand, Pieces};
use crate::{Device, Error, Result, TensorView, TensorViewMut};

/// Tensors of one shape: those that are read, then those that are written.
pub(super) struct Problem<const N: usize> {
    pub(super) device: Device,
    pub(super) pieces: Pieces<N>,
}

impl<const N: usize> Problem<N> {
    /// Checks that the tensors fit together.
    pub(super) fn new<T: FloatElement, const READ: usize, const WRITTEN: usize>(
        read: [(&'static str, &TensorView<'_, T>); READ],
        written: [(&'static str, &TensorViewMut<'_, T>); WRITTEN],
    ) -> Result<Self> {
        const { assert!(N == READ + WRITTEN, "as many tensors as there are") };
        let ((first, reference), device) = (read[0], written[0].1.device());
        let shapes = read.iter().map(|&(name, view)| (name, view.shape()));
        for (name, shape) in shapes.chain(written.iter().map(|&(name, view)| (name, view.shape()))) {
            if shape != reference.shape() {
                let allowed = format!("{}, the shape of `{first}`", of_shape(reference.shape()));
                return Err(Error::argument(name, of_shape(shape), allowed));
            }
        }
        let inputs = read.iter().map(|&(name, view)| Named::read(name, view));
        let named: Vec<_> =
            inputs.chain(written.iter().map(|&(name, view)| Named::written(name, view))).collect();
        check(device, named)?;
        let operands = std::array::from_fn(|i| match read.get(i) {
            Some(&(name, view)) => Operand { name, tensor: view.untyped() },
            None => Operand { name: written[i - READ].0, tensor: written[i - READ].1.untyped() },
        });
        Ok(Problem { device: device.clone(), pieces: Pieces::flat(operands) })
    }

    pub(super) fn call<'a>(&'a self, operator: Operator, tensors: &'a [Lies]) -> Call<'a> {
        let dtype = self.pieces.operands[0].tensor.dtype;
        Call {
            device: &self.device,
            operator,
            element: dtype.name(),
            copies: false,
            width: dtype.bytes(),
            tensors,
            runs: Vec::new(),
            elements: self.pieces.elements().saturating_mul(N),
        }
    }
}

/// Checks that a tensor is of the shape of another, but with twice the columns; gives how many that one has.
fn columns(
    (name, shape): (&'static str, &[usize]),
    (other, half): (&'static str, &[usize]),
) -> Result<usize> {
    let Some((&cols, rows)) = half.split_last() else {
        return Err(Error::argument(other, of_shape(half), "of 1 dimension or more"));
    };
    let fits =
        shape.split_last().is_some_and(|(&both, its)| its == rows && Some(both) == cols.checked_mul(2));
    if fits {
        return Ok(cols);
    }
    let allowed = format!("that of `{other}`, {half:?}, with twice the columns");
    Err(Error::argument(name, of_shape(shape), allowed))
}

/// Gate and up of a tensor with both.
pub(super) fn halves<'a, T: FloatElement>(
    name: &'static str,
    x: &TensorView<'a, T>,
    half: (&'static str, &[usize]),
) -> Result<[TensorView<'a, T>; 2]> {
    let (cols, dim) = (columns((name, x.shape()), half)?, x.rank() - 1);
    Ok([x.clone().narrow(dim, 0, cols)?, x.clone().narrow(dim, cols, cols)?])
}

/// The same of one that is written.
pub(super) fn halves_mut<'a, T: FloatElement>(
    name: &'static str,
    x: &'a mut TensorViewMut<'_, T>,
    half: (&'static str, &[usize]),
) -> Result<[TensorViewMut<'a, T>; 2]> {
    let (cols, dim) = (columns((name, x.shape()), half)?, x.rank() - 1);
    let (gate, up) = x.reborrow().split_at(dim, cols)?;
    Ok([gate, up])
}
