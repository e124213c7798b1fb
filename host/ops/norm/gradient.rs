//! The gradients of RMSNorm and LayerNorm.

use std::sync::LazyLock;

use tilewright_device::abi::GlobalAbi;
use tilewright_device::tile::RowOrder;
use tilewright_rows::{COLUMN_SUMS, ColumnSumsArgs, NORM_GRADIENT, NormGradientArgs};

use super::problem::{Problem, expect_vector, vector};
use super::{Norm, NormCandidate, NormPlan};
use crate::kernel::AnyFunction;
use crate::ops::frame::{Choice, Named, Table, Workspace};
use crate::ops::rows::{Compiled, FloatElement, Selection, absent};
use crate::tensor::{Layout, Untyped};
use crate::{DType, Device, Error, Launch, Result, Stream, TensorView, TensorViewMut};

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(NORM_GRADIENT.iter().map(|k| (k.element, *k))));

/// To how many elements the lines of sums are filled up: those of one access.
const VECTOR: usize = 4;

/// The gradients of [`Norm`]: of y = s / sqrt(mean of s² + epsilon) w + b, or the same of s minus its mean, by s, w and b. [`Norm::gradient`] makes it.
///
/// - x is what was normalised: of a fused residual the sum that [`Norm::run_added`] gave, and the gradient is that of both addends.
///   dy is the gradient by y. x, dy and dx have one shape, of 1 to 5 dimensions, each with any strides; the gradients by w and b are vectors as
///   long as a row.
/// - f16, bf16 and f32, the same for all. Means, variances and sums in f32, computed once more from x: the forward pass keeps none. Results are rounded once, to
///   nearest even.
/// - A NaN in a row of x or dy, or an infinity in x, makes its row of dx NaN; an infinity in dy leaves nothing finite there. What is in dy stays in its
///   column of the gradients by w and b; a NaN in x reaches all columns by w. Where the squares of a row overflow f32, its row of dx is zeros.
/// - No rows: the gradients by w and b are zeros. Rows without elements: nothing is done.
/// - Rows that are aligned to 16 bytes and multiples of that long are read once, if they have at most 8192 elements or, on Hopper, 131072; so are, on
///   Hopper, rows of up to 65529 elements (f32 65533) of contiguous tensors that are aligned, as w is. All others are correct but slower; those of at most
///   8192 elements are read once too, element by element.
///
/// The sums over rows are formed in parts, by CTA, and a second kernel adds these up in one order: the same call gives the same bits, on
/// the same kind of device. A call allocates no device memory and does not wait, but for the [`workspace`](Self::workspace) of the parts if none was given; it
/// can be captured in a [`Graph`](crate::Graph).
///
/// ```
/// use tilewright::ops::Norm;
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[1.0, -1.0, 2.0, 2.0], &[2, 2])?;
/// let w = Tensor::<f32>::from_slice(&device, &[1.0, 3.0], &[2])?;
/// let dy = Tensor::<f32>::from_slice(&device, &[1.0, 0.0, 0.5, 2.0], &[2, 2])?;
/// let (mut dx, mut dw) = (Tensor::<f32>::zeros(&device, &[2, 2])?, Tensor::<f32>::zeros(&device, &[2])?);
/// Norm::rms().weight(&w.view()).epsilon(0.0).gradient().d_weight(&mut dw.view_mut()).run(
///     &device.default_stream(),
///     &x.view(),
///     &dy.view(),
///     &mut dx.view_mut(),
/// )?;
/// assert_eq!(dx.to_vec()?[..2], [0.5, 0.5]);
/// assert_eq!(dw.to_vec()?, [1.5, 2.0]);
/// # Ok(())
/// # }
/// ```
pub struct NormGradient<'a, T> {
    norm: Norm<'a, T>,
    d_sum: Option<&'a TensorView<'a, T>>,
    d_weight: Option<TensorViewMut<'a, T>>,
    d_bias: Option<TensorViewMut<'a, T>>,
    workspace: Workspace<'a>,
}

