//! What a gradient takes and gives beside Q, K, V, O, dO and the gradients by the first three.

use super::problem::Added;
use crate::ops::Indices;
use crate::ops::attention::bias::{AttentionBias, AttentionBiasMut};
use crate::ops::attention::terms::Terms;
use crate::ops::frame::Named;
use crate::{TensorView, TensorViewMut};

/// Places of a plan, behind those of the others.
pub(super) const FIRST: usize = 9;
/// How many.
pub(super) const COUNT: usize = 7;

/// The tensors, borrowed.
#[derive(Clone, Copy)]
pub(super) struct Beside<'v> {
    /// Of packed queries and keys.
    pub(super) offsets: Option<[&'v Indices<'v>; 2]>,
    pub(super) sinks: Option<&'v TensorView<'v, f32>>,
    pub(super) slopes: Option<&'v TensorView<'v, f32>>,
    pub(super) bias: Option<&'v AttentionBias<'v>>,
    pub(super) d_bias: Option<&'v AttentionBiasMut<'v>>,
    pub(super) d_sinks: Option<&'v TensorViewMut<'v, f32>>,
}

/// The same: of an operator, or at a plan's places.
pub(super) struct Owned<'a> {
    pub(super) offsets: Option<[Indices<'a>; 2]>,
    pub(super) sinks: Option<TensorView<'a, f32>>,
    pub(super) slopes: Option<TensorView<'a, f32>>,
    pub(super) bias: Option<AttentionBias<'a>>,
    pub(super) d_bias: Option<AttentionBiasMut<'a>>,
    pub(super) d_sinks: Option<TensorViewMut<'a, f32>>,
}

impl<'v> Beside<'v> {
    pub(super) fn named(&self) -> [Option<Named<'v>>; COUNT] {
        [
            self.offsets.map(|[queries, _]| queries.named("query_offsets")),
            self.offsets.map(|[_, keys]| keys.named("key_offsets")),
            self.sinks.map(|sinks| Named::read("sinks", sinks)),
            self.slopes.map(|slopes| Named::read("alibi_slopes", slopes)),
            self.bias.map(AttentionBias::named),
            self.d_bias.map(AttentionBiasMut::named),
            self.d_sinks.map(|d_sinks| Named::written("d_sinks", d_sinks)),
        ]
    }

    pub(super) fn planned(&self) -> Owned<'v> {
        Owned {
            offsets: self.offsets.map(|[queries, keys]| [queries.planned(FIRST), keys.planned(FIRST + 1)]),
            sinks: self.sinks.map(|sinks| sinks.planned(FIRST + 2)),
            slopes: self.slopes.map(|slopes| slopes.planned(FIRST + 3)),
            bias: self.bias.map(|bias| bias.planned(FIRST + 4)),
            d_bias: self.d_bias.map(|d_bias| d_bias.planned(FIRST + 5)),
            d_sinks: self.d_sinks.map(|d_sinks| d_sinks.planned(FIRST + 6)),
        }
    }
}

impl Owned<'_> {
    pub(super) fn views(&self) -> Beside<'_> {
        Beside {
            offsets: self.offsets.as_ref().map(|[queries, keys]| [queries, keys]),
            sinks: self.sinks.as_ref(),
            slopes: self.slopes.as_ref(),
            bias: self.bias.as_ref(),
            d_bias: self.d_bias.as_ref(),
            d_sinks: self.d_sinks.as_ref(),
        }
    }

    /// What is added to scores, and where the gradients by it go.
    pub(super) fn added(&self) -> Added {
        Added {
            terms: Terms {
                sinks: self.sinks.as_ref().map(TensorView::untyped),
                slopes: self.slopes.as_ref().map(TensorView::untyped),
                bias: self.bias.as_ref().map(AttentionBias::untyped),
            },
            d_bias: self.d_bias.as_ref().map(AttentionBiasMut::untyped),
            d_sinks: self.d_sinks.as_ref().map(TensorViewMut::untyped),
        }
    }
}
