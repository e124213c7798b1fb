//! What is asked to be computed, checked.

use super::Experts;
use crate::ops::HalfElement;
use crate::ops::frame::{Named, check, of_shape};
use crate::{Element, Error, Result, Stream, TensorView, TensorViewMut};

/// The sizes of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) tokens: usize,
    pub(super) hidden: usize,
    pub(super) experts: usize,
    pub(super) inner: usize,
    /// Experts of a token.
    pub(super) top: usize,
    /// Whether the product of gates and ups stores units.
    pub(super) fused: bool,
}

impl Problem {
    pub(super) fn new<T: HalfElement>(
        top: usize,
        x: &TensorView<'_, T>,
        logits: &TensorView<'_, f32>,
        gate_up: &Experts<'_, T>,
        down: &Experts<'_, T>,
    ) -> Result<Self> {
        let wrong =
            |name, shape: &[usize], allowed: String| Err(Error::argument(name, of_shape(shape), allowed));
        let &[tokens, hidden] = x.shape() else {
            return wrong("x", x.shape(), "of shape [tokens, hidden]".to_owned());
        };
        let (experts, inner) = down.sizes(hidden);
        down.expect("down", [experts, inner, hidden], "as many columns as `x`")?;
        let why = "gates and ups of `down`'s rows, for columns of `x`";
        gate_up.expect("gate_up", [experts, hidden, inner.saturating_mul(2)], why)?;
        if logits.shape() != [tokens, experts] {
            let allowed = format!("of shape [{tokens}, {experts}]: tokens of `x`, experts of `down`");
            return wrong("logits", logits.shape(), allowed);
        }
        if top == 0 || top > experts {
            return Err(Error::argument("top", top.to_string(), format!("1 to {experts}, the experts")));
        }
        let fused = gate_up.have_gated_kernel(tokens.saturating_mul(top))?;
        Ok(Problem { tokens, hidden, experts, inner, top, fused })
    }

    /// Checks that what is written lies apart, and all on the stream's device.
    pub(super) fn expect_apart<T: Element>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        [gate_up, down]: [&Experts<'_, T>; 2],
        logits: &TensorView<'_, f32>,
        y: &TensorViewMut<'_, T>,
        workspace: &TensorViewMut<'_, f32>,
    ) -> Result<()> {
        if y.shape() != x.shape() {
            return Err(Error::argument(
                "y",
                of_shape(y.shape()),
                format!("{}, as `x`", of_shape(x.shape())),
            ));
        }
        stream.expect_on(y.device())?;
        gate_up.expect_on(y.device(), "gate_up")?;
        down.expect_on(y.device(), "down")?;
        let read = [Some(Named::read("x", x)), gate_up.named("gate_up"), down.named("down")];
        let others =
            [Named::read("logits", logits), Named::written("y", y), Named::room("workspace", workspace)];
        check(y.device(), read.into_iter().flatten().chain(others))
    }
}
