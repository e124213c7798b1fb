//! Linear attention: attention without a softmax, whose past is a state of fixed size.

mod choose;
mod gradient;
mod launch;
mod passed;
mod plan;
mod prepared;
mod problem;
mod solved;
mod step;

pub use gradient::{LinearAttentionGradient, LinearAttentionGradientCandidate, LinearAttentionGradientPlan};
pub use plan::{LinearAttentionPlan, LinearAttentionViews};
pub use step::LinearAttentionStepPlan;

use choose::Compiled;
use plan::named;
use problem::{Options, Problem, Tensors};

use super::frame::{Candidate, Choice, Workspace};
use super::{HalfElement, Indices};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute a linear attention, or why it could not.
pub type LinearAttentionCandidate = Candidate<Compiled>;

/// O = (Q Kᵀ / sqrt(head dimension), causal) V, for each head of each sequence: without decays.
///
/// See [`LinearAttention`] for shapes, decays, states, packed sequences and the choice of the kernel.
pub fn linear_attention<T: HalfElement>(
    stream: &Stream,
    q: &TensorView<'_, T>,
    k: &TensorView<'_, T>,
    v: &TensorView<'_, T>,
    o: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    LinearAttention::new().run(stream, q, k, v, o)
}

/// Sₜ = αₜ Sₜ₋₁ + kₜᵀ vₜ, oₜ = scale qₜ Sₜ, for each head of each sequence.
///
/// | tensor | shape |
/// | --- | --- |
/// | Q, K | \[batch, length, heads, DK\] |
/// | V, O | \[batch, length, heads, DV\] |
/// | decays of heads, f32, optional | \[heads\] |
/// | gates, f32, optional | \[batch, length, heads\] |
/// | gates of channels, f32, optional | \[batch, length, heads, DK\] |
/// | β, f32, optional | \[batch, length, heads\] |
/// | states, f32, optional | \[batch, heads, DK, DV\] |
///
/// - DK and DV are 1 to 256, each; the kernels are made for a DK of 64, 128 and 256 and for a DV in blocks of 64 columns.
/// - α is 1 unless [`decay`](Self::decay) or [`gates`](Self::gates) say otherwise: linear attention (Katharopoulos et al. 2020). With a constant
///   of each head it is retention (Sun et al. 2023), with a gate of each row simple gated linear attention, as in Mamba-2 (Dao & Gu 2024).
///   Both are natural logarithms, at most 0: what is above counts as 0, and below -138 nothing is left, -inf included.
/// - Strides are any. A contiguous head dimension in lines that are aligned to 16 bytes is read by the fast kernels; anything else
///   is correct but slower.
/// - Sums are in f32, and so is the state, which is rounded to `T` where Q multiplies it; so are the scores within a chunk. In f16 a state
///   beyond 65504 is infinite there.
/// - A sequence without rows leaves its state as it was. Without batch or heads nothing is done.
/// - A NaN stays in its sequence and head.
///
/// Rows are taken in chunks of 64: the products of a chunk's rows with each other by their scores, those with what precedes it by the state
/// (Yang et al. 2023). Where there are too few heads for the device, sequences are divided into segments: first the state that each makes
/// of nothing, then the states passed on from one to the next, then all outputs at a time; see [`segments`](Self::segments).
///
/// A call does not wait and allocates no device memory, but for the [`workspace`](Self::workspace) of segments if none was given; it can be
/// captured in a [`Graph`](crate::Graph). What is called again and again is [planned](Self::plan) once, and so are [steps](Self::step_plan).
///
/// ```
/// use tilewright::ops::LinearAttention;
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// // [batch, length, heads, head dimension]
/// let q = Tensor::<f16>::filled(&device, f16::ONE, &[1, 3, 1, 64])?;
/// let mut o = Tensor::<f16>::zeros(&device, &[1, 3, 1, 64])?;
/// // Half of the state is left after each row.
/// let decay = Tensor::<f32>::from_slice(&device, &[0.5f32.ln()], &[1])?;
/// LinearAttention::new().decay(&decay.view()).scale(1.0 / 64.0).run(
///     &device.default_stream(),
///     &q.view(),
///     &q.view(),
///     &q.view(),
///     &mut o.view_mut(),
/// )?;
/// let o = o.to_vec()?;
/// assert_eq!([o[0], o[64], o[128]].map(f16::to_f32), [1.0, 1.5, 1.75]);
/// # Ok(())
/// # }
/// ```
pub struct LinearAttention<'a> {
    options: Options,
    tensors: Tensors<'a>,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Default for LinearAttention<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> LinearAttention<'a> {
    /// Without decays, states and options.
    pub fn new() -> Self {
        LinearAttention {
            options: Options::default(),
            tensors: Tensors::default(),
            workspace: Workspace::Owned(None),
            kernel: None,
            overlap: true,
        }
    }
    /// The factor of Q, above 0 and at most 1e17; 1 / sqrt(DK) unless set.
    pub fn scale(mut self, scale: f32) -> Self {
        self.options.scale = Some(scale);
        self
    }
    /// The logarithm of each head's decay, \[heads\]: retention's are ln(1 - 2^(-5 - i)). It applies at each row, and is added to a row's gate.
    pub fn decay(mut self, decay: &TensorView<'a, f32>) -> Self {
        self.tensors.decay = Some(decay.clone());
        self
    }
    /// The logarithm of each row's decay, \[batch, length, heads\].
    pub fn gates(mut self, gates: &TensorView<'a, f32>) -> Self {
        self.tensors.gates = Some(gates.clone());
        self
    }
    /// The logarithm of each row's decay of each channel of K, \[batch, length, heads, DK\], in place of the others: gated linear attention (Yang et al.
    /// 2023).
    pub fn channel_gates(mut self, gates: &TensorView<'a, f32>) -> Self {
        self.tensors.channel_gates = Some(gates.clone());
        self
    }
    /// The delta rule (Schlag et al. 2021; Yang et al. 2024): v is replaced by β (v - k α Sₜ₋₁), which corrects what the state has for k by a
    /// share of β, \[batch, length, heads\], from 0 to 1 and up to 2 for negative eigenvalues, with keys of length 1. With gates it is the gated
    /// delta rule, with [`channel_gates`](Self::channel_gates) that of Kimi's delta attention, for
    /// which DK is at most 128.
    pub fn delta(mut self, beta: &TensorView<'a, f32>) -> Self {
        self.tensors.beta = Some(beta.clone());
        self
    }
    /// The state before the first row, \[batch, heads, DK, DV\]; zeros unless set.
    pub fn initial_state(mut self, state: &TensorView<'a, f32>) -> Self {
        self.tensors.initial = Some(state.clone());
        self
    }
    /// Where to write the state behind the last row, \[batch, heads, DK, DV\].
    pub fn final_state(mut self, state: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.tensors.last = Some(state.reborrow());
        self
    }
    /// Sequences lie one after the other in the rows of tensors with a batch of 1, as many as `offsets` has elements less one: sequence i is
    /// the rows from `offsets`\[i\] to `offsets`\[i + 1\] (cumulative lengths). They are contiguous, ascend, and are read when the kernel runs. No
    /// sequence has more than `longest` rows. States are \[sequences, heads, DK, DV\].
    ///
    /// Offsets that break this reach no memory outside of the tensors: they are cut off at the tensors' rows, and a sequence whose end is not
    /// behind its begin is empty. Of a sequence with more than `longest` rows the further ones are either computed or left as they were.
    pub fn packed(mut self, offsets: impl Into<Indices<'a>>, longest: usize) -> Self {
        self.tensors.offsets = Some(offsets.into());
        self.options.longest = longest;
        self
    }
    /// Divides each sequence into so many segments, 1 to 1024, that are computed at a time. Unless set, it is chosen so that all SMs have
    /// work.
    pub fn segments(mut self, segments: usize) -> Self {
        self.options.segments = Some(segments);
        self
    }
    /// Memory for the states of segments, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or more; calls on
    /// other streams must not use it meanwhile.
    ///
    /// Without it the first run that needs some allocates it and keeps it for later runs, which wait for each other; it is freed when the
    /// `LinearAttention` is dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        LinearAttention { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        LinearAttention { kernel: Some(name), ..self }
    }
    /// Whether kernels may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. They wait for its results before they read or write memory.
    pub fn overlap(self, overlap: bool) -> Self {
        LinearAttention { overlap, ..self }
    }

    /// The gradients of this linear attention, with its decays, scale, segments, packed sequences and initial state; not of the delta rule. A kernel and a
    /// workspace are not taken over: gradients have their own.
    pub fn gradient(self) -> LinearAttentionGradient<'a> {
        LinearAttentionGradient::new(self)
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: those of the [`plan`](Self::plan).
    pub fn workspace_len<T: HalfElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        Ok(self.plan(q, k, v, o)?.workspace_len())
    }

    /// Every compiled kernel for this type and these options, the best by estimate first, with the reason for those that cannot compute
    /// this.
    pub fn candidates<T: HalfElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Vec<LinearAttentionCandidate>> {
        Ok(Problem::checked(&self.options, &self.tensors, [q, k, v], o)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernels, and how they are launched. The tensors, those
    /// among the options too, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernels, which takes the driver a while the first time.
    pub fn plan<T: HalfElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<LinearAttentionPlan> {
        LinearAttentionPlan::new(self, [q, k, v], o)
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`LinearAttentionPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or an output overlaps another tensor.
    pub fn run<T: HalfElement>(
        &mut self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let plan = self.plan(q, k, v, o)?;
        let tensors = named([q, k, v], o, &self.tensors.others(), None);
        let places = plan.places(stream, tensors, self.workspace.named())?;
        self.workspace.lend(plan.workspace_len(), stream, |address| plan.launch(stream, &places, address))
    }

    /// A plan of [steps](Self::step) for tensors of these shapes, strides and alignments, which runs many times. The tensors, those among the options
    /// too, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn step_plan<T: HalfElement>(
        &self,
        state: &TensorViewMut<'_, f32>,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<LinearAttentionStepPlan> {
        LinearAttentionStepPlan::new(self, [q, k, v], o, state)
    }

    /// Queues one row of each sequence on `stream`, and replaces `state`, \[batch, heads, DK, DV\], by the one behind it: decoding. It is
    /// [`step_plan`](Self::step_plan), and [`LinearAttentionStepPlan::run`].
    ///
    /// Tensors are as for [`run`](Self::run), of a length of 1, and so are gates and β. It takes the time in which the states are read and written.
    /// Without a state that is given by [`initial_state`](Self::initial_state) or [`final_state`](Self::final_state), segments, offsets or a
    /// kernel's name.
    ///
    /// Fails as [`run`](Self::run) does, and where one of those is given.
    pub fn step<T: HalfElement>(
        &self,
        stream: &Stream,
        state: &mut TensorViewMut<'_, f32>,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let plan = self.step_plan(state, q, k, v, o)?;
        plan.queue(stream, named([q, k, v], o, &self.tensors.others(), Some(state)))
    }
}
