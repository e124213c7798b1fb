//! Which elements of its rows a softmax counts.

use std::fmt;

use super::Softmax;
use crate::ops::frame::{Named, of_shape};
use crate::ops::rows::{FloatElement, Operand};
use crate::{DType, Error, Result, TensorView};

/// What is added to the scores.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a> {
    pub(super) named: Named<'a>,
}

impl<'a> Mask<'a> {
    pub(super) fn new<M: FloatElement>(mask: &'a TensorView<'_, M>) -> Self {
        Mask { named: Named::read("mask", mask) }
    }

    /// The plan's tensor of this number, stretched to the shape of x, whose elements are of type `dtype`.
    pub(super) fn operand(&self, number: usize, shape: &[usize], dtype: DType) -> Result<Operand> {
        let planned = Operand::planned(&self.named, number);
        let (was, layout) = (planned.tensor.dtype, planned.tensor.layout);
        if was != dtype && was != DType::F32 {
            let allowed = format!("of f32 or of {dtype}, the element type of `x`");
            return Err(Error::argument("mask", format!("of {was}"), allowed));
        }
        let Ok(tensor) = planned.tensor.broadcast(shape) else {
            let allowed = format!("one that broadcasts to {shape:?}, the shape of `x`");
            return Err(Error::argument("mask", of_shape(layout.shape()), allowed));
        };
        Ok(Operand { tensor, ..planned })
    }
}

impl fmt::Debug for Mask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({})", self.named.dtype())
    }
}

impl<'a> Softmax<'a> {
    /// softmax(s x + mask): the mask, of f32 or of the element type of x, is added after the scale; -inf takes an element out. Its shape broadcasts to
    /// that of x; its strides are any.
    pub fn mask<M: FloatElement>(self, mask: &'a TensorView<'_, M>) -> Self {
        Softmax { mask: Some(Mask::new(mask)), ..self }
    }
    /// Row i, in the second last dimension, sees the columns j <= i + columns - rows alone: the last row sees all. Whatever else x and the mask have
    /// does not count.
    pub fn causal(self) -> Self {
        Softmax { causal: true, ..self }
    }
}
