//! What a cross-entropy is asked to compute, checked.

use super::{CrossEntropy, TABLE};
use crate::ops::IndexElement;
use crate::ops::frame::{Named, check, of_shape};
use crate::ops::rows::{FloatElement, Matrices, Operand, Selection};
use crate::tensor::{Layout, Untyped};
use crate::{DType, Error, Result, TensorView, TensorViewMut};

/// Logits, labels, loss and, if `N` is 4, gradient.
pub(super) struct Problem<const N: usize> {
    pub(super) matrices: Matrices<N>,
    /// Words of 32 bits of a label.
    pub(super) label_words: u32,
}

impl<const N: usize> Problem<N> {
    /// Checks that the tensors fit together.
    pub(super) fn new<T: FloatElement, I: IndexElement>(
        options: &CrossEntropy<'_>,
        logits: &TensorView<'_, T>,
        labels: &TensorView<'_, I>,
        loss: &TensorViewMut<'_, f32>,
        gradient: Option<&TensorViewMut<'_, T>>,
    ) -> Result<Self> {
        let &CrossEntropy { smoothing, z_loss, scale, .. } = options;
        if !(0.0..=1.0).contains(&smoothing) {
            return Err(Error::argument("smoothing", smoothing.to_string(), "from 0 to 1"));
        }
        if !(z_loss >= 0.0 && z_loss.is_finite()) {
            return Err(Error::argument("z_loss", z_loss.to_string(), "not negative, and finite"));
        }
        if !scale.is_finite() {
            return Err(Error::argument("scale", scale.to_string(), "finite"));
        }
        let shape = logits.shape();
        let Some((_, rows)) = shape.split_last() else {
            return Err(Error::argument("logits", of_shape(shape), "of 1 dimension or more"));
        };
        for (name, found) in [("labels", labels.shape()), ("loss", loss.shape())] {
            if found != rows {
                let allowed = format!("{}: one for each row of `logits`", of_shape(rows));
                return Err(Error::argument(name, of_shape(found), allowed));
            }
        }
        if let Some(gradient) = gradient.filter(|gradient| gradient.shape() != shape) {
            let allowed = format!("{}, the shape of `logits`", of_shape(shape));
            return Err(Error::argument("gradient", of_shape(gradient.shape()), allowed));
        }
        let tensors =
            [Named::read("logits", logits), Named::read("labels", labels), Named::written("loss", loss)];
        let gradients = gradient.map(|gradient| Named::written("gradient", gradient));
        check(loss.device(), tensors.into_iter().chain(gradients))?;
        let x = Operand::new("logits", logits.untyped());
        let labels = Operand::once("labels", words(labels.untyped())?, shape)?;
        let losses = Operand::once("loss", loss.untyped(), shape)?;
        let gradient = gradient.map(|gradient| Operand::new("gradient", gradient.untyped()));
        // Without a gradient there are three.
        let operands = std::array::from_fn(|i| [x, labels, losses, gradient.unwrap_or(x)][i]);
        let label_words = (I::DTYPE.bytes() / DType::I32.bytes()) as u32;
        Ok(Problem { matrices: Matrices::new(loss.device(), operands), label_words })
    }

    pub(super) fn select(&self) -> Selection<'_, N> {
        Selection::of_rows(&self.matrices, &TABLE)
    }
}

/// Labels as the first of their words of 32 bits.
fn words(labels: Untyped) -> Result<Untyped> {
    let words = labels.dtype.bytes() / DType::I32.bytes();
    let strides: Vec<_> = labels.layout.strides().iter().map(|stride| stride.saturating_mul(words)).collect();
    let layout = Layout::strided(labels.layout.shape(), &strides)?;
    Ok(Untyped { dtype: DType::I32, layout, ..labels })
}
