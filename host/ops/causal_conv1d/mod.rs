//! The depthwise causal convolution of sequences: y\[t\] = act(bias + Σ w\[width - 1 - k\] x\[t - k\]).

mod choose;
mod gradient;
mod plan;

use std::sync::LazyLock;

use tilewright_ssd::CONV;

use self::choose::{Compiled, Problem};
use self::plan::Others;
use super::frame::{Candidate, Choice, Table, check, of_shape};
use super::ssd::sequences::{Extent, Packed, expect};
use super::{FloatElement, Indices};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

pub use gradient::CausalConv1dGradient;
pub use plan::{CausalConv1dPlan, CausalConv1dViews};

/// A kernel that could compute a causal convolution, or why it could not.
pub type CausalConv1dCandidate = Candidate<Compiled>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(CONV.iter().map(|k| (k.element, *k))));

/// y\[t\] = Σ w\[width - 1 - k\] x\[t - k\], channel by channel: see [`CausalConv1d`].
pub fn causal_conv1d<T: FloatElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    w: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    CausalConv1d::new().run(stream, x, w, y)
}

/// y\[t\] = act(bias + Σ w\[width - 1 - k\] x\[t - k\]) over 0 <= k < width, channel by channel: the depthwise causal convolution that Mamba puts
/// before its scan (Gu & Dao 2023), and its step of one token.
///
/// | tensor | shape |
/// | --- | --- |
/// | x and y | \[batch, length, channels\] |
/// | w | \[channels, width\], width 1 to 8; the last weighs the token itself |
/// | bias, optional | \[channels\] |
/// | states, optional | \[sequences, channels, width - 1\]: the inputs before a sequence, the latest last |
///
/// - f16, bf16 and f32 in and out; sums in f32; the result is rounded once, to nearest even. What precedes a sequence is zeros unless a state
///   says otherwise.
/// - Strides are any; channels that are contiguous in lines aligned to 16 bytes are read 16 bytes at a time.
/// - A sequence without tokens leaves its state as it was: the final one is the initial one. Without batch or channels nothing is done.
///
/// Each input is read from memory once. A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call
/// gives the same bits. What is called again and again is [planned](Self::plan) once.
///
/// ```
/// use tilewright::ops::CausalConv1d;
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[1.0, 2.0, 3.0], &[1, 3, 1])?;
/// let w = Tensor::<f32>::from_slice(&device, &[10.0, 1.0], &[1, 2])?;
/// let mut y = Tensor::<f32>::zeros(&device, &[1, 3, 1])?;
/// CausalConv1d::new().run(&device.default_stream(), &x.view(), &w.view(), &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [1.0, 12.0, 23.0]);
/// # Ok(())
/// # }
/// ```
pub struct CausalConv1d<'a, T> {
    bias: Option<TensorView<'a, T>>,
    silu: bool,
    initial: Option<TensorView<'a, T>>,
    last: Option<TensorViewMut<'a, T>>,
    state: Option<TensorViewMut<'a, T>>,
    packed: Option<Packed<'a>>,
    kernel: Option<&'a str>,
}

