//! The places of rows' largest elements.

use std::sync::LazyLock;

use tilewright_rows::{ARGMAX, ArgmaxArgs};

use super::frame::{Candidate, Choice, Named, Plan, Table, check, of_shape};
use super::rows::{Compiled, Matrices, Operand, RowsElement, Selection};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute an argmax, or why it could not.
pub type ArgmaxCandidate = Candidate<Compiled>;
/// The kernel that computes an argmax, and why it was chosen.
pub type ArgmaxPlan = Plan<Compiled>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(ARGMAX.iter().map(|k| (k.element, *k))));

/// y = the places of the largest elements of x over its last dimension: see [`Argmax`].
pub fn argmax<T: RowsElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, i32>,
) -> Result<()> {
    Argmax::new().run(stream, x, y)
}

/// y = the places of the largest elements of x over its last dimension.
///
/// - x has 1 to 5 dimensions, any strides: rows are those of the last dimension, of 1 to 2³¹ - 1 elements. y (i32) has its shape without the last
///   dimension. Another dimension's argmax is that of a transposed view.
/// - f16, bf16 and f32. Of equal elements the first counts; -0 equals 0. Of a row with NaN it is the place of the first NaN.
/// - No rows: nothing is done.
/// - Rows that are aligned to 16 bytes and multiples of that long are read in vectors; all others are correct but slower.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same result.
///
/// ```
/// use tilewright::ops::argmax;
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[1.0, 3.0, 3.0, 2.0, f32::NAN, 9.0], &[2, 3])?;
/// let mut y = Tensor::<i32>::zeros(&device, &[2])?;
/// argmax(&device.default_stream(), &x.view(), &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [1, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Argmax<'a> {
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Default for Argmax<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Argmax<'a> {
    /// Over the last dimension.
    pub fn new() -> Self {
        Argmax { kernel: None, overlap: true }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Argmax { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Argmax { overlap, ..self }
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: RowsElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, i32>,
    ) -> Result<Vec<ArgmaxCandidate>> {
        Ok(select(&matrices(x, y)?).candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: RowsElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, i32>,
    ) -> Result<ArgmaxPlan> {
        select(&matrices(x, y)?).choose(self.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, rows have no elements, a view lies on another device, or y overlaps x.
    pub fn run<T: RowsElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, i32>,
    ) -> Result<()> {
        let matrices = matrices(x, y)?;
        // SAFETY: the arguments are those of `argmax`. y is borrowed exclusively; of it the kernels use the first column.
        unsafe {
            select(&matrices).queue(stream, (self.kernel, self.overlap), |[x, y], order| ArgmaxArgs {
                x,
                y,
                order,
            })
        }
    }
}

/// Checks the arguments.
fn matrices<T: RowsElement>(x: &TensorView<'_, T>, y: &TensorViewMut<'_, i32>) -> Result<Matrices<2>> {
    let shape = x.shape();
    let Some((&cols, rows)) = shape.split_last() else {
        return Err(Error::argument("x", of_shape(shape), "of 1 dimension or more"));
    };
    if y.shape() != rows {
        let allowed = format!("{}: one for each row of `x`", of_shape(rows));
        return Err(Error::argument("y", of_shape(y.shape()), allowed));
    }
    if !y.is_empty() && !(1..=i32::MAX as usize).contains(&cols) {
        return Err(Error::argument("x", of_shape(shape), "of rows of 1 to 2^31 - 1 elements"));
    }
    check(y.device(), [Named::read("x", x), Named::written("y", y)])?;
    let to = Operand::once("y", y.untyped(), shape)?;
    Ok(Matrices::new(y.device(), [Operand::new("x", x.untyped()), to]))
}

fn select(matrices: &Matrices<2>) -> Selection<'_, 2> {
    let element = matrices.operands[0].tensor.dtype.name();
    let kernels = TABLE.kernels(&element);
    Selection { matrices, columns: &[], residual: false, reads_again: 2, kernels, what: element }
}
