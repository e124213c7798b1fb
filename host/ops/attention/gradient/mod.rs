//! The gradients of attention.

mod beside;
mod choose;
mod divide;
mod launch;
mod plan;
mod problem;

use beside::Owned;
use choose::Compiled;
pub use plan::{AttentionGradientPlan, AttentionGradientViews};
use plan::{Tensors, problem};

use super::bias::AttentionBiasMut;
use super::problem::Options;
use super::{Attention, Others};
use crate::ops::HalfElement;
use crate::ops::frame::{Candidate, Choice, Workspace};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute gradients of an attention, or why it could not.
pub type AttentionGradientCandidate = Candidate<Compiled>;

/// The gradients of [`Attention`] by Q, K and V, given that by O: flash attention, backward. [`Attention::gradient`] makes it.
///
/// | tensor | shape |
/// | --- | --- |
/// | Q, dQ | \[batch, heads, queries, D\] |
/// | K, dK | \[batch, KV heads, keys, D\] |
/// | V, dV | \[batch, KV heads, keys, DV\] |
/// | O, dO | \[batch, heads, queries, DV\] |
/// | log-sum-exp, f32 | \[batch, heads, queries\] |
///
/// - Masks, scales, capped scores, heads that share keys and values, packed sequences and strides are those of [`Attention`]. O and the log-sum-exp
///   are what it gave.
/// - Scores are computed once more: with P = exp(scores - log-sum-exp), dP = dO Vᵀ and dS = P ∘ (dP - dO · O) there are dV = Pᵀ dO, dK = scale dSᵀ Q and
///   dQ = scale dS K (Dao et al. 2022, algorithm 4). Sums are in f32; P and dS are rounded to the element type before they are multiplied: in f16 a dS beyond
///   65504 is infinite there, so that losses are scaled with care.
/// - The fast kernels of Hopper compute all three at a time, and add dQ up in f32, in an order that differs from run to run: dQ differs in the last bits.
///   dK and dV do not. With [`deterministic`](Self::deterministic) the same call gives the same bits on the same GPU: it adds in an order, or computes scores twice, by 7 products in
///   place of 5.
/// - A query that sees no key has a dQ of 0, a key that no query sees a dK and dV of 0.
/// - A NaN or an infinity may reach all gradients of its sequence and head, and of those that share its keys.
/// - [Slopes](Attention::alibi_slopes), a [bias](Attention::bias) and [sinks](Attention::sinks) are those of the attention; packed sequences have no bias here either. Slopes and a bias take the kernels
///   that compute scores twice, on capped scores slower ones.
/// - D and DV are 1 to 256. At most 65535 heads, and sequences. Without batch or heads nothing is done.
///
/// A call does not wait and allocates no device memory, but for the [`workspace`](Self::workspace) if none was given; it can be captured in a
/// [`Graph`](crate::Graph).
///
/// ```
/// use tilewright::ops::Attention;
/// use tilewright::{Device, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let stream = device.default_stream();
/// // Two heads that share keys and values.
/// let q = Tensor::<bf16>::filled(&device, bf16::ONE, &[1, 2, 3, 64])?;
/// let k = Tensor::<bf16>::filled(&device, bf16::ONE, &[1, 1, 3, 64])?;
/// let v = Tensor::<bf16>::filled(&device, bf16::ONE, k.shape())?;
/// let d_o = Tensor::<bf16>::filled(&device, bf16::ONE, q.shape())?;
/// let mut o = Tensor::<bf16>::zeros(&device, q.shape())?;
/// let mut lse = Tensor::<f32>::zeros(&device, &[1, 2, 3])?;
/// let (q, k, v, d_o) = (q.view(), k.view(), v.view(), d_o.view());
/// Attention::new().causal().lse(&mut lse.view_mut()).run(&stream, &q, &k, &v, &mut o.view_mut())?;
///
/// let mut d_q = Tensor::<bf16>::zeros(&device, q.shape())?;
/// let [mut d_k, mut d_v] = [Tensor::<bf16>::zeros(&device, k.shape())?, Tensor::<bf16>::zeros(&device, k.shape())?];
/// Attention::new().causal().gradient().run(
///     &stream,
///     [&q, &k, &v],
///     (&o.view(), &lse.view()),
///     &d_o,
///     [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()],
/// )?;
/// // The first key has all of the first query, a half of the second, a third of the last, of each head.
/// let d_v = d_v.to_vec()?;
/// assert!((d_v[0].to_f32() - 2.0 * (1.0 + 0.5 + 1.0 / 3.0)).abs() < 0.03);
/// # Ok(())
/// # }
/// ```
pub struct AttentionGradient<'a> {
    options: Options,
    beside: Owned<'a>,
    /// Options that have no gradient, by name.
    refused: Option<&'static str>,
    longest_keys: Option<usize>,
    deterministic: bool,
    splits: Option<usize>,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl<'a> AttentionGradient<'a> {
    pub(super) fn new(of: Attention<'a>) -> Self {
        let refused = {
            let Others { lse, lengths, table, scales, query_offsets, key_offsets, lists, selected, .. } =
                of.others();
            let given = [
                ("lse", lse.is_some()),
                ("lengths", lengths.is_some()),
                ("block_table", table.is_some()),
                ("k_scale", scales.is_some()),
                ("packed_queries", query_offsets.is_some() && key_offsets.is_none()),
                ("block_lists", lists.is_some()),
                ("selected_blocks", selected.is_some()),
                ("splits", of.options.splits.is_some()),
                ("workspace", matches!(of.workspace, Workspace::Given(_))),
                ("kernel", of.kernel.is_some()),
            ];
            given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
        };
        let Attention { options, query_offsets, key_offsets, sinks, slopes, bias, overlap, .. } = of;
        let offsets = query_offsets.zip(key_offsets).map(|(queries, keys)| [queries, keys]);
        AttentionGradient {
            options,
            beside: Owned { offsets, sinks, slopes, bias, d_bias: None, d_sinks: None },
            refused,
            longest_keys: None,
            deterministic: false,
            splits: None,
            workspace: Workspace::Owned(None),
            kernel: None,
            overlap,
        }
    }
    /// Computes the gradient by the [bias](Attention::bias) too, of its type and shape: P ∘ (dP - dO · O), of what hides a key 0. Where sequences or heads
    /// share the bias it is the sum of theirs, in f32, rounded once; queries and keys do not share it. The same bits each time.
    ///
    /// It takes a kernel of its own, which computes P and dP once more.
    pub fn d_bias(mut self, d_bias: impl Into<AttentionBiasMut<'a>>) -> Self {
        self.beside.d_bias = Some(d_bias.into());
        self
    }
    /// Computes the gradient by the [sinks](Attention::sinks) too, f32 \[heads\], of any stride: -exp(sink - log-sum-exp) dO · O of a head's queries in all
    /// sequences, summed in f32. The same bits each time.
    pub fn d_sinks(mut self, d_sinks: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.beside.d_sinks = Some(d_sinks.reborrow());
        self
    }
    /// No [packed](Attention::packed) sequence has more keys than so many; all keys unless set, for which kernels are launched in vain.
    ///
    /// Of a sequence that has more, further gradients of keys and values are either computed or left as they were. Queries behind `longest` do not count.
    pub fn longest_keys(self, longest: usize) -> Self {
        AttentionGradient { longest_keys: Some(longest), ..self }
    }
    /// Only results that are the same to the bit, run by run, on the same GPU.
    pub fn deterministic(self) -> Self {
        AttentionGradient { deterministic: true, ..self }
    }
    /// Divides the blocks of queries that a tile of keys meets, of all heads that share it, into so many parts, 1 to 1024, each with a dK and a dV in f32, which are then
    /// added up: few tiles are divided among more SMs. [Deterministic](Self::deterministic) parts are of whole heads. More than one
    /// takes a Hopper GPU and neither slopes nor a bias: else no kernel is found. Unless set, it is chosen so that all SMs have work.
    pub fn splits(self, splits: usize) -> Self {
        AttentionGradient { splits: Some(splits), ..self }
    }
    /// Memory for what is known of each query, and for sums, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or
    /// more, of any values; calls on other streams must not use it meanwhile.
    ///
    /// Without it the first run allocates it and keeps it for later runs, which wait for each other; it is freed when the `AttentionGradient` is
    /// dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        AttentionGradient { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces the kernel of keys by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        AttentionGradient { kernel: Some(name), ..self }
    }

    fn expect_gradient(&self) -> Result<()> {
        let Some(name) = self.refused else { return Ok(()) };
        let allowed = "left out, or set for the gradient itself: it has no part in one";
        Err(Error::argument(name, "given to the attention of a gradient", allowed))
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: those of the [`plan`](Self::plan).
    pub fn workspace_len<T: HalfElement>(
        &self,
        inputs: [&TensorView<'_, T>; 3],
        given: (&TensorView<'_, T>, &TensorView<'_, f32>),
        d_o: &TensorView<'_, T>,
        outputs: [&TensorViewMut<'_, T>; 3],
    ) -> Result<usize> {
        Ok(self.plan(inputs, given, d_o, outputs)?.workspace_len())
    }

    /// Every compiled kernel of keys for this type, the best by estimate first, with the reason for those that cannot compute these gradients.
    pub fn candidates<T: HalfElement>(
        &self,
        inputs: [&TensorView<'_, T>; 3],
        given: (&TensorView<'_, T>, &TensorView<'_, f32>),
        d_o: &TensorView<'_, T>,
        outputs: [&TensorViewMut<'_, T>; 3],
    ) -> Result<Vec<AttentionGradientCandidate>> {
        Ok(problem(self, &Tensors::new(inputs, given, d_o, outputs, self.beside.views()))?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernels, and how they are launched. The tensors, offsets
    /// too, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernels, which takes the driver a while the first time.
    pub fn plan<T: HalfElement>(
        &self,
        inputs: [&TensorView<'_, T>; 3],
        given: (&TensorView<'_, T>, &TensorView<'_, f32>),
        d_o: &TensorView<'_, T>,
        outputs: [&TensorViewMut<'_, T>; 3],
    ) -> Result<AttentionGradientPlan> {
        AttentionGradientPlan::new(self, &Tensors::new(inputs, given, d_o, outputs, self.beside.views()))
    }

    /// Queues the gradients by Q, K and V, `outputs`, on `stream`: of these three, `inputs`, of the O and the log-sum-exp that they gave, and of the gradient
    /// by O. [`plan`](Self::plan), and [`AttentionGradientPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or an output overlaps another tensor.
    pub fn run<T: HalfElement>(
        &mut self,
        stream: &Stream,
        inputs: [&TensorView<'_, T>; 3],
        given: (&TensorView<'_, T>, &TensorView<'_, f32>),
        d_o: &TensorView<'_, T>,
        outputs: [&mut TensorViewMut<'_, T>; 3],
    ) -> Result<()> {
        let outputs = outputs.each_ref().map(|output| &**output);
        let plan = self.plan(inputs, given, d_o, outputs)?;
        let tensors = Tensors::new(inputs, given, d_o, outputs, self.beside.views());
        let places = plan.places(stream, &tensors, self.workspace.named())?;
        self.workspace.lend(plan.workspace_len(), stream, |address| plan.launch(stream, &places, address))
    }
}
