//! A softmax's kernel and launches, for tensors wherever they lie.

use tilewright_rows::{MaskedSoftmaxArgs, SoftmaxArgs};

use super::{How, Problem, Softmax};
use crate::ops::frame::{Named, Operands, Plan, absent, explained};
use crate::ops::rows::{Compiled, FloatElement, Prepared};
use crate::{DType, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a softmax, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`Softmax::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel.
///
/// ```
/// use tilewright::ops::Softmax;
/// use tilewright::{Device, Tensor, TensorView, TensorViewMut};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = TensorView::<f32>::without_memory(&device, &[2, 4], &[4, 1], 16)?;
/// let y = TensorViewMut::<f32>::without_memory(&device, &[2, 4], &[4, 1], 16)?;
/// let plan = Softmax::new().plan(&x, &y)?;
///
/// for step in 0..2 {
///     let x = Tensor::<f32>::filled(&device, step as f32, &[2, 4])?;
///     let mut y = Tensor::<f32>::zeros(&device, &[2, 4])?;
///     plan.run(&device.default_stream(), &x.view(), &mut y.view_mut())?;
///     assert_eq!(y.to_vec()?, [0.25; 8]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SoftmaxPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    prepared: Prepared<3>,
    how: How,
}

/// The tensors of a softmax, in the order of a plan's.
pub(super) fn named<'v, T: FloatElement>(
    x: &'v TensorView<'_, T>,
    y: &'v TensorViewMut<'_, T>,
    mask: Option<Named<'v>>,
) -> [Option<Named<'v>>; 3] {
    [Some(Named::read("x", x)), Some(Named::written("y", y)), mask]
}

impl SoftmaxPlan {
    pub(super) fn new(softmax: &Softmax<'_>, problem: Problem) -> Result<Self> {
        let (choice, prepared) = problem.select().prepare(softmax.kernel, softmax.overlap)?;
        Ok(SoftmaxPlan { choice, operands: problem.operands, prepared, how: problem.how })
    }

    /// Queues it on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or y overlaps x, and
    /// where the plan was made with a mask; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.launch(stream, named(x, y, None))
    }

    /// Queues it on `stream`, with a mask like the one that the plan was made with.
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_masked<T: FloatElement, M: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        mask: &TensorView<'_, M>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.launch(stream, named(x, y, Some(Named::read("mask", mask))))
    }

    /// Y is borrowed by the caller exclusively, and the others.
    pub(super) fn launch(&self, stream: &Stream, tensors: [Option<Named<'_>>; 3]) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        match self.how {
            How::Plain { scale, log } => {
                let args = |[x, _, y]: [_; 3], order, _| SoftmaxArgs { x, y, order, scale, log };
                // SAFETY: the arguments are those of `softmax`, and of `softmax_long`, which has the same. The tensors are like those of the plan, and
                // borrowed by the caller, y exclusively.
                unsafe { self.prepared.run(stream, &places, args) }
            }
            How::Masked { scale, log, causal, mask } => {
                let args = |[x, scores, y]: [_; 3], order, _| {
                    let [narrow, wide] = match mask {
                        None => [absent().into(); 2],
                        Some(DType::F32) => [absent().into(), scores],
                        Some(_) => [scores, absent().into()],
                    };
                    MaskedSoftmaxArgs { x, mask: narrow, wide_mask: wide, y, order, scale, log, causal }
                };
                // SAFETY: as above, of `masked_softmax`, and of those of longer rows, which have the same arguments.
                unsafe { self.prepared.run(stream, &places, args) }
            }
        }
    }
}

explained!(SoftmaxPlan, Compiled);
