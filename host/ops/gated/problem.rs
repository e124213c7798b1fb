//! What a gated unit is asked to compute, checked.

use tilewright_pointwise::Operator;

use crate::ops::FloatElement;
use crate::ops::frame::{Named, Operands, of_shape};
use crate::ops::pointwise::{Call, Lies, Operand, Pieces};
use crate::{Device, Error, Result, TensorView, TensorViewMut};

/// Tensors of one shape: those that are read, then those that are written.
pub(super) struct Problem<const N: usize> {
    pub(super) device: Device,
    pub(super) operands: Operands,
    /// At the places of a plan.
    pub(super) pieces: Pieces<N>,
}

/// The tensors of a unit, in the order of a plan's.
pub(super) fn named<'v, T: FloatElement, const READ: usize, const WRITTEN: usize, const N: usize>(
    read: [(&'static str, &'v TensorView<'_, T>); READ],
    written: [(&'static str, &'v TensorViewMut<'_, T>); WRITTEN],
) -> [Named<'v>; N] {
    const { assert!(N == READ + WRITTEN, "as many tensors as there are") };
    std::array::from_fn(|i| match read.get(i) {
        Some(&(name, view)) => Named::read(name, view),
        None => Named::written(written[i - READ].0, written[i - READ].1),
    })
}

impl<const N: usize> Problem<N> {
    /// Checks that the tensors fit together.
    pub(super) fn new(device: &Device, tensors: [Named<'_>; N]) -> Result<Self> {
        let first = &tensors[0];
        if let Some(other) = tensors.iter().find(|tensor| tensor.shape() != first.shape()) {
            let allowed = format!("{}, the shape of `{}`", of_shape(first.shape()), first.name());
            return Err(Error::argument(other.name(), of_shape(other.shape()), allowed));
        }
        let operands = Operands::checked(device, tensors.map(Some))?;
        let planned =
            std::array::from_fn(|i| Operand { name: tensors[i].name(), tensor: tensors[i].planned(i) });
        Ok(Problem { device: device.clone(), operands, pieces: Pieces::flat(planned) })
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
            columns: self.pieces.cols(),
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
