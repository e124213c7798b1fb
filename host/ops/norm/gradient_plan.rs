//! The kernels and launches of a norm's gradient, for tensors wherever they lie.

use std::sync::LazyLock;

use tilewright_rows::{COLUMN_SUMS, ColumnSumsArgs, NORM_GRADIENT, NormGradientArgs};

use super::Norm;
use super::problem::{Problem, ROWS, vector};
use crate::kernel::has;
use crate::ops::frame::{Named, Operands, PLANNED_ROOM, Places, Plan, Table, absent, explained, room};
use crate::ops::rows::{Compiled, FloatElement, Planned, Prepared, Selection};
use crate::tensor::{Layout, Untyped};
use crate::{
    AnyFunction, Arch, DType, Device, Element, Error, Launch, Result, Stream, TensorView, TensorViewMut,
};

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(NORM_GRADIENT.iter().map(|k| (k.element, *k))));

/// To how many elements the lines of sums are filled up: those of one access.
const VECTOR: usize = 4;

/// The kernel that computes a norm's gradient, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`NormGradient::plan`](super::NormGradient::plan), and runs many times, on any stream, from
/// any thread. It derefs to the [`Plan`] that explains the choice of its kernel.
///
/// ```
/// use tilewright::ops::{Norm, NormGradientViews};
/// use tilewright::{Device, Tensor, TensorView, TensorViewMut};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = TensorView::<f32>::without_memory(&device, &[2, 4], &[4, 1], 16)?;
/// let dx = TensorViewMut::<f32>::without_memory(&device, &[2, 4], &[4, 1], 16)?;
/// let mut dw = TensorViewMut::<f32>::without_memory(&device, &[4], &[1], 16)?;
/// let plan = Norm::rms().epsilon(0.0).gradient().d_weight(&mut dw).plan(&x, &x, &dx)?;
///
/// let mut workspace = Tensor::<f32>::uninit(&device, &[plan.workspace_len()])?;
/// for step in 1..3 {
///     let x = Tensor::<f32>::filled(&device, 7.0, &[2, 4])?;
///     let dy = Tensor::<f32>::filled(&device, step as f32, &[2, 4])?;
///     let (mut dx, mut dw) = (Tensor::<f32>::zeros(&device, &[2, 4])?, Tensor::<f32>::zeros(&device, &[4])?);
///     let mut views = NormGradientViews {
///         d_weight: Some(dw.view_mut()),
///         workspace: Some(workspace.view_mut()),
///         ..NormGradientViews::default()
///     };
///     plan.run(&device.default_stream(), &x.view(), &dy.view(), &mut dx.view_mut(), &mut views)?;
///     assert_eq!(dw.to_vec()?, [2.0 * step as f32; 4]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NormGradientPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    prepared: Prepared<ROWS>,
    how: How,
    /// What adds up the parts, if a gradient by w or b is wanted.
    sums: Option<Sums>,
    workspace_len: usize,
}

/// What kernels are told beside tensors of rows: tensors at the places of the plan.
#[derive(Clone, Copy, Debug)]
struct How {
    /// Whether there is a gradient by the sum.
    summed: bool,
    weight: Planned,
    /// Of the gradients by w and b, in the workspace.
    parts: [Planned; 2],
    per_column: f32,
    epsilon: f32,
    centred: u32,
}

/// The launch of the kernel that adds up parts.
#[derive(Clone, Debug)]
struct Sums {
    function: AnyFunction,
    launch: Launch,
    /// One gradient's parts and result, and the other's, or the same once more.
    tensors: [Planned; 4],
}

/// What a [`NormGradientPlan`] runs on beside its tensors: given where the plan was made with it.
#[derive(Debug)]
pub struct NormGradientViews<'a, T: Element> {
    /// See [`Norm::weight`].
    pub weight: Option<TensorView<'a, T>>,
    /// See [`NormGradient::d_sum`](super::NormGradient::d_sum).
    pub d_sum: Option<TensorView<'a, T>>,
    /// See [`NormGradient::d_weight`](super::NormGradient::d_weight).
    pub d_weight: Option<TensorViewMut<'a, T>>,
    /// See [`NormGradient::d_bias`](super::NormGradient::d_bias).
    pub d_bias: Option<TensorViewMut<'a, T>>,
    /// As many elements as [`NormGradientPlan::workspace_len`] says, contiguous and aligned to 16 bytes, of any values. Runs that may be at work
    /// at the same time, on whatever streams, have memory of their own.
    pub workspace: Option<TensorViewMut<'a, f32>>,
}

