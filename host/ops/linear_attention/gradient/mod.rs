//! The gradients of linear attention.

mod choose;
mod launch;
mod problem;

use choose::Compiled;
use problem::GradientProblem;

use super::LinearAttention;
use super::problem::{Options, Tensors};
use crate::ops::HalfElement;
use crate::ops::frame::{Candidate, Choice, Plan, Workspace};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute the states of a gradient, or why it could not.
pub type LinearAttentionGradientCandidate = Candidate<Compiled>;
/// The kernel that computes the states of a gradient, and why it was chosen.
pub type LinearAttentionGradientPlan = Plan<Compiled>;

/// The gradients of [`LinearAttention`] by Q, K, V, gates and the initial state, given those by O and the final state. [`LinearAttention::gradient`] makes it.
///
/// | tensor | shape |
/// | --- | --- |
/// | Q, K, dQ, dK | \[batch, length, heads, DK\] |
/// | V, dO, dV | \[batch, length, heads, DV\] |
/// | gradients of decays of heads, f32, optional | \[heads\] |
/// | gradients of gates, f32, optional | \[batch, length, heads\], of channels \[batch, length, heads, DK\] |
/// | gradients of states, f32, optional | \[batch, heads, DK, DV\] |
///
/// - Without decays, with those of heads, of rows and of channels; the delta rule has none. DK and DV as there.
/// - O is not needed: states are computed once more, one for each chunk of 64 rows, from its first to its last, and the gradients by states from the
///   last to the first. The gradients of all chunks then follow at a time (Yang et al. 2023). Where there are too few heads for the device, or
///   [`segments`](LinearAttention::segments) are asked for, both ways are divided, as there.
/// - Sums are in f32. Rounded to the element type are scores, their gradients, decayed rows, and states and their gradients where they are multiplied: in
///   f16 one beyond 65504 is infinite there, so that losses are scaled with care.
/// - The gradient by a gate is that by the logarithm which was given. It is summed up over pairs of rows on both of its sides, within a chunk at most: where
///   decays are strong it is as exact as where they are weak. That of a gate above 0, which counts as 0, is 0.
/// - Any strides, as there; a contiguous head dimension in lines that are aligned to 16 bytes is read fast.
/// - A sequence without rows has the final state's gradient by its initial state. Without batch or heads nothing is done.
/// - A NaN stays in its sequence and head.
///
/// A call does not wait and allocates no device memory, but for the [`workspace`](Self::workspace) if none was given; it can be captured in a
/// [`Graph`](crate::Graph). The same call gives the same bits.
///
/// ```
/// use tilewright::ops::LinearAttention;
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// // [batch, length, heads, head dimension]
/// let one = Tensor::<f16>::filled(&device, f16::ONE, &[1, 3, 1, 64])?;
/// let zeros = || Tensor::<f16>::zeros(&device, &[1, 3, 1, 64]);
/// let (mut d_q, mut d_k, mut d_v) = (zeros()?, zeros()?, zeros()?);
/// // Half of the state is left after each row.
/// let decay = Tensor::<f32>::from_slice(&device, &[0.5f32.ln()], &[1])?;
/// LinearAttention::new().decay(&decay.view()).scale(1.0 / 64.0).gradient().run(
///     &device.default_stream(),
///     [&one.view(), &one.view(), &one.view()],
///     &one.view(),
///     [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()],
/// )?;
/// // A query meets the keys before it, a value the queries behind it.
/// let (d_q, d_v) = (d_q.to_vec()?, d_v.to_vec()?);
/// assert_eq!([d_q[0], d_q[64], d_q[128]].map(f16::to_f32), [1.0, 1.5, 1.75]);
/// assert_eq!([d_v[0], d_v[64], d_v[128]].map(f16::to_f32), [1.75, 1.5, 1.0]);
/// # Ok(())
/// # }
/// ```
pub struct LinearAttentionGradient<'a> {
    options: Options,
    tensors: Tensors<'a>,
    gradients: Gradients<'a>,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
}

/// Gradients beside those by Q, K, V and O.
#[derive(Default)]
struct Gradients<'a> {
    last: Option<TensorView<'a, f32>>,
    initial: Option<TensorViewMut<'a, f32>>,
    gates: Option<TensorViewMut<'a, f32>>,
    decay: Option<TensorViewMut<'a, f32>>,
}

