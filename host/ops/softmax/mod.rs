//! Softmax and log-softmax of rows.

mod gradient;
mod mask;
mod plan;

use std::f32::consts::LOG2_E;
use std::sync::LazyLock;

use tilewright_rows::{MASKED_SOFTMAX, SOFTMAX};

pub use gradient::SoftmaxGradientPlan;
use mask::Mask;
pub use plan::SoftmaxPlan;

use super::frame::{Candidate, Choice, Named, Operands, Table, of_shape};
use super::rows::{Compiled, FloatElement, Matrices, Operand, Selection};
use crate::{DType, Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute a softmax, or why it could not.
pub type SoftmaxCandidate = Candidate<Compiled>;

static PLAIN: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(SOFTMAX.iter().map(|k| (k.element, *k))));
static MASKED: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(MASKED_SOFTMAX.iter().map(|k| (k.element, *k))));

/// y = softmax(x) over the last dimension: see [`Softmax`].
pub fn softmax<T: FloatElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Softmax::new().run(stream, x, y)
}

/// y = log softmax(x) over the last dimension: see [`Softmax`].
pub fn log_softmax<T: FloatElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Softmax::new().log().run(stream, x, y)
}

/// y = softmax(s x), or its logarithm, over the last dimension of x; and its [gradient](Self::run_gradient).
///
/// - x and y have the same shape, of 1 to 5 dimensions, each with any strides: rows are those of the last dimension, of any length. Another
///   dimension's softmax is that of transposed views.
/// - f16, bf16 and f32 in and out; maximum, exponentials and sum in f32; the result is rounded once, to nearest even.
/// - A [mask](Self::mask) is added to s x, and a [causal](Self::causal) one takes columns out.
/// - A row with a NaN or +inf is NaN throughout, unless what has it is taken out by being causal; a mask of -inf leaves NaN and gives NaN with +inf. A row that is all
///   -inf, or of which nothing is left, has no largest score: its softmax is zeros, its log-softmax -inf.
/// - No rows, or rows without elements: nothing is done.
/// - Rows that are aligned to 16 bytes and multiples of that long are read once, if they have at most 16384 elements or, on Hopper,
///   262144, masked ones 8192 or 131072, and their mask lies so too; so are, on Hopper, rows of up to 57337 elements (f32 57341), masked ones of up to
///   53241 (26621), of contiguous, aligned tensors. All others are correct but slower; masked ones of up to 1024 elements are read once too, element
///   by element.
///   A mask that repeats in other dimensions than x lies evenly in may take several launches.
///
/// A call allocates no device memory and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits. What is
/// called again and again is [planned](Self::plan) once.
///
/// ```
/// use tilewright::ops::{Softmax, softmax};
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[1.0, 1.0, 0.0, f32::NEG_INFINITY], &[2, 2])?;
/// let mut y = Tensor::<f32>::zeros(&device, &[2, 2])?;
/// softmax(&device.default_stream(), &x.view(), &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [0.5, 0.5, 1.0, 0.0]);
/// Softmax::new().scale(0.125).log().run(&device.default_stream(), &x.view(), &mut y.view_mut())?;
/// // The last row sees all columns, the one above it all but the last.
/// let mask = Tensor::<f32>::from_slice(&device, &[3f32.ln(), 0.0], &[2])?;
/// let zeros = Tensor::<f32>::zeros(&device, &[2, 2])?;
/// let masked = mask.view();
/// Softmax::new().mask(&masked).causal().run(&device.default_stream(), &zeros.view(), &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?[..2], [1.0, 0.0]);
/// assert!((y.to_vec()?[2] - 0.75).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Softmax<'a> {
    scale: f32,
    log: bool,
    mask: Option<Mask<'a>>,
    causal: bool,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Default for Softmax<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Softmax<'a> {
    /// y = softmax(x).
    pub fn new() -> Self {
        Softmax { scale: 1.0, log: false, mask: None, causal: false, kernel: None, overlap: true }
    }
    /// The logarithm of it: s x - log Σ exp(s x).
    pub fn log(self) -> Self {
        Softmax { log: true, ..self }
    }
    /// s, which multiplies x: positive and finite; 1 unless set.
    pub fn scale(self, scale: f32) -> Self {
        Softmax { scale, ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Softmax { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Softmax { overlap, ..self }
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<SoftmaxCandidate>> {
        Ok(self.problem(x, y)?.select().candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors, and the
    /// mask, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<SoftmaxPlan> {
        SoftmaxPlan::new(self, self.problem(x, y)?)
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`SoftmaxPlan::run`].
    ///
    /// Fails when the shapes differ or the mask's does not broadcast to them, a view lies on another device, y overlaps another tensor, or the scale is
    /// none.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(x, y)?.launch(stream, plan::named(x, y, self.mask.map(|mask| mask.named)))
    }

    fn check_scale(&self) -> Result<()> {
        if self.scale > 0.0 && self.scale.is_finite() {
            return Ok(());
        }
        Err(Error::argument("scale", self.scale.to_string(), "positive and finite"))
    }

    /// Checks the arguments.
    fn problem<T: FloatElement>(&self, x: &TensorView<'_, T>, y: &TensorViewMut<'_, T>) -> Result<Problem> {
        self.check_scale()?;
        let (shape, device) = (x.shape(), y.device());
        if shape.is_empty() {
            return Err(Error::argument("x", of_shape(shape), "of 1 dimension or more"));
        }
        if y.shape() != shape {
            let allowed = format!("{}, the shape of `x`", of_shape(shape));
            return Err(Error::argument("y", of_shape(y.shape()), allowed));
        }
        let operands = Operands::checked(device, plan::named(x, y, self.mask.map(|mask| mask.named)))?;
        if self.causal && shape.len() < 2 {
            return Err(Error::argument("x", of_shape(shape), "of 2 dimensions or more, to be causal"));
        }
        let from = Operand::planned(&Named::read("x", x), 0);
        let to = Operand::planned(&Named::written("y", y), 1);
        let mask = match &self.mask {
            Some(mask) => mask.operand(2, shape, T::DTYPE)?,
            None => from.instead(),
        };
        let rows = [from, mask, to];
        let matrices = match self.causal {
            true => Matrices::of_last_dimensions(device, rows),
            false => Matrices::new(device, rows),
        };
        Ok(Problem { operands, matrices, how: self.how() })
    }

    fn how(&self) -> How {
        let log = u32::from(self.log);
        match (self.mask, self.causal) {
            (None, false) => How::Plain { scale: self.scale * LOG2_E, log },
            (mask, causal) => How::Masked {
                scale: self.scale,
                log,
                causal: causal.into(),
                mask: mask.map(|mask| mask.named.dtype()),
            },
        }
    }
}

/// What a softmax is asked to compute, checked.
struct Problem {
    operands: Operands,
    /// x, the mask or what stands in its place, and y, at the places of a plan.
    matrices: Matrices<3>,
    how: How,
}

/// What kernels are told beside their tensors.
#[derive(Clone, Copy, Debug)]
enum How {
    /// Every element counts.
    Plain { scale: f32, log: u32 },
    /// Some elements may not count; with a mask of this type, if there is one.
    Masked { scale: f32, log: u32, causal: u32, mask: Option<DType> },
}

impl Problem {
    fn select(&self) -> Selection<'_, 3> {
        let table = match self.how {
            How::Plain { .. } => &PLAIN,
            How::Masked { .. } => &MASKED,
        };
        Selection::of_rows(&self.matrices, table)
    }
}
