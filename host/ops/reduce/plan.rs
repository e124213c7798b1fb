//! A reduction's kernels and launches, for tensors wherever they lie.

use super::Reduce;
use super::choose::{Compiled, Prepared};
use crate::ops::FloatElement;
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, Workspace, explained, room};
use crate::ops::reduce::ReducedFrom;
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a reduction, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`Reduce::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel.
///
/// ```
/// use tilewright::ops::{Reduce, Reduction};
/// use tilewright::{Device, Tensor, TensorView, TensorViewMut};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = TensorView::<f32>::without_memory(&device, &[2, 3], &[3, 1], 16)?;
/// let y = TensorViewMut::<f32>::without_memory(&device, &[2], &[1], 16)?;
/// let plan = Reduce::new(Reduction::Sum).plan(&x, &[1], &y)?;
///
/// for step in 0..2 {
///     let x = Tensor::<f32>::filled(&device, step as f32, &[2, 3])?;
///     let mut y = Tensor::<f32>::zeros(&device, &[2])?;
///     plan.run(&device.default_stream(), &x.view(), &mut y.view_mut(), None)?;
///     assert_eq!(y.to_vec()?, [3.0 * step as f32; 2]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReducePlan {
    choice: Plan<Compiled>,
    operands: Operands,
    prepared: Prepared,
}

/// The tensors of a reduction, in the order of a plan's.
fn named<'v, T: Element, U: Element>(
    x: &'v TensorView<'_, T>,
    y: &'v TensorViewMut<'_, U>,
) -> [Option<Named<'v>>; 2] {
    [Some(Named::read("x", x)), Some(Named::written("y", y))]
}

impl ReducePlan {
    pub(super) fn new<T: FloatElement, U: ReducedFrom<T>>(
        reduce: &Reduce<'_>,
        x: &TensorView<'_, T>,
        dims: &[usize],
        y: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let operands = Operands::new(y.device(), named(x, y));
        let problem = reduce.problem(&x.planned(0), dims, &y.planned(1))?;
        let choice = problem.choose(reduce.kernel)?;
        let prepared = problem.prepare(choice.descriptor(), reduce.overlap)?;
        Ok(ReducePlan { choice, operands, prepared })
    }

    /// Elements of the workspace that a run needs: 0 unless results are divided.
    pub fn workspace_len(&self) -> usize {
        self.prepared.workspace_len
    }

    /// Queues the reduction on `stream`.
    ///
    /// The workspace is as many elements as [`workspace_len`](Self::workspace_len) says, contiguous and aligned to 16 bytes, of any values. Runs that may
    /// be at work at the same time, on whatever streams, have memory of their own.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or y or the workspace
    /// overlaps another tensor; the error names it.
    pub fn run<T: FloatElement, U: ReducedFrom<T>>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, U>,
        workspace: Option<&mut TensorViewMut<'_, f32>>,
    ) -> Result<()> {
        let workspace = workspace.as_deref();
        let memory = workspace.map(|workspace| Named::room("workspace", workspace));
        let places = self.operands.places(stream, named(x, y), memory)?;
        self.launch(stream, places, room(workspace, self.workspace_len())?)
    }

    /// The same with an operator's workspace.
    pub(super) fn run_in<T: FloatElement, U: ReducedFrom<T>>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, U>,
        workspace: &mut Workspace<'_>,
    ) -> Result<()> {
        let places = self.operands.places(stream, named(x, y), workspace.named())?;
        workspace.lend(self.workspace_len(), stream, |address| self.launch(stream, places, address))
    }

    fn launch(&self, stream: &Stream, places: Places, workspace: u64) -> Result<()> {
        // SAFETY: the tensors are of the shapes and strides that the problem was made of, borrowed by the caller, y exclusively; so is the
        // workspace, which has as many elements as are needed.
        unsafe { self.prepared.run(stream, &places.with_room(workspace)) }
    }
}

explained!(ReducePlan, Compiled);
