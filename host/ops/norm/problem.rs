//! What a norm is asked to compute, checked.

use std::cell::OnceCell;

use tilewright_device::abi::GlobalAbi;

use crate::ops::frame::{Named, check, of_shape};
use crate::ops::rows::{Compiled, FloatElement, Matrices, Operand, Selection, absent};
use crate::tensor::{Layout, Untyped};
use crate::{Device, Error, Result, TensorView, TensorViewMut};

/// The `N` tensors of rows, those that are read first: x and y, or x, residual, sum and y; of gradients x, dy, d_sum if there is one, and dx. And the
/// vectors.
pub(super) struct Problem<const N: usize> {
    pub(super) matrices: Matrices<N>,
    vectors: Vec<Operand>,
}

impl<const N: usize> Problem<N> {
    /// Checks that the tensors fit together; of the vectors, weight and bias, those that there are.
    pub(super) fn new<T: FloatElement, const READ: usize, const WRITTEN: usize>(
        epsilon: f32,
        read: [(&'static str, &TensorView<'_, T>); READ],
        written: [(&'static str, &TensorViewMut<'_, T>); WRITTEN],
        vectors: [Option<&TensorView<'_, T>>; 2],
        others: &[Named<'_>],
    ) -> Result<Self> {
        const { assert!(N == READ + WRITTEN && READ > 0 && WRITTEN > 0, "as many tensors as there are") };
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::argument("epsilon", epsilon.to_string(), "not negative, and finite"));
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
        let given =
            || ["weight", "bias"].into_iter().zip(vectors).filter_map(|(name, view)| Some((name, view?)));
        for (name, view) in given() {
            expect_vector(name, view.shape(), cols)?;
        }
        let device = written[0].1.device();
        let inputs = read.iter().map(|&(name, view)| Named::read(name, view));
        let inputs = inputs.chain(given().map(|(name, view)| Named::read(name, view)));
        let outputs = written.iter().map(|&(name, view)| Named::written(name, view));
        check(device, inputs.chain(outputs).chain(others.iter().copied()).collect::<Vec<_>>())?;
        let operands = std::array::from_fn(|i| match read.get(i) {
            Some(&(name, view)) => Operand::new(name, view.untyped()),
            None => Operand::new(written[i - READ].0, written[i - READ].1.untyped()),
        });
        let vector = |(name, view): (_, &TensorView<'_, T>)| Operand::new(name, view.untyped());
        Ok(Problem { matrices: Matrices::new(device, operands), vectors: given().map(vector).collect() })
    }

    /// Among these kernels, which read rows again in so many halves of what memory takes for one pass.
    pub(super) fn select(
        &self,
        kernels: &'static [Compiled],
        residual: bool,
        reads_again: u64,
    ) -> Selection<'_, N> {
        let (matrices, columns) = (&self.matrices, &self.vectors);
        let what = matrices.operands[0].tensor.dtype.name();
        let vectors = OnceCell::new();
        Selection { matrices, columns, residual, reads_again, kernels, what, vectors }
    }

    /// The arguments for weight and bias.
    pub(super) fn columns(&self) -> Result<[GlobalAbi<(), 3>; 2]> {
        let mut columns = [absent(); 2];
        for Operand { name, tensor, .. } in &self.vectors {
            columns[usize::from(*name == "bias")] = vector(&self.matrices.device, *tensor)?;
        }
        Ok(columns)
    }
}

/// Checks that a vector is as long as a row.
pub(super) fn expect_vector(name: &'static str, shape: &[usize], cols: usize) -> Result<()> {
    if shape == [cols] { Ok(()) } else { Err(Error::argument(name, of_shape(shape), of_shape(&[cols]))) }
}

/// The argument for a vector: \[1, 1, columns\].
pub(super) fn vector(
    device: &Device,
    Untyped { address, dtype, layout }: Untyped,
) -> Result<GlobalAbi<(), 3>> {
    let (cols, stride) = (layout.shape()[0], layout.strides()[0]);
    let layout = Layout::strided(&[1, 1, cols], &[0, 0, stride])?;
    Untyped { address, dtype, layout }.arg(device.backend(), true, 0)
}