impl<T: Element> Default for NormGradientViews<'_, T> {
    fn default() -> Self {
        NormGradientViews { weight: None, d_sum: None, d_weight: None, d_bias: None, workspace: None }
    }
}

/// The number of the gradient by w in a plan; that by b comes next.
const D_WEIGHT: usize = 5;

/// The tensors of a gradient, in the order of a plan's: x, dy, d_sum, dx, weight, d_weight and d_bias.
pub(super) type Tensors<'v> = [Option<Named<'v>>; 7];

/// Those that are there.
pub(super) fn named<'v, T: FloatElement>(
    [x, dy]: [&'v TensorView<'_, T>; 2],
    dx: &'v TensorViewMut<'_, T>,
    [d_sum, weight]: [Option<&'v TensorView<'_, T>>; 2],
    [d_weight, d_bias]: [Option<&'v TensorViewMut<'_, T>>; 2],
) -> Tensors<'v> {
    [
        Some(Named::read("x", x)),
        Some(Named::read("dy", dy)),
        d_sum.map(|d_sum| Named::read("d_sum", d_sum)),
        Some(Named::written("dx", dx)),
        weight.map(|weight| Named::read("weight", weight)),
        d_weight.map(|d_weight| Named::written("d_weight", d_weight)),
        d_bias.map(|d_bias| Named::written("d_bias", d_bias)),
    ]
}

pub(super) fn select(problem: &Problem) -> Selection<'_, ROWS> {
    let element = problem.matrices.operands[0].tensor.dtype.name();
    problem.select(TABLE.kernels(&element), false, 8)
}

impl NormGradientPlan {
    pub(super) fn new<T>(norm: &Norm<'_, T>, problem: Problem, tensors: &Tensors<'_>) -> Result<Self> {
        let selection = select(&problem);
        let (choice, prepared) = selection.prepare(norm.kernel, norm.overlap)?;
        let (matrices, device) = (&problem.matrices, &problem.matrices.device);
        let lines = (prepared.ctas() / choice.descriptor().ctas) as usize;
        let cols = matrices.cols.next_multiple_of(VECTOR);
        let (mut parts, mut sums, mut wanted) = ([Planned::new(absent()); 2], Vec::new(), 0);
        for (i, parts) in parts.iter_mut().enumerate() {
            let number = D_WEIGHT + i;
            let Some(to) = tensors.get(number).and_then(Option::as_ref) else { continue };
            if lines > 0 {
                *parts = lines_at(device, wanted, [lines, cols])?;
            }
            sums.push((*parts, vector(device, to.planned(number))?));
            wanted += 1;
        }
        let how = How {
            summed: !matrices.operands[2].once,
            weight: problem.columns()?[0],
            parts,
            per_column: 1.0 / matrices.cols as f32,
            epsilon: norm.epsilon,
            centred: norm.centred.into(),
        };
        let dtype = matrices.operands[0].tensor.dtype;
        let sums = Sums::new(device, dtype, matrices.cols, &sums, norm.overlap)?;
        let workspace_len = wanted * lines * cols;
        Ok(NormGradientPlan { choice, operands: problem.operands, prepared, how, sums, workspace_len })
    }

    /// Elements of the [workspace](NormGradientViews::workspace) that a run needs: 0 if neither the gradient by w nor that by b is wanted.
    pub fn workspace_len(&self) -> usize {
        self.workspace_len
    }

