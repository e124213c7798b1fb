//! What is added to scores.

use crate::ops::HalfElement;
use crate::ops::frame::Named;
use crate::quant::HalfType;
use crate::tensor::Untyped;
use crate::{TensorView, bf16, f16};

/// What is added to an attention's scores, of f16 or bf16: a view is one, and so is a reference to it. See [`Attention::bias`](super::Attention::bias).
#[derive(Clone, Debug)]
pub struct AttentionBias<'a>(Of<'a>);

#[derive(Clone, Debug)]
enum Of<'a> {
    F16(TensorView<'a, f16>),
    BF16(TensorView<'a, bf16>),
}

impl<'a, T: HalfElement> From<TensorView<'a, T>> for AttentionBias<'a> {
    fn from(view: TensorView<'a, T>) -> Self {
        let (device, address, layout) = (view.device(), view.address(), view.untyped().layout);
        AttentionBias(match T::HALF {
            HalfType::F16 => Of::F16(TensorView::of_tensor(device, address, layout)),
            HalfType::BF16 => Of::BF16(TensorView::of_tensor(device, address, layout)),
        })
    }
}

impl<'a, T: HalfElement> From<&TensorView<'a, T>> for AttentionBias<'a> {
    fn from(view: &TensorView<'a, T>) -> Self {
        view.clone().into()
    }
}

impl AttentionBias<'_> {
    pub(super) fn named(&self) -> Named<'_> {
        match &self.0 {
            Of::F16(view) => Named::read("bias", view),
            Of::BF16(view) => Named::read("bias", view),
        }
    }

    /// At the place that a plan gives the tensor of this number.
    pub(super) fn planned(&self, number: usize) -> Untyped {
        match &self.0 {
            Of::F16(view) => view.planned(number).untyped(),
            Of::BF16(view) => view.planned(number).untyped(),
        }
    }
}
