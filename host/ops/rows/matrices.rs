//! Tensors of any shape as batches of matrices, whose rows are those of the tensors.

use tilewright_device::abi::GlobalAbi;

use crate::ops::frame::{Named, absent};
use crate::ops::runs::{Run, runs};
use crate::tensor::{Layout, Untyped};
use crate::{Device, Result};

/// A tensor of a call, by the name of its argument; all have the same shape.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Operand {
    pub(in crate::ops) name: &'static str,
    pub(in crate::ops) tensor: Untyped,
    /// Whether it has one element a row.
    pub(in crate::ops) once: bool,
}

impl Operand {
    /// Of rows, or of columns.
    pub(in crate::ops) fn new(name: &'static str, tensor: Untyped) -> Self {
        Operand { name, tensor, once: false }
    }
    /// A tensor of a call, where the call's plan has it by this number.
    pub(in crate::ops) fn planned(tensor: &Named<'_>, number: usize) -> Self {
        Self::new(tensor.name(), tensor.planned(number))
    }
    /// The same in the place of another one, which the kernel does without: it is neither read nor counts.
    pub(in crate::ops) fn instead(self) -> Self {
        Operand { once: true, ..self }
    }
    /// Whether it is contiguous and begins at a multiple of 16 bytes.
    pub(in crate::ops) fn is_contiguous_and_aligned(&self) -> bool {
        // Of one column the stride means nothing, and kernels that ask for 1 do not take others.
        let neighbours = self.tensor.layout.strides().last().is_none_or(|&stride| stride == 1);
        self.tensor.layout.is_contiguous() && neighbours && self.tensor.address.is_multiple_of(16)
    }
    /// One element a row: a tensor of the shape of the rows without their own dimension, as if it repeated along that of `shape`.
    pub(in crate::ops) fn once(name: &'static str, tensor: Untyped, shape: &[usize]) -> Result<Self> {
        let layout = tensor.layout.insert(tensor.layout.rank())?.broadcast(shape)?;
        Ok(Operand { name, tensor: Untyped { layout, ..tensor }, once: true })
    }
}

/// The rows of `N` tensors of one shape: dimensions that all of them step over evenly are one.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Matrices<const N: usize> {
    pub(in crate::ops) device: Device,
    pub(in crate::ops) operands: [Operand; N],
    /// Of the leading dimensions, from the outermost: none of size 1.
    runs: Vec<Run<N>>,
    pub(in crate::ops) cols: usize,
    col_strides: [usize; N],
}

impl<const N: usize> Matrices<N> {
    /// Of tensors that have the same shape, of one dimension at least.
    pub(in crate::ops) fn new(device: &Device, operands: [Operand; N]) -> Self {
        let layouts = operands.map(|operand| operand.tensor.layout);
        let last = layouts[0].rank() - 1;
        let Run { size: cols, strides } = Run::of(&layouts, last);
        Matrices {
            device: device.clone(),
            operands,
            runs: runs(&layouts, 0..last),
            cols,
            col_strides: strides,
        }
    }

    /// Of tensors that have the same shape, of two dimensions at least: a matrix's rows are those of the second last dimension alone.
    pub(in crate::ops) fn of_last_dimensions(device: &Device, operands: [Operand; N]) -> Self {
        let layouts = operands.map(|operand| operand.tensor.layout);
        let rows = layouts[0].rank() - 2;
        let mut runs = runs(&layouts, 0..rows);
        runs.push(Run::of(&layouts, rows));
        Matrices { runs, ..Self::new(device, operands) }
    }

    /// Nothing to compute.
    pub(in crate::ops) fn is_empty(&self) -> bool {
        self.cols == 0 || self.runs.iter().any(|run| run.size == 0)
    }

    /// Matrices of a launch, and rows of each.
    pub(in crate::ops) fn size(&self) -> [usize; 2] {
        match &self.runs[..] {
            [] => [1, 1],
            [rows] => [1, rows.size],
            [.., batch, rows] => [batch.size, rows.size],
        }
    }

    /// Whether the rows of every launch begin at multiples of 16 bytes where those of the first do.
    pub(in crate::ops) fn launches_are_aligned(&self) -> bool {
        let aligned = |run: &Run<N>, i: usize| {
            let Operand { tensor, once, .. } = &self.operands[i];
            *once || (run.strides[i] * tensor.dtype.bytes()).is_multiple_of(16)
        };
        self.outer().iter().all(|run| (0..N).all(|i| aligned(run, i)))
    }

    /// Dimensions of which each index takes a launch: none unless rows lie unevenly in more than two dimensions.
    pub(super) fn outer(&self) -> &[Run<N>] {
        &self.runs[..self.runs.len().saturating_sub(2)]
    }

    /// The operands of the first launch: \[matrices, rows, columns\].
    pub(super) fn arguments(&self) -> Result<[GlobalAbi<(), 3>; N]> {
        let [batch, rows] = self.size();
        let [outer, inner] = match &self.runs[..] {
            [] => [Run::ONE, Run::ONE],
            [rows] => [Run::ONE, *rows],
            [.., batch, rows] => [*batch, *rows],
        };
        let mut arguments = [absent(); N];
        for (i, to) in arguments.iter_mut().enumerate() {
            let strides = [outer.strides[i], inner.strides[i], self.col_strides[i]];
            let layout = Layout::strided(&[batch, rows, self.cols], &strides)?;
            *to = Untyped { layout, ..self.operands[i].tensor }.arg(self.device.backend(), true, 0)?;
        }
        Ok(arguments)
    }
}
