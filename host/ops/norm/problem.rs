//! What a norm is asked to compute, checked.

use std::cell::OnceCell;

use crate::ops::frame::{Named, Operands, absent, of_shape};
use crate::ops::rows::{Compiled, Matrices, Operand, Planned, Selection};
use crate::tensor::{Layout, Untyped};
use crate::{Device, Error, Result};

/// The tensors of rows, which come first in a plan.
pub(super) const ROWS: usize = 4;

/// The tensors of rows, x first, and the vectors that are read, at the places of a plan.
pub(super) struct Problem {
    pub(super) operands: Operands,
    pub(super) matrices: Matrices<ROWS>,
    vectors: Vec<Operand>,
}

impl Problem {
    /// Checks that the tensors fit together: those of rows, of which x is the first one, and vectors as long as a row. Where one of rows is not there, x
    /// stands in its place.
    pub(super) fn new<const N: usize>(
        epsilon: f32,
        device: &Device,
        x: Named<'_>,
        tensors: [Option<Named<'_>>; N],
    ) -> Result<Self> {
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::argument("epsilon", epsilon.to_string(), "not negative, and finite"));
        }
        let Some(&cols) = x.shape().last() else {
            return Err(Error::argument("x", of_shape(x.shape()), "of 1 dimension or more"));
        };
        let (rows, vectors) = tensors.split_at(ROWS.min(N));
        if let Some(tensor) = rows.iter().flatten().find(|tensor| tensor.shape() != x.shape()) {
            let allowed = format!("{}, the shape of `x`", of_shape(x.shape()));
            return Err(Error::argument(tensor.name(), of_shape(tensor.shape()), allowed));
        }
        if let Some(tensor) = vectors.iter().flatten().find(|tensor| tensor.shape() != [cols]) {
            return Err(Error::argument(tensor.name(), of_shape(tensor.shape()), of_shape(&[cols])));
        }
        let operands = Operands::checked(device, tensors)?;
        let of_x = Operand::planned(&x, 0);
        let operand = |number: usize| {
            let tensor = rows.get(number).and_then(Option::as_ref);
            tensor.map_or(of_x.instead(), |tensor| Operand::planned(tensor, number))
        };
        let matrices = Matrices::new(device, std::array::from_fn(operand));
        let read = (ROWS..).zip(vectors).filter_map(|(number, tensor)| Some((number, tensor.as_ref()?)));
        let read = read.filter(|(_, tensor)| !tensor.is_written());
        let vectors = read.map(|(number, tensor)| Operand::planned(tensor, number)).collect();
        Ok(Problem { operands, matrices, vectors })
    }

    /// Among these kernels, which read rows again in so many halves of what memory takes for one pass.
    pub(super) fn select(
        &self,
        kernels: &'static [Compiled],
        residual: bool,
        reads_again: u64,
    ) -> Selection<'_, ROWS> {
        let (matrices, columns) = (&self.matrices, &self.vectors);
        let what = matrices.operands[0].tensor.dtype.name();
        let vectors = OnceCell::new();
        Selection { matrices, columns, residual, reads_again, kernels, what, vectors }
    }

    /// The arguments for weight and bias.
    pub(super) fn columns(&self) -> Result<[Planned; 2]> {
        let mut columns = [Planned::new(absent()); 2];
        for Operand { name, tensor, .. } in &self.vectors {
            columns[usize::from(*name == "bias")] = vector(&self.matrices.device, *tensor)?;
        }
        Ok(columns)
    }
}

/// The argument for a vector of a plan: \[1, 1, columns\].
pub(super) fn vector(device: &Device, Untyped { address, dtype, layout }: Untyped) -> Result<Planned> {
    let (cols, stride) = (layout.shape()[0], layout.strides()[0]);
    let layout = Layout::strided(&[1, 1, cols], &[0, 0, stride])?;
    Ok(Planned::new(Untyped { address, dtype, layout }.arg(device.backend(), true, 0)?))
}
