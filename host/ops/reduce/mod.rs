//! Reductions over any dimensions.

mod choose;
mod folded;
mod plan;
mod problem;
mod shares;
#[cfg(test)]
mod tests;

use tilewright_reduce::{How, Made, ResultType};

pub(super) use choose::{Compiled, Prepared};
pub use plan::ReducePlan;
pub(super) use problem::{Problem, walk};

use super::FloatElement;
use super::frame::{Candidate, Choice, Named, Workspace, check, of_shape};
use crate::{DType, Error, Result, Stream, TensorView, TensorViewMut, bf16, f16};

/// A kernel that could compute a reduction, or why it could not.
pub type ReduceCandidate = Candidate<Compiled>;

/// What is made of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum; of none, 0.
    Sum,
    /// Their sum over their number; of none, NaN.
    Mean,
    /// The largest, NaN if one is; of none, -inf.
    Max,
    /// The least, NaN if one is; of none, +inf.
    Min,
    /// Their product; of none, 1.
    Product,
    /// The square root of the sum of their squares; of none, 0.
    Norm,
}

impl Reduction {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Sum, Self::Mean, Self::Max, Self::Min, Self::Product, Self::Norm];
}

/// Types that results of elements of type `T` are rounded to: `T` itself and `f32`.
pub trait ReducedFrom<T>: FloatElement + sealed::From<T> {}

mod sealed {
    pub trait From<T> {}
}

macro_rules! results {
    ($($from:ty: $to:ty;)*) => { $( impl sealed::From<$from> for $to {} impl ReducedFrom<$from> for $to {} )* };
}
results! { f16: f16; f16: f32; bf16: bf16; bf16: f32; f32: f32; }

/// y = what `reduction` makes of x over `dims`: see [`Reduce`].
pub fn reduce<T: FloatElement, U: ReducedFrom<T>>(
    stream: &Stream,
    reduction: Reduction,
    x: &TensorView<'_, T>,
    dims: &[usize],
    y: &mut TensorViewMut<'_, U>,
) -> Result<()> {
    Reduce::new(reduction).run(stream, x, dims, y)
}

/// y = sum, mean, maximum, minimum, product or Euclidean norm of x over some of its dimensions.
///
/// - x has 1 to 5 dimensions, any strides. `dims` are one or more of them, in any order; y has the others, in theirs, any strides: of all
///   dimensions the shape \[\].
/// - f16, bf16 and f32 in; y is of x's type or f32. Computed in f32, rounded once, to nearest even. The sum of squares of a norm, and sums
///   and products on the way to a result that f32 has, must be in f32's range.
/// - NaN gives NaN. No results: nothing is done. Results of no elements are what [`Reduction`] says.
/// - At most 2³¹ - 2¹⁶ results.
///
/// Elements that are contiguous along a reduced dimension are read in vectors wherever they begin, and those that are contiguous across if
/// they are aligned to 16 bytes and so are the other strides, or if all is one contiguous matrix, whose rows are then taken together until they end at such a
/// multiple; all others are correct but slower.
///
/// The order of additions and products is that of the kernels, which depends on shapes, strides, alignment and device alone. Of contiguous elements a
/// thread adds those of a vector in halves, then its vectors in their order; then threads in pairs, pairs of pairs and so on, warps and
/// CTAs in their order, and last the parts of a result that several CTAs share through memory. So the same call gives the same bits.
///
/// Few results of very many elements are divided into such parts. The memory for these is the [`workspace`](Self::workspace), or is allocated by the first run
/// that needs some. But for that a call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). What is called again and again is
/// [planned](Self::plan) once.
///
/// ```
/// use tilewright::ops::{Reduce, Reduction, reduce};
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
/// let mut y = Tensor::<f32>::zeros(&device, &[3])?;
/// reduce(&device.default_stream(), Reduction::Sum, &x.view(), &[0], &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [5.0, 7.0, 9.0]);
/// let mut all = Tensor::<f32>::zeros(&device, &[])?;
/// Reduce::new(Reduction::Max).run(&device.default_stream(), &x.view(), &[0, 1], &mut all.view_mut())?;
/// assert_eq!(all.to_vec()?, [6.0]);
/// # Ok(())
/// # }
/// ```
pub struct Reduce<'a> {
    reduction: Reduction,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Reduce<'_> {
    /// A reduction.
    pub fn new(reduction: Reduction) -> Self {
        Reduce { reduction, workspace: Workspace::Owned(None), kernel: None, overlap: true }
    }
}