impl<'a> LinearAttentionGradient<'a> {
    pub(super) fn new(of: LinearAttention<'a>) -> Self {
        let LinearAttention { options, tensors, .. } = of;
        let (gradients, workspace) = (Gradients::default(), Workspace::Owned(None));
        LinearAttentionGradient { options, tensors, gradients, workspace, kernel: None }
    }
    /// The gradient by the state behind the last row, \[batch, heads, DK, DV\]; zeros unless set.
    pub fn d_final_state(mut self, gradient: &TensorView<'a, f32>) -> Self {
        self.gradients.last = Some(gradient.clone());
        self
    }
    /// Where to write the gradient by the state before the first row, \[batch, heads, DK, DV\].
    pub fn d_initial_state(mut self, gradient: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.gradients.initial = Some(gradient.reborrow());
        self
    }
    /// Where to write the gradient by the logarithm of each row's decay, \[batch, length, heads\], or with
    /// [`channel_gates`](LinearAttention::channel_gates) \[batch, length, heads, DK\].
    ///
    /// Without gates too.
    pub fn d_gates(mut self, gradient: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.gradients.gates = Some(gradient.reborrow());
        self
    }
    /// Where to write the gradient by the logarithm of each head's decay, \[heads\]: the sum of its rows' over batch and length. Not with
    /// [`channel_gates`](LinearAttention::channel_gates).
    pub fn d_decay(mut self, gradient: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.gradients.decay = Some(gradient.reborrow());
        self
    }
    /// Memory for the states of chunks, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or more; calls on
    /// other streams must not use it meanwhile.
    ///
    /// Without it the first run allocates it and keeps it for later runs, which wait for each other; it is freed when the
    /// `LinearAttentionGradient` is dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        LinearAttentionGradient { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces the kernel of states by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        LinearAttentionGradient { kernel: Some(name), ..self }
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: for two states of `T` for each chunk, and with gates of channels for
    /// what is prepared of Q and K.
    pub fn workspace_len<T: HalfElement>(
        &self,
        inputs: [&TensorView<'_, T>; 3],
        d_o: &TensorView<'_, T>,
        outputs: [&TensorViewMut<'_, T>; 3],
    ) -> Result<usize> {
        let problem = self.problem(inputs, d_o, outputs)?;
        if problem.is_empty() {
            return Ok(0);
        }
        Ok(problem.lies(problem.choose(self.kernel)?.descriptor()).len)
    }

    /// Every compiled kernel of states for this type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: HalfElement>(
        &self,
        inputs: [&TensorView<'_, T>; 3],
        d_o: &TensorView<'_, T>,
        outputs: [&TensorViewMut<'_, T>; 3],
    ) -> Result<Vec<LinearAttentionGradientCandidate>> {
        Ok(self.problem(inputs, d_o, outputs)?.candidates())
    }

    /// The kernel of states that [`run`](Self::run) would launch, in front of the one of gradients, and why.
    pub fn plan<T: HalfElement>(
        &self,
        inputs: [&TensorView<'_, T>; 3],
        d_o: &TensorView<'_, T>,
        outputs: [&TensorViewMut<'_, T>; 3],
    ) -> Result<LinearAttentionGradientPlan> {
        self.problem(inputs, d_o, outputs)?.choose(self.kernel)
    }

    /// Queues it on `stream`: the gradients by Q, K and V, `outputs`, of these three, `inputs`, and the gradient by O.
    ///
    /// Fails when the views do not fit together, lie on another device, what is written overlaps another tensor, or the delta rule or a final state were
    /// asked for.
    pub fn run<T: HalfElement>(
        &mut self,
        stream: &Stream,
        inputs: [&TensorView<'_, T>; 3],
        d_o: &TensorView<'_, T>,
        outputs: [&mut TensorViewMut<'_, T>; 3],
    ) -> Result<()> {
        let problem = self.problem(inputs, d_o, outputs.each_ref().map(|output| &**output))?;
        stream.expect_on(&problem.of.device)?;
        if problem.is_empty() {
            return Ok(());
        }
        let kernel = problem.choose(self.kernel)?.descriptor();
        let len = problem.lies(kernel).len;
        let address = self.workspace.of(len, stream)?;
        // SAFETY: the views that the problem comes from are borrowed by the caller or by this operator, exclusively where they are written; the workspace
        // has the elements that the kernel needs.
        let launched = unsafe { problem.launch(stream, kernel, address) };
        // Some launches may have come before one that failed.
        launched.and(self.workspace.used(len, stream))
    }

    fn problem<T: HalfElement>(
        &self,
        inputs: [&TensorView<'_, T>; 3],
        d_o: &TensorView<'_, T>,
        outputs: [&TensorViewMut<'_, T>; 3],
    ) -> Result<GradientProblem> {
        GradientProblem::new(self, inputs, d_o, outputs)
    }
}