    /// Queues it on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or what is written overlaps another tensor; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &mut TensorViewMut<'_, T>,
        views: &mut NormGradientViews<'_, T>,
    ) -> Result<()> {
        let NormGradientViews { weight, d_sum, d_weight, d_bias, workspace } = views;
        let (read, written) = ([d_sum.as_ref(), weight.as_ref()], [d_weight.as_ref(), d_bias.as_ref()]);
        let workspace = workspace.as_ref();
        let memory = workspace.map(|workspace| Named::room("workspace", workspace));
        let places = self.places(stream, named([x, dy], dx, read, written), memory)?;
        self.launch(stream, places, room(workspace, self.workspace_len)?)
    }

    /// Where the tensors of a run lie.
    pub(super) fn places(
        &self,
        stream: &Stream,
        tensors: Tensors<'_>,
        room: Option<Named<'_>>,
    ) -> Result<Places> {
        self.operands.places(stream, tensors, room)
    }

    /// With parts at this address, of as many elements as are needed. What is written is borrowed by the caller exclusively, and the others.
    pub(super) fn launch(&self, stream: &Stream, places: Places, workspace: u64) -> Result<()> {
        let places = places.with_room(workspace);
        let How { summed, weight, parts, per_column, epsilon, centred } = self.how;
        let (weight, [d_weight, d_bias]) = (weight.at(&places), parts.map(|parts| parts.at(&places)));
        let args = |[x, dy, d_sum, dx]: [_; ROWS], order, number| NormGradientArgs {
            x,
            dy,
            d_sum: if summed { d_sum } else { absent().into() },
            weight,
            dx,
            d_weight,
            d_bias,
            order,
            per_column,
            epsilon,
            centred,
            continued: u32::from(number > 0),
        };
        // SAFETY: the arguments are those of `norm_gradient`, and of the others, which have the same. The tensors are like those of the plan, and
        // borrowed by the caller, dx exclusively; the workspace has a line for each cluster.
        unsafe { self.prepared.run(stream, &places, args)? };
        let Some(Sums { function, launch, tensors }) = &self.sums else { return Ok(()) };
        let [x, y, other_x, other_y] = tensors.map(|tensor| tensor.at(&places));
        let args = ColumnSumsArgs { x, y, other_x, other_y };
        // SAFETY: the arguments are those of `column_sums`. Its results are borrowed exclusively; the parts are read to their shapes. Programmatic launch only
        // moves what precedes the wait for the preceding grid.
        unsafe { function.launch_block(stream, launch, &args) }
    }
}

explained!(NormGradientPlan, Compiled);

impl Sums {
    /// Of parts and the vectors that they are added up to, as long as a row.
    fn new(
        device: &Device,
        dtype: DType,
        cols: usize,
        sums: &[(Planned, Planned)],
        overlap: bool,
    ) -> Result<Option<Self>> {
        let (Some(&(x, y)), Some(&(other_x, other_y)), 1..) = (sums.first(), sums.last(), cols) else {
            return Ok(None);
        };
        // A build may leave an architecture out.
        let able =
            |kernel: &&Compiled| device.runs(kernel.arch) && has(&tilewright_rows::KERNELS, kernel.arch);
        let mut of_type = COLUMN_SUMS.iter().filter(|kernel| kernel.element == dtype.name());
        let Some(kernel) = of_type.clone().find(able).or_else(|| of_type.next()) else {
            return Err(Error::argument("x", dtype.name(), "of a type that there are kernels for"));
        };
        let function = device.listed(&tilewright_rows::KERNELS, kernel)?;
        let launch = Launch::grid([(cols as u32).div_ceil(kernel.tile[1]), sums.len() as u32, 1]);
        let launch = launch.pdl(overlap && kernel.arch == Arch::Sm90a);
        Ok(Some(Sums { function, launch, tensors: [x, y, other_x, other_y] }))
    }
}

/// The parts of one gradient in a plan's workspace, behind those of others.
fn lines_at(device: &Device, others: usize, [lines, cols]: [usize; 2]) -> Result<Planned> {
    let dtype = DType::F32;
    let address = PLANNED_ROOM + (others * lines * cols * dtype.bytes()) as u64;
    let layout = Layout::strided(&[1, lines, cols], &[0, cols, 1])?;
    Ok(Planned::new(Untyped { address, dtype, layout }.arg(device.backend(), true, 0)?))
}
