//! Layers of experts.

mod experts;
mod problem;
mod room;

pub use experts::Experts;
use problem::Problem;
use room::Room;

use super::{
    Activation, Embedding, Gated, GroupRows, GroupedGemm, HalfElement, Softmax, TopK, group_combine,
    group_order,
};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// y = the weighted sum of what the chosen experts make of each token: a mixture of experts with gated units (Shazeer et al. 2017; Jiang et al. 2024,
/// "Mixtral of Experts"; DeepSeek-AI 2024, "DeepSeek-V3 Technical Report").
///
/// - x is \[tokens, hidden\], y has its shape; the router's logits are f32, \[tokens, experts\]; `gate_up` is \[experts, hidden, 2 inner\], the gates'
///   columns first; `down` is \[experts, inner, hidden\]. x, y and the weights are of `f16` or `bf16`, with any strides: weights that lie as \[experts, 2 inner,
///   hidden\] and \[experts, hidden, inner\] are transposed views.
/// - Either product's matrices may be narrow weights in their place: [`Experts`].
/// - A token goes to the [`top`](Self::new) experts with the largest logits, of equal ones the first. Its weights are the softmax of all its logits, or, where
///   they are [`normalized`](Self::normalized), of those of its experts alone, which is the same but for a factor that makes their sum 1.
/// - An expert's result is (act(x gate) · x up) down. Each product is accumulated in f32. Units are rounded to the type, and so are experts' results; gates and
///   ups only where their product does not store units at once, see below. The sum is taken in f32 and rounded once. The order of all sums is fixed: the
///   same call gives the same bits.
/// - NaN among a token's logits makes its row of y NaN.
///
/// It is these operators one after the other: [`TopK`] and [`Softmax`], [`group_order`], [`Embedding`], [`GroupedGemm`] or its narrow form,
/// [`Gated`], the same product again, [`group_combine`]: 8 launches, on memory that the caller gives. Where `gate_up` lies as
/// [gated products](GroupedGemm::gated) want it, \[experts, 2 inner, hidden\] with lines aligned to 16 bytes, one of them takes the place of the product and [`Gated`]: 7 launches,
/// and no memory for gates and ups. Nothing is allocated and nothing is waited for; a [`Graph`](crate::Graph) replays it with the tokens and logits of the moment.
#[derive(Clone, Copy, Debug)]
pub struct Moe {
    top: usize,
    activation: Activation,
    normalized: bool,
}

impl Moe {
    /// Of so many experts a token, with SiLU.
    pub fn new(top: usize) -> Self {
        Moe { top, activation: Activation::Silu, normalized: false }
    }
    /// What is applied to gates.
    pub fn activation(self, activation: Activation) -> Self {
        Moe { activation, ..self }
    }
    /// Makes a token's weights add up to 1.
    pub fn normalized(self) -> Self {
        Moe { normalized: true, ..self }
    }

    /// Elements of f32 that [`run`](Self::run) takes as workspace, with matrices that lie as these.
    ///
    /// # Errors
    /// Those of the shapes in `run`.
    pub fn workspace_len<'v, T: HalfElement>(
        &self,
        x: &TensorView<'_, T>,
        logits: &TensorView<'_, f32>,
        gate_up: impl Into<Experts<'v, T>>,
        down: impl Into<Experts<'v, T>>,
    ) -> Result<usize> {
        let problem = Problem::new(self.top, x, logits, &gate_up.into(), &down.into())?;
        Ok(room::len(&problem, T::DTYPE.bytes()))
    }

    /// Queues it on `stream`. `workspace` has as many elements as [`workspace_len`](Self::workspace_len) says, contiguous and aligned to 16 bytes,
    /// of any values; calls that may be at work at a time have one each.
    ///
    /// Fails when shapes do not fit, a view lies on another device, or y or the workspace overlaps another tensor; the error names the argument.
    #[expect(clippy::too_many_arguments, reason = "as many tensors")]
    pub fn run<'v, T: HalfElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        logits: &TensorView<'_, f32>,
        gate_up: impl Into<Experts<'v, T>>,
        down: impl Into<Experts<'v, T>>,
        y: &mut TensorViewMut<'_, T>,
        workspace: &mut TensorViewMut<'_, f32>,
    ) -> Result<()> {
        let (gate_up, down) = (gate_up.into(), down.into());
        let problem = Problem::new(self.top, x, logits, &gate_up, &down)?;
        problem.expect_apart(stream, x, [&gate_up, &down], logits, y, workspace)?;
        let mut room = Room::of::<T>(&problem, workspace)?;
        let Problem { tokens, hidden, experts, inner, top, fused } = problem;
        let entries = tokens * top;
        let mut weights = room.take::<f32>(&[tokens, top])?;
        let mut chosen = room.take::<i32>(&[tokens, top])?;
        if self.normalized {
            let mut values = room.take::<f32>(&[tokens, top])?;
            TopK::new().run(stream, logits, &mut values, &mut chosen)?;
            Softmax::new().run(stream, &values.as_view(), &mut weights)?;
        } else {
            let mut all = room.take::<f32>(&[tokens, experts])?;
            Softmax::new().run(stream, logits, &mut all)?;
            TopK::new().run(stream, &all.as_view(), &mut weights, &mut chosen)?;
        }
        let mut offsets = room.take::<i32>(&[experts + 1])?;
        let mut order = room.take::<i32>(&[entries])?;
        let mut places = room.take::<i32>(&[tokens, top])?;
        group_order(stream, chosen.as_view(), &mut offsets, &mut order, &mut places)?;
        let rows = GroupRows::offsets(offsets.as_view());
        let mut rows_in = room.take::<T>(&[entries, hidden])?;
        Embedding::new().run(stream, x, &order.as_view(), &mut rows_in)?;
        let mut units = room.take::<T>(&[entries, inner])?;
        if let Some(all) = gate_up.halves().filter(|_| fused) {
            let gemm = GroupedGemm::new().gated(self.activation);
            gemm.run(stream, &rows_in.as_view(), all, &rows, &mut units)?;
        } else {
            let mut wide = room.take::<T>(&[entries, 2 * inner])?;
            gate_up.multiply(stream, &rows_in.as_view(), &rows, &mut wide)?;
            Gated::new(self.activation).run_packed(stream, &wide.as_view(), &mut units)?;
        }
        // What came in is not needed any more.
        down.multiply(stream, &units.as_view(), &rows, &mut rows_in)?;
        group_combine(stream, &rows_in.as_view(), &weights.as_view(), &places.as_view(), y)
    }
}
