//! What is added to scores, and the gradient by it.

use crate::ops::HalfElement;
use crate::ops::frame::Named;
use crate::quant::HalfType;
use crate::tensor::Untyped;
use crate::{TensorView, TensorViewMut, bf16, f16};

/// What is added to an attention's scores, of f16 or bf16: a view is one, and so is a reference to it. See [`Attention::bias`](super::Attention::bias).
#[derive(Clone, Debug)]
pub struct AttentionBias<'a>(Of<TensorView<'a, f16>, TensorView<'a, bf16>>);

/// Where the gradient by an attention's bias goes, of f16 or bf16: a view is one. See [`AttentionGradient::d_bias`](super::AttentionGradient::d_bias).
#[derive(Debug)]
pub struct AttentionBiasMut<'a>(Of<TensorViewMut<'a, f16>, TensorViewMut<'a, bf16>>);

#[derive(Clone, Debug)]
enum Of<F, B> {
    F16(F),
    BF16(B),
}

/// The same of both types.
macro_rules! each {
    ($self:ident, $view:ident => $of:expr) => {
        match &$self.0 {
            Of::F16($view) => $of,
            Of::BF16($view) => $of,
        }
    };
}

macro_rules! of_views {
    ($($name:ident, $view:ident, $how:ident $text:literal;)*) => { $(
        impl<'a, T: HalfElement> From<$view<'a, T>> for $name<'a> {
            fn from(view: $view<'a, T>) -> Self {
                let (device, address, layout) = (view.device(), view.address(), view.untyped().layout);
                $name(match T::HALF {
                    HalfType::F16 => Of::F16($view::of_tensor(device, address, layout)),
                    HalfType::BF16 => Of::BF16($view::of_tensor(device, address, layout)),
                })
            }
        }

        impl $name<'_> {
            pub(super) fn named(&self) -> Named<'_> {
                each!(self, view => Named::$how($text, view))
            }

            /// At the place that a plan gives the tensor of this number.
            pub(super) fn planned(&self, number: usize) -> Self {
                each!(self, view => view.planned(number).into())
            }

            pub(super) fn untyped(&self) -> Untyped {
                each!(self, view => view.untyped())
            }
        }
    )* };
}
of_views! {
    AttentionBias, TensorView, read "bias";
    AttentionBiasMut, TensorViewMut, written "d_bias";
}

impl<'a, T: HalfElement> From<&TensorView<'a, T>> for AttentionBias<'a> {
    fn from(view: &TensorView<'a, T>) -> Self {
        view.clone().into()
    }
}

impl<'a, T: HalfElement> From<&'a mut TensorViewMut<'_, T>> for AttentionBiasMut<'a> {
    fn from(view: &'a mut TensorViewMut<'_, T>) -> Self {
        view.reborrow().into()
    }
}
