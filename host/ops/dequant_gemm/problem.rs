//! What a dequantised GEMM is asked to compute, checked.

use super::DeviceWeights;
use crate::ops::frame::{Named, check, of_shape};
use crate::tensor::Untyped;
use crate::{Device, Element, Error, Result, TensorView, TensorViewMut};

/// The matrices of a dequantised GEMM: A \[M, K\], C \[M, N\].
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    pub(super) a: Untyped,
    pub(super) c: Untyped,
    /// Of shape \[N, 1\].
    pub(super) bias: Option<Untyped>,
    /// The scales of int8 activations' rows, as Cᵀ has them: \[N, M\].
    pub(super) tokens: Option<Untyped>,
    /// The scales of the weights' rows for sums of int8: those of the first group, of shape \[N, 1\].
    pub(super) scales: Option<Untyped>,
    /// M, N and K.
    pub(super) size: [usize; 3],
    /// Neighbours along K that have one scale.
    pub(super) group: usize,
}

impl Problem {
    /// Checks that the views fit together and with the weights, and lie apart from each other and the call's `others`.
    pub(super) fn new<'v, A: Element, C: Element>(
        a: &'v TensorView<'_, A>,
        w: &DeviceWeights,
        c: &'v TensorViewMut<'_, C>,
        bias: Option<&'v TensorView<'_, C>>,
        others: impl IntoIterator<Item = Named<'v>, IntoIter: Clone>,
    ) -> Result<Self> {
        let device = c.device();
        let tensors = [Named::read("a", a)].into_iter().chain(bias.map(|bias| Named::read("bias", bias)));
        check(device, tensors.chain([Named::written("c", c)]).chain(others))?;
        device.expect_same(w.device(), "w")?;
        let [n, k] = w.shape();
        let &[m, _] = c.shape() else {
            return Err(Error::argument("c", of_shape(c.shape()), "of 2 dimensions, rows and columns"));
        };
        let weights = format!("the weights `{}` are [{n}, {k}]", w.name());
        if a.shape() != [m, k] {
            return Err(Error::argument("a", of_shape(a.shape()), format!("of shape [{m}, {k}]: {weights}")));
        }
        if c.shape() != [m, n] {
            return Err(Error::argument("c", of_shape(c.shape()), format!("of shape [{m}, {n}]: {weights}")));
        }
        let bias = match bias {
            None => None,
            Some(bias) => {
                if bias.shape() != [n] {
                    return Err(Error::argument("bias", of_shape(bias.shape()), format!("of shape [{n}]")));
                }
                Some(bias.untyped().broadcast(&[1, n])?.t()?)
            }
        };
        let (a, c) = (a.untyped(), c.untyped());
        let group = w.scheme().group.len(k);
        Ok(Problem { device: device.clone(), a, c, bias, tokens: None, scales: None, size: [m, n, k], group })
    }
}
