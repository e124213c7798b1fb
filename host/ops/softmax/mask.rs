//! Softmax and log-softmax of masked rows.

use std::fmt;
use std::sync::LazyLock;

use tilewright_rows::{MASKED_SOFTMAX, MaskedSoftmaxArgs};

use super::Softmax;
use crate::ops::frame::{Named, Table, of_shape};
use crate::ops::rows::{Compiled, FloatElement, Matrices, Operand, Selection, absent};
use crate::tensor::Untyped;
use crate::{DType, Error, Result, Stream, TensorView, TensorViewMut};

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(MASKED_SOFTMAX.iter().map(|k| (k.element, *k))));

/// What is added to the scores.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a> {
    pub(super) named: Named<'a>,
    tensor: Untyped,
}

impl<'a> Mask<'a> {
    pub(super) fn new<M: FloatElement>(mask: &'a TensorView<'_, M>) -> Self {
        Mask { named: Named::read("mask", mask), tensor: mask.untyped() }
    }

    /// Stretched to the shape of x, whose elements are of type `dtype`.
    fn operand(&self, shape: &[usize], dtype: DType) -> Result<Operand> {
        let (was, layout) = (self.tensor.dtype, self.tensor.layout);
        if was != dtype && was != DType::F32 {
            let allowed = format!("of f32 or of {dtype}, the element type of `x`");
            return Err(Error::argument("mask", format!("of {was}"), allowed));
        }
        let Ok(tensor) = self.tensor.broadcast(shape) else {
            let allowed = format!("one that broadcasts to {shape:?}, the shape of `x`");
            return Err(Error::argument("mask", of_shape(layout.shape()), allowed));
        };
        Ok(Operand::new("mask", tensor))
    }
}

impl fmt::Debug for Mask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tensor.fmt(f)
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

    /// Whether some elements may not count.
    pub(super) fn is_masked(&self) -> bool {
        self.causal || self.mask.is_some()
    }

    /// x, the mask, and y, which have been checked, but for the mask's type and shape.
    pub(super) fn masked<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Matrices<3>> {
        if self.causal && x.rank() < 2 {
            return Err(Error::argument("x", of_shape(x.shape()), "of 2 dimensions or more, to be causal"));
        }
        let from = Operand::new("x", x.untyped());
        let mask = match &self.mask {
            Some(mask) => mask.operand(x.shape(), T::DTYPE)?,
            // x stands in its place, which is neither read nor counts.
            None => Operand { once: true, ..from },
        };
        let operands = [from, mask, Operand::new("y", y.untyped())];
        Ok(match self.causal {
            true => Matrices::of_last_dimensions(y.device(), operands),
            false => Matrices::new(y.device(), operands),
        })
    }

    /// Queues it for masked rows.
    pub(super) fn queue_masked(&self, stream: &Stream, matrices: &Matrices<3>) -> Result<()> {
        let &Softmax { scale, log, causal, .. } = self;
        let kind = self.mask.map(|mask| mask.tensor.dtype);
        let args = |[x, mask, y]: [_; 3], order| {
            let [narrow, wide] = match kind {
                None => [absent(); 2],
                Some(DType::F32) => [absent(), mask],
                Some(_) => [mask, absent()],
            };
            let (log, causal) = (u32::from(log), u32::from(causal));
            MaskedSoftmaxArgs { x, mask: narrow, wide_mask: wide, y, order, scale, log, causal }
        };
        // SAFETY: the arguments are those of `masked_softmax`, and of those of longer rows, which have the same. y is borrowed exclusively.
        unsafe { select(matrices).queue(stream, (self.kernel, self.overlap), args) }
    }
}

pub(super) fn select(matrices: &Matrices<3>) -> Selection<'_, 3> {
    Selection::of_rows(matrices, &TABLE)
}
