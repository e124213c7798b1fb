//! What a dequantised GEMM is asked to compute, checked.

use tilewright_device::tile::GATES;

use super::DeviceWeights;
use super::plan::{BIAS, TOKENS, named};
use crate::ops::frame::{Places, check, of_shape};
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
    /// C is \[M, N / 2\].
    pub(super) gated: bool,
}

/// The tensors of the call beside A, C and the workspace.
pub(super) struct Others<'v, C: Element> {
    pub(super) bias: Option<&'v TensorView<'v, C>>,
    /// The scales of A's rows.
    pub(super) tokens: Option<&'v TensorView<'v, f32>>,
}

impl<C: Element> Others<'_, C> {
    /// The same at a plan's places.
    pub(super) fn planned<T>(&self, with: impl FnOnce(&Others<'_, C>) -> T) -> T {
        let bias = self.bias.map(|bias| bias.planned(BIAS));
        let tokens = self.tokens.map(|tokens| tokens.planned(TOKENS));
        with(&Others { bias: bias.as_ref(), tokens: tokens.as_ref() })
    }
}

impl Problem {
    /// Checks that the views fit together and with the weights.
    pub(super) fn new<A: Element, C: Element>(
        a: &TensorView<'_, A>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, C>,
        others: &Others<'_, C>,
        gated: bool,
    ) -> Result<Self> {
        let (device, bias) = (c.device(), others.bias);
        check(device, named(a, c, others).into_iter().flatten())?;
        device.expect_same(w.device(), "w")?;
        let [n, k] = w.shape();
        let &[m, _] = c.shape() else {
            return Err(Error::argument("c", of_shape(c.shape()), "of 2 dimensions, rows and columns"));
        };
        let weights = format!("the weights `{}` are [{n}, {k}]", w.name());
        if a.shape() != [m, k] {
            return Err(Error::argument("a", of_shape(a.shape()), format!("of shape [{m}, {k}]: {weights}")));
        }
        if gated && !n.is_multiple_of(2 * GATES as usize) {
            let was = format!("of {n} rows");
            return Err(Error::argument(
                "w",
                was,
                "of gates and ups in turn, 8 rows of each: multiples of 16",
            ));
        }
        let columns = if gated { n / 2 } else { n };
        if c.shape() != [m, columns] {
            let allowed =
                format!("of shape [{m}, {columns}]: {weights}{}", if gated { ", gated" } else { "" });
            return Err(Error::argument("c", of_shape(c.shape()), allowed));
        }
        if gated && bias.is_some() {
            return Err(Error::argument("bias", "given for a gated product", "left out"));
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
        Ok(Problem {
            device: device.clone(),
            a,
            c,
            bias,
            tokens: None,
            scales: None,
            size: [m, n, k],
            group,
            gated,
        })
    }

    /// That of a run with weights, of a plan's.
    pub(super) fn placed(&self, places: &Places, w: &DeviceWeights) -> Result<Self> {
        let Problem { device, a, c, bias, tokens, scales, size, group, gated } = self;
        let of = |tensor: &Option<Untyped>| tensor.as_ref().map(|tensor| places.of(tensor));
        Ok(Problem {
            device: device.clone(),
            a: places.of(a),
            c: places.of(c),
            bias: of(bias),
            tokens: of(tokens),
            scales: scales.map(|_| w.row_scales()).transpose()?,
            size: *size,
            group: *group,
            gated: *gated,
        })
    }
}
