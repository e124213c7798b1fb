//! Attention of 8-bit floats.

mod plan;
mod problem;
mod table;

use plan::problem;
pub use plan::{ScaledAttentionPlan, ScaledAttentionViews};
use problem::{Others, named};
use table::Compiled;

use super::problem::Options;
use crate::ops::HalfElement;
use crate::ops::frame::{Candidate, Choice, Workspace};
use crate::{F8E4M3, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute an attention of 8-bit floats, or why it could not.
pub type ScaledAttentionCandidate = Candidate<Compiled>;

/// O = softmax(scale Q Kᵀ + mask) V of e4m3, with a scale for each head: flash attention, forward, at the tensor cores' speed for 8-bit floats (Shah et al. 2024, section
/// 3.3).
///
/// | tensor | shape |
/// | --- | --- |
/// | Q, e4m3 | \[batch, heads, queries, D\] |
/// | K, e4m3 | \[batch, KV heads, keys, D\] |
/// | V, e4m3 | \[batch, KV heads, keys, DV\] |
/// | scales of Q, f32, optional | any that broadcasts to \[batch, heads\] |
/// | scales of K and of V, f32, optional | any that broadcasts to \[batch, KV heads\] |
/// | O, f16 or bf16 | \[batch, heads, queries, DV\] |
/// | log-sum-exp, f32, optional | \[batch, heads, queries\] |
///
/// - D and DV are multiples of 16 to 256; the kernels are made for D of 128 and 256, and DV of 64, 128 and 256. The columns of Q, K and V are contiguous, in lines that
///   begin at multiples of 16 bytes; other strides are any, and those of O too. [Casts](crate::ops::Cast) make such tensors.
/// - Heads, masks and alignment are those of [`Attention`](super::Attention): KV heads divide heads, the last query is aligned with the last key.
/// - Scores are sums of f32 over products of e4m3, times the scales of Q and K and the scale of all. Their exponentials, the row's largest being 256, are rounded to e4m3
///   before they multiply V: those below 2^-18 of the largest become zeros. The row's sum has them in f32. O is rounded to `T`, to nearest even.
/// - With random numbers, causal, results are off by 1.1 to 1.5% of their length, at 1024 as at 65536 keys, and by 3% from those of what was quantised (seen on an
///   H200; `examples/attention_fp8.rs`).
/// - It takes 0.6 of the time that bf16 takes with 256 columns and some thousand keys, 0.9 with 128, as much with 64; see BENCHMARKS.md.
/// - A NaN in Q or K stays in the rows of the queries that see it; in V it may reach its column in all rows, as in [`Attention`](super::Attention). A scale that is not
///   above 0 and finite gives any values.
/// - A query that sees no key has an O of 0 and a log-sum-exp of -inf.
///
/// The products want keys contiguous in V: a small kernel transposes V so in the [`workspace`](Self::workspace) before. Kernels are for Hopper.
///
/// A call allocates no device memory and does not wait, but for a workspace if none was given; it can be captured in a [`Graph`](crate::Graph).
///
/// ```
/// use tilewright::ops::ScaledAttention;
/// use tilewright::{Device, F8E4M3, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// // [batch, length, heads, head dimension]; four heads share a head of keys and values.
/// let q = Tensor::<F8E4M3>::zeros(&device, &[1, 100, 4, 64])?;
/// let k = Tensor::<F8E4M3>::zeros(&device, &[1, 100, 1, 64])?;
/// let mut o = Tensor::<bf16>::zeros(&device, &[1, 100, 4, 64])?;
/// // What each KV head's codes are multiplied by.
/// let scale = Tensor::from_slice(&device, &[0.25f32], &[1])?;
/// let k = k.view().transpose(1, 2)?;
/// ScaledAttention::new().causal().scale_k(&scale.view()).scale_v(&scale.view()).run(
///     &device.default_stream(),
///     &q.view().transpose(1, 2)?,
///     &k,
///     &k,
///     &mut o.view_mut().transpose(1, 2)?,
/// )?;
/// # Ok(())
/// # }
/// ```
pub struct ScaledAttention<'a> {
    options: Options,
    scales: [Option<TensorView<'a, f32>>; 3],
    lse: Option<TensorViewMut<'a, f32>>,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Default for ScaledAttention<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> ScaledAttention<'a> {
    /// O = softmax(Q Kᵀ / sqrt(D)) V.
    pub fn new() -> Self {
        ScaledAttention {
            options: Options::default(),
            scales: [None, None, None],
            lse: None,
            workspace: Workspace::Owned(None),
            kernel: None,
            overlap: true,
        }
    }
    /// See [`Attention::causal`](super::Attention::causal).
    pub fn causal(mut self) -> Self {
        self.options.causal = true;
        self
    }
    /// See [`Attention::window`](super::Attention::window).
    pub fn window(mut self, left: usize, right: usize) -> Self {
        self.options.window = Some([left, right]);
        self
    }
    /// The factor of Q Kᵀ, beside the scales of heads, above 0 and at most 1e17; 1 / sqrt(D) unless set.
    pub fn scale(mut self, scale: f32) -> Self {
        self.options.scale = Some(scale);
        self
    }
    /// What Q's codes are multiplied by, of each head of each sequence or of more of them; 1 unless set. Read when the kernel runs.
    pub fn scale_q(mut self, scales: &TensorView<'a, f32>) -> Self {
        self.scales[0] = Some(scales.clone());
        self
    }
    /// The same of K's codes.
    pub fn scale_k(mut self, scales: &TensorView<'a, f32>) -> Self {
        self.scales[1] = Some(scales.clone());
        self
    }
    /// The same of V's codes.
    pub fn scale_v(mut self, scales: &TensorView<'a, f32>) -> Self {
        self.scales[2] = Some(scales.clone());
        self
    }
    /// Where to write the natural logarithm of each row's sum of exponentials of masked scores, \[batch, heads, queries\].
    pub fn lse(self, lse: &'a mut TensorViewMut<'_, f32>) -> Self {
        ScaledAttention { lse: Some(lse.reborrow()), ..self }
    }
    /// Memory for V, contiguous, aligned to 16 bytes, of [`ScaledAttentionPlan::workspace_len`] elements or more, of any values; calls on other streams must not use it
    /// meanwhile.
    ///
    /// Without it the first run allocates it and keeps it for later runs, which wait for each other; it is freed when the `ScaledAttention` is dropped, after the last.
    /// That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        ScaledAttention { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        ScaledAttention { kernel: Some(name), ..self }
    }
    /// Whether kernels may start while the preceding grid of the stream still runs (programmatic dependent launch); on unless set. They wait for that
    /// one's results before they read or write memory.
    pub fn overlap(self, overlap: bool) -> Self {
        ScaledAttention { overlap, ..self }
    }

    /// The tensors of the call beside Q, K, V and O.
    fn others(&self) -> Others<'_> {
        Others { lse: self.lse.as_ref(), scales: self.scales.each_ref().map(Option::as_ref) }
    }

    /// Every compiled kernel for this type, the best by estimate first, with the reason for those that cannot compute this attention.
    pub fn candidates<T: HalfElement>(
        &self,
        q: &TensorView<'_, F8E4M3>,
        k: &TensorView<'_, F8E4M3>,
        v: &TensorView<'_, F8E4M3>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Vec<ScaledAttentionCandidate>> {
        Ok(problem(self, [q, k, v], o)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times. The tensors, those among the options too, may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernels, which takes the driver a while the first time.
    pub fn plan<T: HalfElement>(
        &self,
        q: &TensorView<'_, F8E4M3>,
        k: &TensorView<'_, F8E4M3>,
        v: &TensorView<'_, F8E4M3>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<ScaledAttentionPlan> {
        ScaledAttentionPlan::new(self, [q, k, v], o)
    }

    /// Queues the attention on `stream`: [`plan`](Self::plan), and [`ScaledAttentionPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or an output overlaps another tensor.
    pub fn run<T: HalfElement>(
        &mut self,
        stream: &Stream,
        q: &TensorView<'_, F8E4M3>,
        k: &TensorView<'_, F8E4M3>,
        v: &TensorView<'_, F8E4M3>,
        o: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let plan = self.plan(q, k, v, o)?;
        let places = plan.places(stream, named([q, k, v], o, self.others()), self.workspace.named())?;
        self.workspace.lend(plan.workspace_len(), stream, |address| plan.launch(stream, &places, address))
    }
}
