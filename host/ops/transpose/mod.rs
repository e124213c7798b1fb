//! Tensors with other strides, or with their dimensions in another order.

mod problem;

use tilewright_pointwise::{CopiedArgs, TransposedArgs};

use problem::Problem;

use super::frame::Choice;
use super::pointwise::{Options, PointwiseCandidate, PointwisePlan, launch_ctas};
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// y = x, of any strides: see [`Transpose`].
pub fn copy<T: Element>(stream: &Stream, x: &TensorView<'_, T>, y: &mut TensorViewMut<'_, T>) -> Result<()> {
    Transpose::none().run(stream, x, y)
}

/// y = x with its dimensions in another order: see [`Transpose`].
pub fn transpose<T: Element>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    dims: &[usize],
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Transpose::new(dims).run(stream, x, y)
}

/// y = x with its dimensions in another order, or in the same: a copy between views of any strides.
///
/// - x has 0 to 5 dimensions, any strides. Dimension i of y is dimension `dims[i]` of x; [`none`](Self::none) leaves all where they are, and x may
///   then be stretched: dimensions of size 1, and missing leading ones, repeat. y has any strides.
/// - Every element type, copied bit by bit.
/// - No elements: nothing is done. A launch takes up to 2³¹ - 2¹⁶ pieces: 16 bytes each, or single elements where tensors do not lie so.
/// - Where the same dimension has neighbours in x and y, it is copied straight, in vectors if addresses and lines are multiples of 16 bytes.
///   Where another one has, elements go through tiles of shared memory, in vectors on each side that is aligned. All other strides are
///   correct but slower.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph).
///
/// ```
/// use tilewright::ops::{copy, transpose};
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let stream = device.default_stream();
/// let x = Tensor::<i32>::from_slice(&device, &[1, 2, 3, 4, 5, 6], &[2, 3])?;
/// let mut y = Tensor::<i32>::zeros(&device, &[3, 2])?;
/// transpose(&stream, &x.view(), &[1, 0], &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [1, 4, 2, 5, 3, 6]);
/// let mut z = Tensor::<i32>::zeros(&device, &[2, 2])?;
/// copy(&stream, &x.view().narrow(1, 1, 2)?, &mut z.view_mut())?;
/// assert_eq!(z.to_vec()?, [2, 3, 5, 6]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Transpose<'a> {
    dims: Option<&'a [usize]>,
    options: Options<'a>,
}

impl<'a> Transpose<'a> {
    /// Dimension i of y is dimension `dims[i]` of x.
    pub fn new(dims: &'a [usize]) -> Self {
        Transpose { dims: Some(dims), options: Options::DEFAULT }
    }
    /// All dimensions stay: a copy.
    pub fn none() -> Self {
        Self::with(Options::DEFAULT)
    }
    pub(super) fn with(options: Options<'a>) -> Self {
        Transpose { dims: None, options }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Transpose { options: Options { kernel: Some(name), ..self.options }, ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Transpose { options: Options { overlap, ..self.options }, ..self }
    }

    /// Every compiled kernel, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: Element>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<PointwiseCandidate>> {
        self.candidates_of(x, y)
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: Element>(&self, x: &TensorView<'_, T>, y: &TensorViewMut<'_, T>) -> Result<PointwisePlan> {
        self.plan_of(x, y)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes or `dims` do not fit, a view lies on another device, or y overlaps x.
    pub fn run<T: Element>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.queue(stream, x, y)
    }

    /// [`candidates`](Self::candidates) of types that are the same at run time.
    pub(super) fn candidates_of<T: Element, U: Element>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, U>,
    ) -> Result<Vec<PointwiseCandidate>> {
        Ok(Problem::new(self.dims, x, y)?.candidates())
    }

    /// [`plan`](Self::plan) of types that are the same at run time.
    pub(super) fn plan_of<T: Element, U: Element>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, U>,
    ) -> Result<PointwisePlan> {
        Problem::new(self.dims, x, y)?.choose(self.options.kernel)
    }

    /// [`run`](Self::run) of types that are the same at run time.
    pub(super) fn queue<T: Element, U: Element>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        let problem = Problem::new(self.dims, x, y)?;
        stream.expect_on(&problem.device)?;
        if problem.is_empty() {
            return Ok(());
        }
        let kernel = problem.choose(self.options.kernel)?.descriptor();
        let transposes = kernel.tile[0] > 0;
        let order = problem.order(kernel)?;
        let ctas =
            if transposes { order.total() } else { order.total().div_ceil(kernel.threads * kernel.each) };
        let (function, grid) = launch_ctas(&problem.device, kernel, ctas, self.options.overlap)?;
        for number in 0..problem.launches() {
            let [x, y] = problem.arguments(kernel, number);
            // SAFETY: the arguments are those of the kernel. The views that they come from are borrowed by the caller, y exclusively; they have the
            // elements that the order counts, and lie as the kernel was chosen by. Programmatic launch only moves what precedes the wait for the
            // preceding grid.
            unsafe {
                if transposes {
                    let exchanged = problem.exchanged();
                    function.launch_block(stream, &grid, &TransposedArgs { x, y, order, exchanged })?;
                } else {
                    function.launch_block(stream, &grid, &CopiedArgs { x, y, order })?;
                }
            }
        }
        Ok(())
    }
}
