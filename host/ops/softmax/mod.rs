//! Softmax and log-softmax of rows.

mod gradient;

use std::f32::consts::LOG2_E;
use std::sync::LazyLock;

use tilewright_rows::{SOFTMAX, SoftmaxArgs};

use super::frame::{Candidate, Choice, Named, Plan, Table, check, of_shape};
use super::rows::{Compiled, Matrices, Operand, RowsElement, Selection};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute a softmax, or why it could not.
pub type SoftmaxCandidate = Candidate<Compiled>;
/// The kernel that computes a softmax, and why it was chosen.
pub type SoftmaxPlan = Plan<Compiled>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(SOFTMAX.iter().map(|k| (k.element, *k))));

/// y = softmax(x) over the last dimension: see [`Softmax`].
pub fn softmax<T: RowsElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Softmax::new().run(stream, x, y)
}

/// y = log softmax(x) over the last dimension: see [`Softmax`].
pub fn log_softmax<T: RowsElement>(
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
/// - A row with a NaN or +inf is NaN throughout. A row that is all -inf has no largest score: its softmax is zeros, its log-softmax -inf.
/// - No rows, or rows without elements: nothing is done.
/// - Rows that are aligned to 16 bytes and multiples of that long are read once, if they have at most 16384 elements or, on Hopper,
///   262144; all others are correct but slower.
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
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Softmax<'a> {
    scale: f32,
    log: bool,
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
        Softmax { scale: 1.0, log: false, kernel: None, overlap: true }
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
    pub fn candidates<T: RowsElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<SoftmaxCandidate>> {
        Ok(select(&self.matrices(x, y)?).candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: RowsElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<SoftmaxPlan> {
        select(&self.matrices(x, y)?).choose(self.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when the shapes differ, a view lies on another device, y overlaps x, or the scale is none.
    pub fn run<T: RowsElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let matrices = self.matrices(x, y)?;
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
    fn matrices<T: RowsElement>(
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
        check(y.device(), [Named::read("x", x), Named::written("y", y)])?;
        let operands = [("x", x.untyped()), ("y", y.untyped())];
        Ok(Matrices::new(y.device(), operands.map(|(name, tensor)| Operand::new(name, tensor))))
    }
}

fn select(matrices: &Matrices<2>) -> Selection<'_, 2> {
    let element = matrices.operands[0].tensor.dtype.name();
    let kernels = TABLE.kernels(&element);
    Selection { matrices, columns: &[], residual: false, reads_again: 3, kernels, what: element }
}
