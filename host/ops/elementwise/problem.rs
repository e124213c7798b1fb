//! What is asked of single elements, checked, and by which kernel.

use tilewright_pointwise::{Computed, Number, Operator, PieceOrder};

use crate::ops::frame::{Choice, Cycles, Named, Rejection, check, of_shape};
use crate::ops::pointwise::{Compiled, Operand, Pieces, SINGLE, estimate, kernels, skewed};
use crate::{DType, Device, Element, Error, Result, TensorView, TensorViewMut};

/// Tensors that a kernel takes: three inputs at most, and the result.
const TENSORS: usize = 4;

/// The result's place among them.
const RESULT: usize = TENSORS - 1;

/// Bytes of a vector, which the wider elements of a piece fill.
const VECTOR: usize = 16;

/// The tensors of a call.
pub(in crate::ops) struct Problem {
    pub(super) device: Device,
    /// The inputs as if they had y's shape, the first one in place of those that are not there; then y.
    pub(super) pieces: Pieces<TENSORS>,
    inputs: usize,
}

/// The kernels' number of an element type; those of `f32` for what no operator here takes.
pub(super) fn numbers(dtype: DType) -> Number {
    match dtype {
        DType::F16 => Number::F16,
        DType::BF16 => Number::Bf16,
        DType::I32 => Number::I32,
        DType::I8 => Number::I8,
        DType::U8 => Number::U8,
        DType::E4M3 => Number::E4m3,
        DType::E5M2 => Number::E5m2,
        _ => Number::F32,
    }
}

impl Problem {
    /// Checks that the inputs can be stretched to y's shape.
    pub(in crate::ops) fn new<T: Element, U: Element, const N: usize>(
        inputs: [(&'static str, &TensorView<'_, T>); N],
        y: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let (device, to) = (y.device(), Operand { name: "y", tensor: y.untyped() });
        let mut operands = [to; TENSORS];
        for (i, (name, view)) in inputs.into_iter().enumerate() {
            let tensor = view.untyped().broadcast(y.shape()).map_err(|_| {
                let allowed = format!(
                    "{}, the shape of `y`, with sizes of 1 where it repeats and without dimensions in front",
                    of_shape(y.shape())
                );
                Error::argument(name, of_shape(view.shape()), allowed)
            })?;
            operands[i] = Operand { name, tensor };
        }
        let named: Vec<_> = inputs.iter().map(|&(name, view)| Named::read(name, view)).collect();
        check(device, named.into_iter().chain([Named::written("y", y)]))?;
        for i in N..RESULT {
            operands[i] = operands[0];
        }
        Ok(Problem { device: device.clone(), pieces: Pieces::flat(operands), inputs: N })
    }

    /// What kernels are told beside the tensors.
    pub(super) fn computed(&self, operation: u32, [scale, bias]: [f32; 2]) -> Computed {
        let bits = |all: [bool; TENSORS]| (0..).zip(all).fold(0, |bits, (i, is)| bits | u32::from(is) << i);
        let [mut repeated, skewed] = [self.pieces.repeats(), self.skewed()];
        repeated[self.inputs..].fill(false);
        let [from, to] = self.types().map(|dtype| numbers(dtype) as u32);
        Computed { operation, repeated: bits(repeated), skewed: bits(skewed), from, to, scale, bias }
    }

    /// The order of pieces of so many elements: they begin where vectors of y do.
    pub(super) fn order(&self, piece: u32) -> Result<PieceOrder> {
        self.pieces.order(piece, self.pieces.skew(piece as usize) as u32)
    }

    /// Which tensors have columns beside each other of which pieces begin anywhere: of the inputs; and whether y's rows do.
    fn skewed(&self) -> [bool; TENSORS] {
        let (lies, repeats) = (self.pieces.lies(), self.pieces.repeats());
        let piece = VECTOR / self.types().map(DType::bytes).into_iter().max().unwrap_or(VECTOR);
        let begins_anywhere = |i| match i {
            RESULT => self.pieces.skew(piece) != 0,
            _ => !self.pieces.begins_as_last(i, piece),
        };
        std::array::from_fn(|i| lies[i].in_rows && !repeats[i] && begins_anywhere(i))
    }

    /// Of the inputs, and of y.
    fn types(&self) -> [DType; 2] {
        [0, RESULT].map(|i| self.pieces.operands[i].tensor.dtype)
    }

    pub(in crate::ops) fn call(&self) -> Call<'_> {
        Call { problem: self }
    }
}

/// A call, as far as it decides between kernels.
pub(in crate::ops) struct Call<'a> {
    problem: &'a Problem,
}

impl Choice for Call<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.problem.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(Operator::Elementwise)
    }
    fn what(&self) -> String {
        let [from, to] = self.problem.types();
        format!("{from} -> {to}")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let pieces = &self.problem.pieces;
        let [from, to] = self.problem.types().map(DType::bytes);
        let vectors = kernel.piece > 1;
        if kernel.inputs as usize != self.problem.inputs {
            return Err(Rejection::Because("it computes functions of another number of inputs"));
        }
        if vectors && kernel.widths != [from, to].map(|bytes| bytes as u32) {
            return Err(Rejection::Because("it computes with elements of another size"));
        }
        let apart = pieces.lies().into_iter().zip(pieces.repeats());
        if let Some((tensor, _)) =
            apart.into_iter().find(|(tensor, repeats)| vectors && !tensor.in_rows && !repeats)
        {
            return Err(Rejection::Unaligned { operand: tensor.name, row_major: true });
        }
        let bytes = pieces.elements().saturating_mul(self.problem.inputs * from + to);
        let slowness = match self.problem.skewed().contains(&true) {
            true if vectors => skewed(pieces.cols() / kernel.piece as usize),
            false if vectors => 1.0,
            _ => SINGLE,
        };
        Ok(estimate(&self.problem.device, kernel, bytes, slowness))
    }
}
