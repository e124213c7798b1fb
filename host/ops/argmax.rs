//! The places of the largest elements, or of the least.

use tilewright_reduce::{How, Made, ResultType};

use super::frame::{Candidate, Choice, Named, Operands, Plan, check, explained, of_shape};
use super::reduce::{Compiled, Prepared, Problem};
use super::{FloatElement, IndexElement};
use crate::{Element, Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute an argmax, or why it could not.
pub type ArgmaxCandidate = Candidate<Compiled>;

/// The kernel that computes an argmax, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`Argmax::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct ArgmaxPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    prepared: Prepared,
}

/// y = the places of the largest elements of x over its last dimension: see [`Argmax`].
pub fn argmax<T: FloatElement, I: IndexElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, I>,
) -> Result<()> {
    Argmax::new().run(stream, x, y)
}

/// y = the places of the largest elements of x, or of the least, over its last dimension or another one.
///
/// - x has 1 to 5 dimensions, any strides; the one that is searched has 1 to 2³¹ - 1 elements. y (i32, u32 or i64) has its shape without
///   that dimension.
/// - f16, bf16 and f32. Of equal elements the first counts; -0 equals 0. Where there is a NaN it is the place of the first NaN.
/// - No results: nothing is done. At most 2³¹ - 2¹⁶ results.
/// - Elements that are contiguous along the dimension are read in vectors wherever they begin, and those that are contiguous across it if
///   they are aligned to 16 bytes and so are the other strides; all others are correct but slower.
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
    least: bool,
    dim: Option<usize>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Default for Argmax<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Argmax<'a> {
    /// Of the largest, over the last dimension.
    pub fn new() -> Self {
        Argmax { least: false, dim: None, kernel: None, overlap: true }
    }
    /// Of the least elements instead: argmin.
    pub fn least(self) -> Self {
        Argmax { least: true, ..self }
    }
    /// Over this dimension.
    pub fn dim(self, dim: usize) -> Self {
        Argmax { dim: Some(dim), ..self }
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
    pub fn candidates<T: FloatElement, I: IndexElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, I>,
    ) -> Result<Vec<ArgmaxCandidate>> {
        Ok(self.problem(x, y)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<T: FloatElement, I: IndexElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, I>,
    ) -> Result<ArgmaxPlan> {
        let operands = Operands::new(y.device(), named(x, y));
        let problem = self.problem(&x.planned(0), &y.planned(1))?;
        let choice = problem.choose(self.kernel)?;
        let prepared = problem.prepare(choice.descriptor(), self.overlap)?;
        Ok(ArgmaxPlan { choice, operands, prepared })
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`ArgmaxPlan::run`].
    ///
    /// Fails when shapes do not fit, rows have no elements, a view lies on another device, or y overlaps x.
    pub fn run<T: FloatElement, I: IndexElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, I>,
    ) -> Result<()> {
        self.plan(x, y)?.run(stream, x, y)
    }

    /// Checks the arguments.
    fn problem<T: FloatElement, I: IndexElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, I>,
    ) -> Result<Problem> {
        let shape = x.shape();
        if shape.is_empty() {
            return Err(Error::argument("x", of_shape(shape), "of 1 dimension or more"));
        }
        let dim = self.dim.unwrap_or(shape.len() - 1);
        let Some(&size) = shape.get(dim) else {
            let allowed = format!("a dimension of shape {shape:?}, below {}", shape.len());
            return Err(Error::argument("dim", dim.to_string(), allowed));
        };
        let others = shape.iter().enumerate().filter(|&(other, _)| other != dim);
        let kept: Vec<usize> = others.map(|(_, &size)| size).collect();
        if y.shape() != kept {
            let allowed = format!("{}: one for each row of `x`", of_shape(&kept));
            return Err(Error::argument("y", of_shape(y.shape()), allowed));
        }
        if !y.is_empty() && !(1..=i32::MAX as usize).contains(&size) {
            return Err(Error::argument("x", of_shape(shape), "of rows of 1 to 2^31 - 1 elements"));
        }
        check(y.device(), [Named::read("x", x), Named::written("y", y)])?;
        let (made, negative) = (Made::LargestPlace as u32, u32::from(self.least));
        let result = if I::DTYPE.bytes() == 8 { ResultType::Wide } else { ResultType::Word };
        let how = How { made, negative, divisor: 1.0, root: 0, result: result as u32 };
        Problem::new(y.device(), [x.untyped(), y.untyped()], &[dim], how, false)
    }
}

/// The tensors of an argmax, in the order of a plan's.
fn named<'v, T: Element, I: Element>(
    x: &'v TensorView<'_, T>,
    y: &'v TensorViewMut<'_, I>,
) -> [Option<Named<'v>>; 2] {
    [Some(Named::read("x", x)), Some(Named::written("y", y))]
}

impl ArgmaxPlan {
    /// Queues it on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or y overlaps x; the
    /// error names it.
    pub fn run<T: FloatElement, I: IndexElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, I>,
    ) -> Result<()> {
        let places = self.operands.places(stream, named(x, y), None)?;
        // SAFETY: the tensors are of the shapes and strides that the problem was made of, borrowed by the caller, y exclusively; it takes no
        // memory for parts.
        unsafe { self.prepared.run(stream, &places) }
    }
}

explained!(ArgmaxPlan, Compiled);
