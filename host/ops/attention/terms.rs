//! What scores and their softmax have beside Q and K: sinks, slopes of ALiBi, a bias.

use std::f32::consts::LOG2_E;

use tilewright_attention::HeadTerms;

use super::cache::expect;
use super::problem::Size;
use crate::ops::frame::of_shape;
use crate::tensor::Untyped;
use crate::{DType, Error, Result};

/// The least scale of Q Kᵀ beside slopes or a bias, which kernels divide by it: so that quotients are in f32's range.
const LEAST_SCALE: f32 = 1e-20;

/// The tensors.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    /// Of each head.
    pub(super) sinks: Option<Untyped>,
    /// Of each head, or of each sequence's heads.
    pub(super) slopes: Option<Untyped>,
    /// Of each score.
    pub(super) bias: Option<Untyped>,
}

impl Terms {
    /// Whether anything is added to scores.
    pub(super) fn adds(&self) -> bool {
        self.slopes.is_some() || self.bias.is_some()
    }

    /// What kernels are told of heads, given the sizes of the sequences; the softmax is of `scale` times scores, to base 2.
    pub(super) fn argument(&self, size: &Size, scale: f32) -> Result<HeadTerms> {
        let &Size { batch, heads, .. } = size;
        if let Some(sinks) = &self.sinks {
            expect(sinks, "sinks", &[heads], "a logit for each head, contiguous")?;
        }
        let mut slopes_stride = 0;
        if let Some(slopes) = &self.slopes {
            let because = "a slope for each head, or for each head of each sequence, heads contiguous";
            if slopes.layout.shape().len() == 1 {
                expect(slopes, "alibi_slopes", &[heads], because)?;
            } else {
                expect(slopes, "alibi_slopes", &[batch, heads], because)?;
                slopes_stride = slopes.layout.strides()[0] as u64;
            }
        }
        if self.adds() && scale < LEAST_SCALE {
            let beside = if self.bias.is_some() { "a bias" } else { "ALiBi's slopes" };
            let was = format!("{:?} beside {beside}", scale / LOG2_E);
            return Err(Error::argument("scale", was, format!("at least {LEAST_SCALE:?} there")));
        }
        let address = |of: &Option<Untyped>| of.as_ref().map_or(0, |of| of.address);
        let (sinks, slopes) = (address(&self.sinks), address(&self.slopes));
        Ok(HeadTerms { sinks, slopes, slopes_stride, unit: LOG2_E / scale, padding: 0 })
    }

    /// The bias, of the type of Q, stretched to all scores.
    pub(super) fn bias(&self, size: &Size, dtype: DType) -> Result<Option<Untyped>> {
        let Some(bias) = self.bias else { return Ok(None) };
        if bias.dtype != dtype {
            let allowed = format!("of {dtype}, the type of `q`");
            return Err(Error::argument("bias", format!("of {}", bias.dtype), allowed));
        }
        let scores = [size.batch, size.heads, size.queries, size.keys];
        let stretched = bias.broadcast(&scores).map_err(|_| {
            let allowed = format!("one that broadcasts to {scores:?}: batch, heads, queries and keys");
            Error::argument("bias", of_shape(bias.layout.shape()), allowed)
        })?;
        Ok(Some(stretched))
    }
}
