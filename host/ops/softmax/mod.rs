//! Softmax and log-softmax of rows.

mod gradient;
mod mask;

use std::f32::consts::LOG2_E;
use std::sync::LazyLock;

use tilewright_rows::{SOFTMAX, SoftmaxArgs};

use mask::Mask;

use super::frame::{Candidate, Choice, Named, Plan, Table, check, of_shape};
use super::rows::{Compiled, FloatElement, Matrices, Operand, Selection};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute a softmax, or why it could not.
pub type SoftmaxCandidate = Candidate<Compiled>;
/// The kernel that computes a softmax, and why it was chosen.
pub type SoftmaxPlan = Plan<Compiled>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(SOFTMAX.iter().map(|k| (k.element, *k))));

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
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits.
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
        let matrices = self.matrices(x, y)?;
        if self.is_masked() {
            return Ok(mask::select(&self.masked(x, y)?).candidates());
        }
        Ok(select(&matrices).candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<SoftmaxPlan> {
        let matrices = self.matrices(x, y)?;
        if self.is_masked() {
            return mask::select(&self.masked(x, y)?).choose(self.kernel);
        }
        select(&matrices).choose(self.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when the shapes differ or the mask's does not broadcast to them, a view lies on another device, y overlaps another tensor, or the scale is
    /// none.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let matrices = self.matrices(x, y)?;
        if self.is_masked() {
            return self.queue_masked(stream, &self.masked(x, y)?);
        }
        let (scale, log) = (self.scale * LOG2_E, u32::from(self.log));
        // SAFETY: the arguments are those of `softmax`, and of `softmax_long`, which has the same. y is borrowed exclusively.
        unsafe {
            select(&matrices).queue(stream, (self.kernel, self.overlap), |[x, y], order| SoftmaxArgs {
                x,
                y,
                order,
                scale,
                log,
            })
        }
    }

    fn check_scale(&self) -> Result<()> {
        if self.scale > 0.0 && self.scale.is_finite() {
            return Ok(());
        }
        Err(Error::argument("scale", self.scale.to_string(), "positive and finite"))
    }

    /// Checks the arguments.
    fn matrices<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Matrices<2>> {
        self.check_scale()?;
        if x.rank() == 0 {
            return Err(Error::argument("x", of_shape(x.shape()), "of 1 dimension or more"));
        }
        if y.shape() != x.shape() {
            let allowed = format!("{}, the shape of `x`", of_shape(x.shape()));
            return Err(Error::argument("y", of_shape(y.shape()), allowed));
        }
        let mask = self.mask.map(|mask| mask.named);
        check(y.device(), [Named::read("x", x), Named::written("y", y)].into_iter().chain(mask))?;
        let operands = [("x", x.untyped()), ("y", y.untyped())];
        Ok(Matrices::new(y.device(), operands.map(|(name, tensor)| Operand::new(name, tensor))))
    }
}

fn select(matrices: &Matrices<2>) -> Selection<'_, 2> {
    Selection::of_rows(matrices, &TABLE)
}
