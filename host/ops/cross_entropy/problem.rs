//! What a cross-entropy is asked to compute, checked.

use super::plan::named;
use super::{CrossEntropy, TABLE};
use crate::ops::IndexElement;
use crate::ops::frame::{Named, Operands, of_shape};
use crate::ops::rows::{FloatElement, Matrices, Operand, Selection};
use crate::tensor::{Layout, Untyped};
use crate::{DType, Error, Result, TensorView, TensorViewMut};

/// The tensors of a call, at the places of a plan.
pub(super) struct Problem {
    pub(super) operands: Operands,
    /// Logits, labels, loss, and the gradient or what stands in its place.
    pub(super) matrices: Matrices<4>,
    /// Words of 32 bits of a label.
    pub(super) label_words: u32,
}

impl Problem {
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
        let operands = Operands::checked(loss.device(), named(logits, labels, loss, gradient))?;
        let x = Operand::planned(&Named::read("logits", logits), 0);
        let labels = Operand::once("labels", words(Named::read("labels", labels).planned(1))?, shape)?;
        let losses = Operand::once("loss", Named::written("loss", loss).planned(2), shape)?;
        let gradients = gradient.map(|gradient| Operand::planned(&Named::written("gradient", gradient), 3));
        let rows = [x, labels, losses, gradients.unwrap_or(x.instead())];
        let label_words = (I::DTYPE.bytes() / DType::I32.bytes()) as u32;
        Ok(Problem { operands, matrices: Matrices::new(loss.device(), rows), label_words })
    }

    pub(super) fn select(&self) -> Selection<'_, 4> {
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