impl<T: FloatElement> Default for CausalConv1d<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T: FloatElement> CausalConv1d<'a, T> {
    /// Without a bias, an activation, states.
    pub fn new() -> Self {
        CausalConv1d {
            bias: None,
            silu: false,
            initial: None,
            last: None,
            state: None,
            packed: None,
            kernel: None,
        }
    }
    /// What is added to each channel's sums, \[channels\].
    pub fn bias(self, bias: &TensorView<'a, T>) -> Self {
        CausalConv1d { bias: Some(bias.clone()), ..self }
    }
    /// y = s / (1 + e^-s) of the sums s.
    pub fn silu(self) -> Self {
        CausalConv1d { silu: true, ..self }
    }
    /// The inputs before each sequence.
    pub fn initial_state(self, state: &TensorView<'a, T>) -> Self {
        CausalConv1d { initial: Some(state.clone()), ..self }
    }
    /// Where the last inputs of each sequence are written: the initial state of what follows it.
    pub fn final_state(self, state: &'a mut TensorViewMut<'_, T>) -> Self {
        CausalConv1d { last: Some(state.reborrow()), ..self }
    }
    /// Initial and final state in one place.
    pub fn state(self, state: &'a mut TensorViewMut<'_, T>) -> Self {
        CausalConv1d { state: Some(state.reborrow()), ..self }
    }
    /// Sequences lie one after the other in the rows of an x and y with a batch of 1: sequence i has those from `offsets`\[i\] to
    /// `offsets`\[i + 1\]. Offsets are contiguous, ascend, and are read when the kernel runs; no sequence has more than `longest` rows.
    ///
    /// Offsets that break this reach no memory outside of the tensors: they are cut off at the tensors' rows. Of a sequence with more than `longest` rows those
    /// behind are left as they were, and its final state is that of the `longest` first.
    pub fn packed(self, offsets: impl Into<Indices<'a>>, longest: usize) -> Self {
        CausalConv1d { packed: Some(Packed { offsets: offsets.into(), longest }), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        CausalConv1d { kernel: Some(name), ..self }
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates(
        &self,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<CausalConv1dCandidate>> {
        Ok(self.problem(x, w, y)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors, those
    /// among the options too, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time. A [step](Self::step) is planned as a length of 1 with a
    /// [state](Self::state).
    pub fn plan(
        &self,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<CausalConv1dPlan> {
        CausalConv1dPlan::new(self, x, w, y)
    }

    /// One token of each sequence: x and y \[batch, channels\], with the state in place, \[batch, channels, width - 1\].
    ///
    /// Fails as [`run`](Self::run), and when another state or packed sequences were asked for.
    pub fn step(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
        state: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let others = [
            ("initial_state", self.initial.is_some()),
            ("final_state", self.last.is_some()),
            ("state", self.state.is_some()),
            ("offsets", self.packed.is_some()),
        ];
        if let Some((name, _)) = others.into_iter().find(|(_, given)| *given) {
            return Err(Error::argument(
                name,
                "given for a step",
                "left out: a step has one token and its own state",
            ));
        }
        for (name, shape) in [("x", x.shape()), ("y", y.shape())] {
            if shape.len() != 2 {
                return Err(Error::argument(name, of_shape(shape), "of 2 dimensions: batch, channels"));
            }
        }
        let (x, mut y) = (x.clone().insert_dim(1)?, y.reborrow().insert_dim(1)?);
        let (bias, silu, kernel) = (self.bias.clone(), self.silu, self.kernel);
        CausalConv1d { bias, silu, kernel, ..CausalConv1d::new() }.state(state).run(stream, &x, w, &mut y)
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`CausalConv1dPlan::run`].
    ///
    /// Fails when shapes do not fit, a view lies on another device, or what is written overlaps another tensor.
    pub fn run(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(x, w, y)?.queue(stream, plan::named([x, w], y, &self.others()))
    }

    /// The tensors of the call beside x, w and y.
    fn others(&self) -> Others<'_, T> {
        let CausalConv1d { bias, initial, last, state, packed, .. } = self;
        Others {
            bias: bias.as_ref(),
            initial: initial.as_ref(),
            last: last.as_ref(),
            state: state.as_ref(),
            offsets: packed.as_ref().map(|packed| &packed.offsets),
        }
    }

    /// Checks the arguments.
    fn problem(
        &self,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Problem> {
        let &[matrices, rows, channels] = x.shape() else {
            return Err(Error::argument(
                "x",
                of_shape(x.shape()),
                "of 3 dimensions: batch, length, channels",
            ));
        };
        let width = Problem::width(w.shape(), channels)?;
        expect("y", y.shape(), x.shape(), "that of `x`")?;
        let bias = self.bias.as_ref();
        if let Some(bias) = bias {
            expect("bias", bias.shape(), &[channels], "the channels of `x`")?;
        }
        let extent = Extent::new(self.packed.as_ref(), [matrices, rows])?;
        let (initial, last, state) = (self.initial.as_ref(), self.last.as_ref(), self.state.as_ref());
        if let Some((name, _)) = [("initial_state", initial.is_some()), ("final_state", last.is_some())]
            .into_iter()
            .find(|(_, given)| *given && state.is_some())
        {
            return Err(Error::argument(name, "given beside `state`", "left out: `state` is both"));
        }
        let shapes = [
            ("initial_state", initial.map(TensorView::shape)),
            ("final_state", last.map(TensorViewMut::shape)),
            ("state", state.map(TensorViewMut::shape)),
        ];
        for (name, shape) in shapes {
            let want = [extent.count, channels, width - 1];
            shape.map_or(Ok(()), |shape| expect(name, shape, &want, "sequences, channels and width - 1"))?;
        }
        check(y.device(), plan::named([x, w], y, &self.others()).into_iter().flatten())?;
        let kernels = TABLE.kernels(&T::DTYPE.name());
        Ok(Problem { device: y.device().clone(), extent, channels, width, element: T::DTYPE.name(), kernels })
    }
}