/// A kernel's launch, and the lines of its sums.
struct Work {
    function: AnyFunction,
    order: RowOrder,
    launch: Launch,
    lines: usize,
}

impl<'a, T: FloatElement> NormGradient<'a, T> {
    pub(super) fn new(norm: &Norm<'a, T>) -> Self {
        let norm = Norm { kernel: None, ..*norm };
        NormGradient { norm, d_sum: None, d_weight: None, d_bias: None, workspace: Workspace::Owned(None) }
    }
    /// The gradient by the sum itself, the other result of [`Norm::run_added`]: it is added to dx. Of the shape of x.
    pub fn d_sum(self, d_sum: &'a TensorView<'a, T>) -> Self {
        NormGradient { d_sum: Some(d_sum), ..self }
    }
    /// Where to write the gradient by w: that of one that is 1, if there is none.
    pub fn d_weight(self, d_weight: &'a mut TensorViewMut<'_, T>) -> Self {
        NormGradient { d_weight: Some(d_weight.reborrow()), ..self }
    }
    /// Where to write the gradient by b: the sums of dy.
    pub fn d_bias(self, d_bias: &'a mut TensorViewMut<'_, T>) -> Self {
        NormGradient { d_bias: Some(d_bias.reborrow()), ..self }
    }
    /// Memory for the parts of the gradients by w and b, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len)
    /// elements or more; calls on other streams must not use it meanwhile.
    ///
    /// Without it the first run that needs some allocates it and keeps it for later runs, which wait for each other; it is freed when
    /// the `NormGradient` is dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        NormGradient { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        NormGradient { norm: self.norm.kernel(name), ..self }
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<Vec<NormCandidate>> {
        Ok(select(&self.problem(x, dy, dx)?).candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, in front of the one that adds up its parts, and why.
    pub fn plan(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<NormPlan> {
        select(&self.problem(x, dy, dx)?).choose(self.norm.kernel)
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: 0 if neither the gradient by w nor that by b is wanted.
    pub fn workspace_len(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        self.len(&self.problem(x, dy, dx)?)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, a view lies on another device, what is written overlaps another tensor, or epsilon is none.
    pub fn run(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let problem = self.problem(x, dy, dx)?;
        self.queue(stream, &problem)
    }

    /// Checks that the tensors fit together.
    fn problem(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<Problem<4>> {
        let vectors = [("d_weight", &self.d_weight), ("d_bias", &self.d_bias)];
        let vectors = vectors.into_iter().filter_map(|(name, view)| Some((name, view.as_ref()?)));
        let others = vectors.clone().map(|(name, view)| Named::written(name, view));
        let others: Vec<_> = others.chain(self.workspace.named()).collect();
        // Without a gradient by the sum x stands in its place, which is neither read nor counts.
        let read = [("x", x), ("dy", dy), ("d_sum", self.d_sum.unwrap_or(x))];
        let mut problem =
            Problem::new(self.norm.epsilon, read, [("dx", dx)], [self.norm.weight, None], &others)?;
        for (name, view) in vectors {
            expect_vector(name, view.shape(), problem.matrices.cols)?;
        }
        problem.matrices.operands[2].once = self.d_sum.is_none();
        Ok(problem)
    }

    /// How many of the gradients by w and b are wanted.
    fn wanted(&self) -> usize {
        usize::from(self.d_weight.is_some()) + usize::from(self.d_bias.is_some())
    }

    /// Elements of the parts' lines.
    fn len(&self, problem: &Problem<4>) -> Result<usize> {
        if self.wanted() == 0 || problem.matrices.is_empty() {
            return Ok(0);
        }
        Ok(self.wanted() * self.work(problem)?.lines * problem.matrices.cols.next_multiple_of(VECTOR))
    }

    /// The launch of the kernel that is chosen.
    fn work(&self, problem: &Problem<4>) -> Result<Work> {
        let kernel = select(problem).choose(self.norm.kernel)?.descriptor();
        let matrices = &problem.matrices;
        let function = matrices.device.listed(&tilewright_rows::KERNELS, kernel)?;
        let resident = function.resident_ctas();
        let (order, launch) = matrices.tiles(kernel, resident, self.norm.overlap)?;
        let lines = matrices.clusters(kernel, &order, resident) as usize;
        Ok(Work { function, order, launch, lines })
    }

    fn queue(&mut self, stream: &Stream, problem: &Problem<4>) -> Result<()> {
        let (matrices, device) = (&problem.matrices, &problem.matrices.device);
        stream.expect_on(device)?;
        if matrices.cols == 0 {
            return Ok(());
        }
        if matrices.is_empty() {
            return self.add_up(stream, device, [absent(); 2]);
        }
        let Work { function, order, launch, lines } = self.work(problem)?;
        let (len, cols) = (self.len(problem)?, matrices.cols.next_multiple_of(VECTOR));
        let address = self.workspace.of(len, stream)?;
        let lines_at = |number: usize, wanted: bool| -> Result<GlobalAbi<(), 3>> {
            if !wanted {
                return Ok(absent());
            }
            let (address, dtype) =
                (address + (number * lines * cols * DType::F32.bytes()) as u64, DType::F32);
            let layout = Layout::strided(&[1, lines, cols], &[0, cols, 1])?;
            Untyped { address, dtype, layout }.arg(device.backend(), true, 0)
        };
        let first = self.d_weight.is_some();
        let parts = [lines_at(0, first)?, lines_at(usize::from(first), self.d_bias.is_some())?];
        let [weight, _] = problem.columns()?;
        let (per_column, epsilon) = (1.0 / matrices.cols as f32, self.norm.epsilon);
        let launched = (0..matrices.launches()).try_for_each(|number| {
            let [x, dy, d_sum, dx] = matrices.arguments(number)?;
            let args = NormGradientArgs {
                x,
                dy,
                d_sum: if self.d_sum.is_some() { d_sum } else { absent() },
                weight,
                dx,
                d_weight: parts[0],
                d_bias: parts[1],
                order,
                per_column,
                epsilon,
                centred: u32::from(self.norm.centred),
                continued: u32::from(number > 0),
            };
            // SAFETY: the arguments are those of `norm_gradient`, and of the others, which have the same. dx is borrowed exclusively; the
            // workspace has a line for each cluster. Programmatic launch only moves what precedes the wait for the
            // preceding grid.
            unsafe { function.launch_block(stream, &launch, &args) }
        });
        // Some launches may have come before one that failed.
        launched.and_then(|()| self.add_up(stream, device, parts)).and(self.workspace.used(len, stream))
    }

    /// Queues the kernel that adds up the parts.
    fn add_up(&self, stream: &Stream, device: &Device, parts: [GlobalAbi<(), 3>; 2]) -> Result<()> {
        let to = [&self.d_weight, &self.d_bias].into_iter().zip(parts);
        let to: Vec<_> = to.filter_map(|(to, parts)| Some((to.as_ref()?, parts))).collect();
        let Some(&(first, x)) = to.first() else { return Ok(()) };
        let (other, other_x) = to.last().copied().unwrap_or((first, x));
        let Some(kernel) = COLUMN_SUMS.iter().find(|kernel| kernel.element == T::DTYPE.name()) else {
            return Err(Error::argument("x", T::DTYPE.name(), "of a type that there are kernels for"));
        };
        let ctas = (first.len() as u32).div_ceil(kernel.tile[1]);
        let (y, other_y) = (vector(device, first.untyped())?, vector(device, other.untyped())?);
        let function = device.listed(&tilewright_rows::KERNELS, kernel)?;
        let args = ColumnSumsArgs { x, y, other_x, other_y };
        // SAFETY: the arguments are those of `column_sums`. Its results are borrowed exclusively; the parts are read to their shapes.
        unsafe { function.launch_block(stream, &Launch::grid([ctas, to.len() as u32, 1]), &args) }
    }
}

fn select(problem: &Problem<4>) -> Selection<'_, 4> {
    let element = problem.matrices.operands[0].tensor.dtype.name();
    problem.select(TABLE.kernels(&element), false, 8)
}
