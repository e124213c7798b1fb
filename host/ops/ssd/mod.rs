//! Mamba-2's state-space scan, and its step of one token.

mod gradient;
mod launch;
mod plan;
mod problem;
pub(super) mod sequences;
mod step;
mod step_plan;
mod steps;
mod table;
#[cfg(test)]
mod tests;
mod time;

use plan::Others;
use problem::{Problem, Size, blocks_of, check_state, check_time};
use sequences::{Extent, Packed, expect};
use table::Compiled;
use time::Time;

pub use gradient::{SsdGradient, SsdGradientCandidate, SsdGradientPlan};
pub use plan::{SsdPlan, SsdViews};
pub use step::{SsdStep, SsdStepCandidate};
pub use step_plan::{SsdStepPlan, SsdStepViews};

use super::frame::{Candidate, Choice, Operand, Workspace, check};
use super::{FloatElement, HalfElement, Indices};
use crate::tensor::Untyped;
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute a scan, or why it could not.
pub type SsdCandidate = Candidate<Compiled>;

/// The state-space scan of Mamba-2 (SSD; Dao & Gu 2024, "Transformers are SSMs"), forward. For each head of each sequence, with a state H of
/// zeros or an [initial](Self::initial_state) one,
///
/// H\[t\] = exp(dt\[t\] A) H\[t - 1\] + dt\[t\] x\[t\] B\[t\]ᵀ,  y\[t\] = H\[t\] C\[t\] + D x\[t\].
///
/// | tensor | shape | |
/// | --- | --- | --- |
/// | x, y, z | \[batch, length, heads, P\] | f16 or bf16 |
/// | dt | \[batch, length, heads\] | f16, bf16 or f32 |
/// | A, D, dt's bias | \[heads\] | f32 |
/// | B, C | \[batch, length, groups, N\], N 1 to 256 | as x |
/// | states | \[sequences, heads, P, N\] | f32 |
///
/// - Groups divide heads: head h has B and C of group h / (heads / groups).
/// - dt is clamp(softplus(dt + [bias](Self::dt_bias)), [limits](Self::dt_limits)), softplus if [asked for](Self::softplus); it is 0 or more. A is
///   negative where the state is to decay; one that leaves less than 2^-256 in a step leaves nothing.
/// - y is multiplied by silu(z) = z / (1 + e^-z) if there is a [gate](Self::gate).
/// - Strides are any. Contiguous columns in lines that are aligned to 16 bytes are read by the fast kernels; anything else is correct but slower.
///   P is computed in tiles of 64 columns, N in 64, 128 or 256. An N above 128 is
///   for lines that the fast kernels read alone.
/// - Sums and states are of f32; what tensor cores multiply is rounded to the element type: weights within a block of 64 tokens, dt x, and the state
///   between blocks. The result is rounded once more. Of f16 such numbers above 65504 overflow.
/// - A NaN or infinity in x, B or C stays in its sequence; within it, it may reach results up to 63 tokens before it.
/// - A sequence without tokens leaves its state as it was. Without batch, heads or columns nothing is done.
///
/// A kernel walks over blocks of 64 tokens with the state in registers. Where sequences and heads are too few to fill the device, sequences are divided into
/// [chunks](Self::chunk), whose states a second kernel computes and a third one hands on. docs/ssd.md has the whole.
///
/// A call allocates no device memory and does not wait, but for the [`workspace`](Self::workspace) if none was given; it can be captured in a
/// [`Graph`](crate::Graph) with one. The same call gives the same bits. What is called again and again is [planned](Self::plan) once.
///
/// ```no_run
/// use tilewright::ops::Ssd;
/// use tilewright::{Device, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let x = Tensor::<bf16>::zeros(&device, &[2, 4096, 80, 64])?;
/// let dt = Tensor::<bf16>::zeros(&device, &[2, 4096, 80])?;
/// let a = Tensor::<f32>::filled(&device, -1.0, &[80])?;
/// let b = Tensor::<bf16>::zeros(&device, &[2, 4096, 1, 128])?;
/// let c = Tensor::<bf16>::zeros(&device, &[2, 4096, 1, 128])?;
/// let mut y = Tensor::<bf16>::zeros(&device, &[2, 4096, 80, 64])?;
/// let mut state = Tensor::<f32>::zeros(&device, &[2, 80, 64, 128])?;
/// Ssd::new().softplus().final_state(&mut state.view_mut()).run(
///     &device.default_stream(),
///     &x.view(),
///     &dt.view(),
///     &a.view(),
///     [&b.view(), &c.view()],
///     &mut y.view_mut(),
/// )?;
/// # Ok(())
/// # }
/// ```
pub struct Ssd<'a, T> {
    time: Time<'a>,
    z: Option<TensorView<'a, T>>,
    initial: Option<TensorView<'a, f32>>,
    last: Option<TensorViewMut<'a, f32>>,
    packed: Option<Packed<'a>>,
    chunk: Option<usize>,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl<T: HalfElement> Default for Ssd<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T: HalfElement> Ssd<'a, T> {
    /// Without D, gate, bias, softplus, states.
    pub fn new() -> Self {
        Ssd {
            time: Time::NEW,
            z: None,
            initial: None,
            last: None,
            packed: None,
            chunk: None,
            workspace: Workspace::Owned(None),
            kernel: None,
            overlap: true,
        }
    }
    /// D, \[heads\]: what of x is added to y. It is added to the weight of a token for itself, before that is rounded.
    pub fn skip(mut self, d: &TensorView<'a, f32>) -> Self {
        self.time.skip = Some(d.clone());
        self
    }
    /// What is added to dt, \[heads\].
    pub fn dt_bias(mut self, bias: &TensorView<'a, f32>) -> Self {
        self.time.bias = Some(bias.clone());
        self
    }
    /// dt becomes ln(1 + exp(dt + bias)).
    pub fn softplus(mut self) -> Self {
        self.time.softplus = true;
        self
    }
    /// The least and the most that dt is cut off at, behind softplus; 0 and infinity unless set.
    pub fn dt_limits(mut self, least: f32, most: f32) -> Self {
        self.time.limits = [least, most];
        self
    }
    /// z, of the shape of x: y is multiplied by silu(z).
    pub fn gate(self, z: &TensorView<'a, T>) -> Self {
        Ssd { z: Some(z.clone()), ..self }
    }
    /// The states before the first token.
    pub fn initial_state(self, state: &TensorView<'a, f32>) -> Self {
        Ssd { initial: Some(state.clone()), ..self }
    }
    /// Where the states behind the last token are written.
    pub fn final_state(self, state: &'a mut TensorViewMut<'_, f32>) -> Self {
        Ssd { last: Some(state.reborrow()), ..self }
    }
    /// Sequences lie one after the other in the rows of tensors with a batch of 1: sequence i has those from `offsets`\[i\] to
    /// `offsets`\[i + 1\], and a state of its own. Offsets are contiguous, ascend, and are read when the kernels run; no sequence has more
    /// than `longest` rows.
    ///
    /// Offsets that break this reach no memory outside of the tensors: they are cut off at the tensors' rows. Of a sequence with more than `longest` rows those
    /// behind are left as they were, and its final state is that of the `longest` first. Where sequences overlap, each of these rows is what
    /// one of the two gives.
    pub fn packed(self, offsets: impl Into<Indices<'a>>, longest: usize) -> Self {
        Ssd { packed: Some(Packed { offsets: offsets.into(), longest }), ..self }
    }
    /// Divides sequences into chunks of so many tokens, a multiple of 64, that are computed side by side. Unless set, it is chosen so that all SMs
    /// have work; `usize::MAX` / 64 · 64 makes each sequence one chunk.
    pub fn chunk(self, tokens: usize) -> Self {
        Ssd { chunk: Some(tokens), ..self }
    }
    /// Memory for steps of time and chunks' states, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or
    /// more; calls on other streams must not use it meanwhile.
    ///
    /// Without it the first run allocates it and keeps it for later runs, which wait for each other; it is freed when the `Ssd` is dropped, after the last.
    /// That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        Ssd { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces a kernel of the scan by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Ssd { kernel: Some(name), ..self }
    }
    /// Whether kernels may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. They wait for that one's results before they read or write memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Ssd { overlap, ..self }
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: those of the [`plan`](Self::plan).
    pub fn workspace_len<U: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        Ok(self.plan(x, dt, a, bc, y)?.workspace_len())
    }

    /// Every compiled kernel of the scan for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<U: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<SsdCandidate>> {
        Ok(self.problem(x, dt, a, bc, y)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernels, and how they are launched. The tensors, those
    /// among the options too, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernels, which takes the driver a while the first time.
    pub fn plan<U: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
    ) -> Result<SsdPlan> {
        SsdPlan::new(self, x, dt, a, bc, y)
    }

    /// Queues the scan on `stream`: [`plan`](Self::plan), and [`SsdPlan::run`], of x, dt, A, B and C to y.
    ///
    /// Fails when shapes do not fit, a view lies on another device, or what is written overlaps another tensor.
    pub fn run<U: FloatElement>(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let plan = self.plan(x, dt, a, bc, y)?;
        let tensors = plan::named(x, dt, a, bc, y, &self.others());
        let places = plan.places(stream, tensors, self.workspace.named())?;
        self.workspace.lend(plan.workspace_len(), stream, |address| plan.launch(stream, &places, address))
    }

    /// The tensors of the call beside x, dt, A, B, C and y.
    fn others(&self) -> Others<'_, T> {
        Others {
            z: self.z.as_ref(),
            bias: self.time.bias.as_ref(),
            skip: self.time.skip.as_ref(),
            initial: self.initial.as_ref(),
            last: self.last.as_ref(),
            offsets: self.packed.as_ref().map(|packed| &packed.offsets),
        }
    }

    /// Checks the arguments.
    fn problem<U: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        [b, c]: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
    ) -> Result<Problem> {
        let size = Size::new(x.shape(), b.shape(), c.shape())?;
        check_time(&self.time, dt.shape(), a.shape(), x.shape())?;
        expect("y", y.shape(), x.shape(), "that of `x`")?;
        let z = self.z.as_ref();
        z.map_or(Ok(()), |z| expect("z", z.shape(), x.shape(), "that of `x`"))?;
        let extent = Extent::new(self.packed.as_ref(), [size.matrices, size.rows])?;
        let state = [extent.count, size.heads, size.p, size.n];
        let (initial, last) = (self.initial.as_ref(), self.last.as_ref());
        check_state("initial_state", initial.map(TensorView::shape), state)?;
        check_state("final_state", last.map(TensorViewMut::shape), state)?;
        let blocks = blocks_of(self.chunk, size.rows)?;
        check(y.device(), plan::named(x, dt, a, [b, c], y, &self.others()).into_iter().flatten())?;
        // Kernels see \[batch, heads or groups, length, columns\].
        let by_head = |of: Untyped| Ok::<_, Error>(Untyped { layout: of.layout.transpose(1, 2)?, ..of });
        let inputs = [by_head(x.untyped())?, by_head(b.untyped())?, by_head(c.untyped())?];
        let operand = |name, i: usize, line| {
            let reading = inputs[i].reading(y.device().backend(), true)?;
            Ok::<_, Error>(Operand { name, reading, row_major: true, line })
        };
        Ok(Problem {
            device: y.device().clone(),
            size,
            extent,
            inputs,
            operands: [operand("x", 0, size.p)?, operand("B", 1, size.n)?, operand("C", 2, size.n)?],
            dt: dt.untyped(),
            decay: a.untyped(),
            time: self.time.told(),
            z: z.map(|z| by_head(z.untyped())).transpose()?,
            y: by_head(y.untyped())?,
            initial: initial.map(TensorView::untyped),
            last: last.map(TensorViewMut::untyped),
            blocks,
            kernels: table::kernels(T::DTYPE.name()),
        })
    }
}
