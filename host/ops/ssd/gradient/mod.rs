//! The gradients of Mamba-2's scan.

mod choose;
mod launch;
mod problem;
mod room;
#[cfg(test)]
mod tests;

use choose::Compiled;
use launch::Run;
use problem::{Given, Problem, Wanted};
use room::Room;

use super::sequences::Packed;
use super::time::Time;
use crate::ops::frame::{Candidate, Choice, Plan, Workspace};
use crate::ops::{FloatElement, HalfElement, Indices};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute the gradients of a scan, or why it could not.
pub type SsdGradientCandidate = Candidate<Compiled>;
/// The kernel that computes the gradients of a scan, and why it was chosen.
pub type SsdGradientPlan = Plan<Compiled>;

/// The gradients of [`Ssd`](super::Ssd) by all that it takes, given dy, that by its result.
///
/// The tensors and the options are the scan's: they say what was computed. Each gradient is written where a method says so, and has the shape of what it is the
/// gradient by; what nobody asks for is left out where that saves a kernel.
///
/// | gradient | shape | |
/// | --- | --- | --- |
/// | [`dx`](Self::dx), [`d_gate`](Self::d_gate), dy | \[batch, length, heads, P\] | as x |
/// | [`d_dt`](Self::d_dt) | \[batch, length, heads\] | as dt |
/// | [`d_b`](Self::d_b), [`d_c`](Self::d_c) | \[batch, length, groups, N\], N 1 to 256 | as x |
/// | [`d_a`](Self::d_a), [`d_skip`](Self::d_skip), [`d_dt_bias`](Self::d_dt_bias) | \[heads\] | f32 |
/// | [`d_initial_state`](Self::d_initial_state), [`d_final_state`](Self::d_final_state) | \[sequences, heads, P, N\] | f32 |
///
/// With G the gradient by the state, which goes from the last token to the first as the state does from the first to the last,
///
/// G\[t\] = exp(dt\[t + 1\] A) G\[t + 1\] + dy\[t\] C\[t\]ᵀ,  dx\[t\] = dt\[t\] G\[t\] B\[t\] + D dy\[t\],  dB\[t\] = dt\[t\] G\[t\]ᵀ x\[t\],  dC\[t\] = H\[t\]ᵀ dy\[t\],
///
/// the last two summed over the heads of a group; the gradient by dt\[t\] A is exp(dt\[t\] A) <G\[t\], H\[t - 1\]>.
///
/// - Nothing of the forward pass is kept: states are computed once more. The last one's gradient is taken from [`d_final_state`](Self::d_final_state), zeros unless given.
/// - dt's gradient is that by what was given for it: through bias, softplus and limits. Where it was cut off at a limit, it is zero.
/// - With a gate dy is the gradient by the gated result. What goes to the scan of it, dy silu(z), is rounded to the element type.
/// - Sums, states and G are of f32; what tensor cores multiply is rounded to the element type, as in the scan. The gradients by dt and A are sums of f32 over pairs of tokens,
///   without differences of large numbers: they are as exact where decays are strong or none.
/// - Strides are any; contiguous columns in lines that are aligned to 16 bytes are read by the fast kernels, and an N above
///   128 by them alone.
/// - A NaN or infinity stays in its sequence, but for the gradients by A, D and the bias, and within it in its heads' group.
/// - A sequence without tokens: the gradient by its state is that of the last one. Without batch, heads or columns nothing is done.
///
/// States before each block of 64 tokens, and gradients behind each, are written to the workspace, together N / 32 times the size of x; then all blocks are computed
/// side by side, and heads of a group one after the other, so that dB and dC are sums in registers. docs/ssd.md has the whole.
///
/// A call allocates no device memory and does not wait, but for the [`workspace`](Self::workspace) if none was given; it can be captured in a
/// [`Graph`](crate::Graph) with one. The same call gives the same bits on the same kind of device: there are no atomic additions.
///
/// ```no_run
/// use tilewright::ops::SsdGradient;
/// use tilewright::{Device, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let x = Tensor::<bf16>::zeros(&device, &[2, 4096, 80, 64])?;
/// let dt = Tensor::<bf16>::zeros(&device, &[2, 4096, 80])?;
/// let a = Tensor::<f32>::filled(&device, -1.0, &[80])?;
/// let b = Tensor::<bf16>::zeros(&device, &[2, 4096, 1, 128])?;
/// let c = Tensor::<bf16>::zeros(&device, &[2, 4096, 1, 128])?;
/// let dy = Tensor::<bf16>::zeros(&device, &[2, 4096, 80, 64])?;
/// let (mut dx, mut d_dt) = (Tensor::zeros(&device, x.shape())?, Tensor::zeros(&device, dt.shape())?);
/// let (mut d_b, mut d_c) = (Tensor::zeros(&device, b.shape())?, Tensor::zeros(&device, c.shape())?);
/// let mut d_a = Tensor::zeros(&device, &[80])?;
/// SsdGradient::new()
///     .softplus()
///     .dx(&mut dx.view_mut())
///     .d_dt(&mut d_dt.view_mut())
///     .d_a(&mut d_a.view_mut())
///     .d_b(&mut d_b.view_mut())
///     .d_c(&mut d_c.view_mut())
///     .run(&device.default_stream(), &x.view(), &dt.view(), &a.view(), [&b.view(), &c.view()], &dy.view())?;
/// # Ok(())
/// # }
/// ```
pub struct SsdGradient<'a, T, U = T> {
    time: Time<'a>,
    z: Option<TensorView<'a, T>>,
    initial: Option<TensorView<'a, f32>>,
    d_last: Option<TensorView<'a, f32>>,
    packed: Option<Packed<'a>>,
    chunk: Option<usize>,
    wanted: Wanted<'a, T, U>,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl<T: HalfElement, U: FloatElement> Default for SsdGradient<'_, T, U> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T: HalfElement, U: FloatElement> SsdGradient<'a, T, U> {
    /// Of a scan without D, gate, bias, softplus, states.
    pub fn new() -> Self {
        SsdGradient {
            time: Time::NEW,
            z: None,
            initial: None,
            d_last: None,
            packed: None,
            chunk: None,
            wanted: Wanted::none(),
            workspace: Workspace::Owned(None),
            kernel: None,
            overlap: true,
        }
    }
    /// D, \[heads\]. Without it there is none, and its gradient is that at zeros.
    pub fn skip(mut self, d: &TensorView<'a, f32>) -> Self {
        self.time.skip = Some(d.clone());
        self
    }
    /// What was added to dt, \[heads\]. Without it its gradient is that at zeros.
    pub fn dt_bias(mut self, bias: &TensorView<'a, f32>) -> Self {
        self.time.bias = Some(bias.clone());
        self
    }
    /// dt became ln(1 + exp(dt + bias)).
    pub fn softplus(mut self) -> Self {
        self.time.softplus = true;
        self
    }
    /// The least and the most that dt was cut off at: see [`Ssd::dt_limits`](super::Ssd::dt_limits).
    pub fn dt_limits(mut self, least: f32, most: f32) -> Self {
        self.time.limits = [least, most];
        self
    }
    /// z: y was multiplied by silu(z).
    pub fn gate(self, z: &TensorView<'a, T>) -> Self {
        SsdGradient { z: Some(z.clone()), ..self }
    }
    /// The states before the first token; zeros without.
    pub fn initial_state(self, state: &TensorView<'a, f32>) -> Self {
        SsdGradient { initial: Some(state.clone()), ..self }
    }
    /// The gradient by the states behind the last token; zeros without.
    pub fn d_final_state(self, d_state: &TensorView<'a, f32>) -> Self {
        SsdGradient { d_last: Some(d_state.clone()), ..self }
    }
    /// Sequences lie one after the other: see [`Ssd::packed`](super::Ssd::packed). Rows that are in no sequence are left as they were.
    pub fn packed(self, offsets: impl Into<Indices<'a>>, longest: usize) -> Self {
        SsdGradient { packed: Some(Packed { offsets: offsets.into(), longest }), ..self }
    }

    /// Where to write the gradient by x.
    pub fn dx(mut self, dx: &'a mut TensorViewMut<'_, T>) -> Self {
        self.wanted.x = Some(dx.reborrow());
        self
    }
    /// Where to write the gradient by dt as it is given.
    pub fn d_dt(mut self, d_dt: &'a mut TensorViewMut<'_, U>) -> Self {
        self.wanted.dt = Some(d_dt.reborrow());
        self
    }
    /// Where to write the gradient by A.
    pub fn d_a(mut self, d_a: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.wanted.a = Some(d_a.reborrow());
        self
    }
    /// Where to write the gradient by B.
    pub fn d_b(mut self, d_b: &'a mut TensorViewMut<'_, T>) -> Self {
        self.wanted.b = Some(d_b.reborrow());
        self
    }
    /// Where to write the gradient by C.
    pub fn d_c(mut self, d_c: &'a mut TensorViewMut<'_, T>) -> Self {
        self.wanted.c = Some(d_c.reborrow());
        self
    }
    /// Where to write the gradient by D.
    pub fn d_skip(mut self, d_skip: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.wanted.skip = Some(d_skip.reborrow());
        self
    }
    /// Where to write the gradient by z, of a scan with a [gate](Self::gate).
    pub fn d_gate(mut self, d_gate: &'a mut TensorViewMut<'_, T>) -> Self {
        self.wanted.z = Some(d_gate.reborrow());
        self
    }
    /// Where to write the gradient by what was added to dt.
    pub fn d_dt_bias(mut self, d_bias: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.wanted.bias = Some(d_bias.reborrow());
        self
    }
    /// Where to write the gradient by the states before the first token.
    pub fn d_initial_state(mut self, d_state: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.wanted.initial = Some(d_state.reborrow());
        self
    }

    /// Divides sequences into chunks of so many tokens, a multiple of 64, whose states are computed side by side. Unless set, it is chosen so that all SMs have work;
    /// `usize::MAX` / 64 · 64 makes each sequence one chunk.
    pub fn chunk(self, tokens: usize) -> Self {
        SsdGradient { chunk: Some(tokens), ..self }
    }
    /// Memory for steps, states and sums, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or more; calls on other
    /// streams must not use it meanwhile.
    ///
    /// Without it the first run allocates it and keeps it for later runs, which wait for each other; it is freed when the `SsdGradient` is dropped,
    /// after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        SsdGradient { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces a kernel of the gradients by B and x by its name, and those that go with it; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        SsdGradient { kernel: Some(name), ..self }
    }
    /// Whether kernels may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. They wait for that one's results before they read or write memory.
    pub fn overlap(self, overlap: bool) -> Self {
        SsdGradient { overlap, ..self }
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs.
    pub fn workspace_len(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        dy: &TensorView<'_, T>,
    ) -> Result<usize> {
        let problem = self.problem(x, dt, a, bc, dy)?;
        let kernel = problem.choose(self.kernel)?.descriptor();
        Ok(Room::new(&problem, kernel, &problem.shares(kernel))?.all)
    }

    /// Every compiled kernel of the gradients by B and x for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        dy: &TensorView<'_, T>,
    ) -> Result<Vec<SsdGradientCandidate>> {
        Ok(self.problem(x, dt, a, bc, dy)?.candidates())
    }

    /// The kernel of the gradients by B and x that [`run`](Self::run) would launch, and why.
    pub fn plan(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        dy: &TensorView<'_, T>,
    ) -> Result<SsdGradientPlan> {
        self.problem(x, dt, a, bc, dy)?.choose(self.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, a view lies on another device, what is written overlaps another tensor, or the gradient by a gate is wanted that there is not.
    pub fn run(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        dy: &TensorView<'_, T>,
    ) -> Result<()> {
        let problem = self.problem(x, dt, a, bc, dy)?;
        stream.expect_on(&problem.device)?;
        if problem.is_empty() {
            return Ok(());
        }
        let kernel = problem.choose(self.kernel)?.descriptor();
        let shares = problem.shares(kernel);
        let room = Room::new(&problem, kernel, &shares)?;
        let workspace = self.workspace.of(room.all, stream)?;
        let overlap = self.overlap;
        let launched = Run { problem: &problem, kernel, shares, room, workspace, overlap, stream }.all();
        // Some launches may have come before one that failed.
        launched.and(self.workspace.used(room.all, stream))
    }

    /// Checks the arguments.
    fn problem(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        [b, c]: [&TensorView<'_, T>; 2],
        dy: &TensorView<'_, T>,
    ) -> Result<Problem> {
        let (z, packed) = (self.z.as_ref(), self.packed.as_ref());
        let (initial, d_last) = (self.initial.as_ref(), self.d_last.as_ref());
        let given = Given { x, dt, a, b, c, dy, z, initial, d_last, packed, time: &self.time };
        Problem::new(given, &self.wanted, self.chunk, self.workspace.named())
    }
}
