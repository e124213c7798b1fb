//! What a norm is asked to compute, checked.

use tilewright_device::abi::GlobalAbi;

use super::{Norm, TABLE};
use crate::ops::frame::{Named, check, of_shape};
use crate::ops::rows::{Matrices, Operand, RowsElement, Selection, absent};
use crate::tensor::{Layout, Untyped};
use crate::{Error, Result, TensorView, TensorViewMut};

/// The `N` tensors of rows: x and y, or x, residual, sum and y; and the vectors.
pub(super) struct Problem<const N: usize> {
    pub(super) matrices: Matrices<N>,
    vectors: Vec<Operand>,
}

impl<const N: usize> Problem<N> {
    /// Checks that the tensors fit together: half of the `N` are read, half are written.
    pub(super) fn new<T: RowsElement, const HALF: usize>(
        norm: &Norm<'_, T>,
        read: [(&'static str, &TensorView<'_, T>); HALF],
        written: [(&'static str, &TensorViewMut<'_, T>); HALF],
    ) -> Result<Self> {
        const { assert!(N == 2 * HALF, "as many tensors as there are") };
        if !(norm.epsilon >= 0.0 && norm.epsilon.is_finite()) {
            return Err(Error::argument("epsilon", norm.epsilon.to_string(), "not negative, and finite"));
        }
        let (_, x) = read[0];
        let Some(&cols) = x.shape().last() else {
            return Err(Error::argument("x", of_shape(x.shape()), "of 1 dimension or more"));
        };
        let shapes = read.iter().map(|&(name, view)| (name, view.shape()));
        for (name, shape) in shapes.chain(written.iter().map(|&(name, view)| (name, view.shape()))) {
            if shape != x.shape() {
                let allowed = format!("{}, the shape of `x`", of_shape(x.shape()));
                return Err(Error::argument(name, of_shape(shape), allowed));
            }
        }
        let vectors = || [("weight", norm.weight), ("bias", norm.bias)];
        let given = || vectors().into_iter().filter_map(|(name, view)| Some((name, view?)));
        for (name, view) in given() {
            if view.shape() != [cols] {
                return Err(Error::argument(name, of_shape(view.shape()), of_shape(&[cols])));
            }
        }
        let device = written[0].1.device();
        let inputs = read.iter().map(|&(name, view)| Named::read(name, view));
        let inputs = inputs.chain(given().map(|(name, view)| Named::read(name, view)));
        let named: Vec<_> =
            inputs.chain(written.iter().map(|&(name, view)| Named::written(name, view))).collect();
        check(device, named)?;
        let operands = std::array::from_fn(|i| match read.get(i) {
            Some(&(name, view)) => Operand::new(name, view.untyped()),
            None => Operand::new(written[i - HALF].0, written[i - HALF].1.untyped()),
        });
        let vector = |(name, view): (_, &TensorView<'_, T>)| Operand::new(name, view.untyped());
        Ok(Problem { matrices: Matrices::new(device, operands), vectors: given().map(vector).collect() })
    }

    pub(super) fn select(&self) -> Selection<'_, N> {
        let element = self.matrices.operands[0].tensor.dtype.name();
        Selection {
            matrices: &self.matrices,
            columns: &self.vectors,
            residual: N > 2,
            reads_again: 5,
            kernels: TABLE.kernels(&element),
            what: element,
        }
    }

    /// The arguments for weight and bias.
    pub(super) fn columns(&self) -> Result<[GlobalAbi<(), 3>; 2]> {
        let mut columns = [absent(); 2];
        for Operand { name, tensor: Untyped { address, dtype, layout }, .. } in &self.vectors {
            let strides = [0, 0, layout.strides()[0]];
            let layout = Layout::strided(&[1, 1, self.matrices.cols], &strides)?;
            let row = Untyped { address: *address, dtype: *dtype, layout };
            columns[usize::from(*name == "bias")] = row.arg(self.matrices.device.backend(), true, 0)?;
        }
        Ok(columns)
    }
}
