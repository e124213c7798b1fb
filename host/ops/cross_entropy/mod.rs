//! Cross-entropy of rows of logits, and its gradient.

mod plan;
mod problem;

use std::sync::LazyLock;

use tilewright_rows::CROSS_ENTROPY;

pub use plan::CrossEntropyPlan;
use problem::Problem;

use super::IndexElement;
use super::frame::{Candidate, Choice, Table};
use super::rows::{Compiled, FloatElement};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute a cross-entropy, or why it could not.
pub type CrossEntropyCandidate = Candidate<Compiled>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(CROSS_ENTROPY.iter().map(|k| (k.element, *k))));

/// loss = log Σ exp x - x\[label\] of every row of the logits, and its gradient: see [`CrossEntropy`].
pub fn cross_entropy<T: FloatElement, I: IndexElement>(
    stream: &Stream,
    logits: &TensorView<'_, T>,
    labels: &TensorView<'_, I>,
    loss: &mut TensorViewMut<'_, f32>,
    gradient: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    CrossEntropy::new().run_with_gradient(stream, logits, labels, loss, gradient)
}

/// loss = (1 - s) (L - x\[label\]) + s (L - mean of x) + z L², where L = log Σ exp x, of every row x of the logits, and its gradient by x, in one
/// pass over the logits.
///
/// - logits, and the gradient if it is asked for, have one shape, of 1 to 5 dimensions, each with any strides: rows are those of the last
///   dimension, of any length. labels (i32, u32 or i64) and loss (f32) have that shape without the last dimension.
/// - f16, bf16 and f32 logits and gradient; loss and statistics in f32. The gradient is rounded once, to nearest even, after it is multiplied by
///   the [scale](Self::scale).
/// - A row whose label is the [ignored](Self::ignored) one has loss 0 and gradient 0, whatever its logits are.
/// - A row with any other label that is negative or not below the row's length has loss NaN and a gradient of NaN: nothing is read
///   out of bounds.
/// - A row with a NaN or +inf has loss and gradient NaN. A logit of -inf has probability 0; with smoothing its row's loss is infinite. A row
///   that is all -inf has no probabilities, and the loss +inf.
/// - No rows, or rows without elements: nothing is done.
/// - Rows that are aligned to 16 bytes and multiples of that long are read once, if they have at most 16384 elements or, on Hopper, 262144;
///   so are, on Hopper, rows of up to 57337 elements (f32 57341) of contiguous, aligned tensors. All others are correct but slower.
///
/// A call allocates no device memory and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits. What is
/// called again and again is [planned](Self::plan) once.
///
/// ```
/// use tilewright::ops::CrossEntropy;
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let logits = Tensor::<f32>::from_slice(&device, &[1.0, 1.0, 5.0, 7.0], &[2, 2])?;
/// let labels = Tensor::<i32>::from_slice(&device, &[1, -100], &[2])?;
/// let mut loss = Tensor::<f32>::zeros(&device, &[2])?;
/// let mut gradient = Tensor::<f32>::zeros(&device, &[2, 2])?;
/// CrossEntropy::new().run_with_gradient(
///     &device.default_stream(),
///     &logits.view(),
///     &labels.view(),
///     &mut loss.view_mut(),
///     &mut gradient.view_mut(),
/// )?;
/// assert!((loss.to_vec()?[0] - 2f32.ln()).abs() < 1e-6 && loss.to_vec()?[1] == 0.0);
/// assert_eq!(gradient.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy<'a> {
    ignored: i32,
    smoothing: f32,
    z_loss: f32,
    scale: f32,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Default for CrossEntropy<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> CrossEntropy<'a> {
    /// loss = log Σ exp x - x\[label\].
    pub fn new() -> Self {
        CrossEntropy { ignored: -100, smoothing: 0.0, z_loss: 0.0, scale: 1.0, kernel: None, overlap: true }
    }
    /// The label whose rows do not count; -100 unless set. Of u32 labels it is the one with the same bits.
    pub fn ignored(self, label: i32) -> Self {
        CrossEntropy { ignored: label, ..self }
    }
    /// s, the share of the probability that is spread over all columns: from 0 to 1; 0 unless set.
    pub fn smoothing(self, smoothing: f32) -> Self {
        CrossEntropy { smoothing, ..self }
    }
    /// z, which keeps L near 0: not negative, finite; 0 unless set.
    pub fn z_loss(self, z: f32) -> Self {
        CrossEntropy { z_loss: z, ..self }
    }
    /// What the gradient is multiplied by, such as one over the rows that count: finite; 1 unless set.
    pub fn scale(self, scale: f32) -> Self {
        CrossEntropy { scale, ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        CrossEntropy { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        CrossEntropy { overlap, ..self }
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: FloatElement, I: IndexElement>(
        &self,
        logits: &TensorView<'_, T>,
        labels: &TensorView<'_, I>,
        loss: &TensorViewMut<'_, f32>,
        gradient: &TensorViewMut<'_, T>,
    ) -> Result<Vec<CrossEntropyCandidate>> {
        Ok(Problem::new(self, logits, labels, loss, Some(gradient))?.select().candidates())
    }

    /// A plan of loss and gradient for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The
    /// tensors may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<T: FloatElement, I: IndexElement>(
        &self,
        logits: &TensorView<'_, T>,
        labels: &TensorView<'_, I>,
        loss: &TensorViewMut<'_, f32>,
        gradient: &TensorViewMut<'_, T>,
    ) -> Result<CrossEntropyPlan> {
        CrossEntropyPlan::new(self, Problem::new(self, logits, labels, loss, Some(gradient))?)
    }

    /// The same of the loss alone.
    pub fn plan_loss<T: FloatElement, I: IndexElement>(
        &self,
        logits: &TensorView<'_, T>,
        labels: &TensorView<'_, I>,
        loss: &TensorViewMut<'_, f32>,
    ) -> Result<CrossEntropyPlan> {
        CrossEntropyPlan::new(self, Problem::new(self, logits, labels, loss, None)?)
    }

    /// Queues the loss alone on `stream`: [`plan_loss`](Self::plan_loss), and [`CrossEntropyPlan::run`].
    ///
    /// Fails when shapes do not fit, a view lies on another device, what is written overlaps another tensor, or an option is out of range.
    pub fn run<T: FloatElement, I: IndexElement>(
        &self,
        stream: &Stream,
        logits: &TensorView<'_, T>,
        labels: &TensorView<'_, I>,
        loss: &mut TensorViewMut<'_, f32>,
    ) -> Result<()> {
        self.plan_loss(logits, labels, loss)?.run(stream, logits, labels, loss, None)
    }

    /// Queues loss and gradient on `stream`: [`plan`](Self::plan), and [`CrossEntropyPlan::run`].
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_with_gradient<T: FloatElement, I: IndexElement>(
        &self,
        stream: &Stream,
        logits: &TensorView<'_, T>,
        labels: &TensorView<'_, I>,
        loss: &mut TensorViewMut<'_, f32>,
        gradient: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(logits, labels, loss, gradient)?.run(stream, logits, labels, loss, Some(gradient))
    }
}