impl<'a> Reduce<'a> {
    /// Memory for the results of parts, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or
    /// more; calls on other streams must not use it meanwhile.
    ///
    /// Without it the first run that needs some allocates it and keeps it for later runs, which wait for each other; it is freed when
    /// the `Reduce` is dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        Reduce { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates). Parts are reduced by the one that is chosen for them.
    pub fn kernel(self, name: &'a str) -> Self {
        Reduce { kernel: Some(name), ..self }
    }
    /// Whether kernels may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. They wait for that one's results before they read or write memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Reduce { overlap, ..self }
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: those of the [`plan`](Self::plan).
    pub fn workspace_len<T: FloatElement, U: ReducedFrom<T>>(
        &self,
        x: &TensorView<'_, T>,
        dims: &[usize],
        y: &TensorViewMut<'_, U>,
    ) -> Result<usize> {
        Ok(self.plan(x, dims, y)?.workspace_len())
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: FloatElement, U: ReducedFrom<T>>(
        &self,
        x: &TensorView<'_, T>,
        dims: &[usize],
        y: &TensorViewMut<'_, U>,
    ) -> Result<Vec<ReduceCandidate>> {
        Ok(self.problem(x, dims, y)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernels, and how they are launched. The tensors may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernels, which takes the driver a while the first time.
    pub fn plan<T: FloatElement, U: ReducedFrom<T>>(
        &self,
        x: &TensorView<'_, T>,
        dims: &[usize],
        y: &TensorViewMut<'_, U>,
    ) -> Result<ReducePlan> {
        ReducePlan::new(self, x, dims, y)
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`ReducePlan::run`].
    ///
    /// Fails when `dims` are not x's, y has not the shape of the others, a view lies on another device, or y overlaps x.
    pub fn run<T: FloatElement, U: ReducedFrom<T>>(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dims: &[usize],
        y: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        self.plan(x, dims, y)?.run_in(stream, x, y, &mut self.workspace)
    }

    /// Checks the arguments.
    fn problem<T: FloatElement, U: ReducedFrom<T>>(
        &self,
        x: &TensorView<'_, T>,
        dims: &[usize],
        y: &TensorViewMut<'_, U>,
    ) -> Result<Problem> {
        let shape = x.shape();
        let twice = |(i, dim): (usize, &usize)| dims.iter().take(i).any(|other| other == dim);
        if dims.is_empty() || dims.iter().any(|&dim| dim >= shape.len()) || dims.iter().enumerate().any(twice)
        {
            let allowed = format!("one or more of the {} dimensions of `x`, each once", shape.len());
            return Err(Error::argument("dims", format!("{dims:?}"), allowed));
        }
        let sizes = |gone: bool| shape.iter().enumerate().filter(move |(dim, _)| dims.contains(dim) == gone);
        let kept: Vec<usize> = sizes(false).map(|(_, &size)| size).collect();
        if y.shape() != kept {
            let allowed = format!("{}: `x` without the dimensions {dims:?}", of_shape(&kept));
            return Err(Error::argument("y", of_shape(y.shape()), allowed));
        }
        check(y.device(), [Named::read("x", x), Named::written("y", y)])?;
        let count: f64 = sizes(true).map(|(_, &size)| size as f64).product();
        let (made, negative) = match self.reduction {
            Reduction::Sum | Reduction::Mean => (Made::Sum, false),
            Reduction::Max => (Made::Largest, false),
            Reduction::Min => (Made::Largest, true),
            Reduction::Product => (Made::Product, false),
            Reduction::Norm => (Made::Squares, false),
        };
        let result = match U::DTYPE {
            DType::F16 => ResultType::F16,
            DType::BF16 => ResultType::Bf16,
            _ => ResultType::F32,
        };
        let how = How {
            made: made as u32,
            negative: negative.into(),
            divisor: if self.reduction == Reduction::Mean { count as f32 } else { 1.0 },
            root: (self.reduction == Reduction::Norm).into(),
            result: result as u32,
        };
        Problem::new(y.device(), [x.untyped(), y.untyped()], dims, how, true)
    }
}
