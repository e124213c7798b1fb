//! A cross-entropy's kernel and launches, for tensors wherever they lie.

use tilewright_rows::CrossEntropyArgs;

use super::CrossEntropy;
use super::problem::Problem;
use crate::ops::IndexElement;
use crate::ops::frame::{Named, Operands, Plan, absent, explained};
use crate::ops::rows::{self, Compiled, FloatElement, Prepared};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a cross-entropy, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`CrossEntropy::plan`] or [`CrossEntropy::plan_loss`], and runs many times, on any stream,
/// from any thread. It derefs to the [`Plan`] that explains the choice of its kernel.
///
/// ```
/// use tilewright::ops::CrossEntropy;
/// use tilewright::{Device, Tensor, TensorView, TensorViewMut};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let logits = TensorView::<f32>::without_memory(&device, &[2, 4], &[4, 1], 16)?;
/// let labels = TensorView::<i64>::without_memory(&device, &[2], &[1], 16)?;
/// let loss = TensorViewMut::<f32>::without_memory(&device, &[2], &[1], 16)?;
/// let plan = CrossEntropy::new().plan_loss(&logits, &labels, &loss)?;
///
/// for step in 0..2 {
///     let logits = Tensor::<f32>::filled(&device, step as f32, &[2, 4])?;
///     let labels = Tensor::<i64>::from_slice(&device, &[step, 3], &[2])?;
///     let mut loss = Tensor::<f32>::zeros(&device, &[2])?;
///     plan.run(&device.default_stream(), &logits.view(), &labels.view(), &mut loss.view_mut(), None)?;
///     assert!(loss.to_vec()?.iter().all(|loss| (loss - 4f32.ln()).abs() < 1e-6));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CrossEntropyPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    prepared: Prepared<4>,
    how: How,
}

/// What kernels are told beside tensors of rows.
#[derive(Clone, Copy, Debug)]
struct How {
    /// Words of 32 bits of a label.
    label_words: u32,
    /// Whether the gradient is wanted.
    gradient: bool,
    ignored: i32,
    smoothing: f32,
    z_loss: f32,
    scale: f32,
}

/// The tensors of a cross-entropy, in the order of a plan's.
pub(super) fn named<'v, T: FloatElement, I: IndexElement>(
    logits: &'v TensorView<'_, T>,
    labels: &'v TensorView<'_, I>,
    loss: &'v TensorViewMut<'_, f32>,
    gradient: Option<&'v TensorViewMut<'_, T>>,
) -> [Option<Named<'v>>; 4] {
    [
        Some(Named::read("logits", logits)),
        Some(Named::read("labels", labels)),
        Some(Named::written("loss", loss)),
        gradient.map(|gradient| Named::written("gradient", gradient)),
    ]
}

impl CrossEntropyPlan {
    pub(super) fn new(options: &CrossEntropy<'_>, problem: Problem) -> Result<Self> {
        let &CrossEntropy { ignored, smoothing, z_loss, scale, kernel, overlap } = options;
        let (choice, prepared) = problem.select().prepare(kernel, overlap)?;
        let gradient = !problem.matrices.operands[3].once;
        let how = How { label_words: problem.label_words, gradient, ignored, smoothing, z_loss, scale };
        Ok(CrossEntropyPlan { choice, operands: problem.operands, prepared, how })
    }

    /// Queues the loss on `stream`, and the gradient if the plan was made with it.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or what is written overlaps another tensor; the error names it.
    pub fn run<T: FloatElement, I: IndexElement>(
        &self,
        stream: &Stream,
        logits: &TensorView<'_, T>,
        labels: &TensorView<'_, I>,
        loss: &mut TensorViewMut<'_, f32>,
        gradient: Option<&mut TensorViewMut<'_, T>>,
    ) -> Result<()> {
        let tensors = named(logits, labels, loss, gradient.as_deref());
        let places = self.operands.places(stream, tensors, None)?;
        let How { label_words, gradient, ignored, smoothing, z_loss, scale } = self.how;
        let args = |[x, mut labels, losses, gradients]: [rows::Tensor; 4], order, _| {
            (labels.shape[2], labels.strides[2]) = (label_words, 1);
            let gradients = if gradient { gradients } else { absent().into() };
            CrossEntropyArgs { x, labels, losses, gradients, order, ignored, smoothing, z_loss, scale }
        };
        // SAFETY: the arguments are those of `cross_entropy`, and of `cross_entropy_long`, which has the same. The tensors are like those of the plan, and
        // borrowed, loss and gradient exclusively; of losses the kernels use the first column, of labels as many as they have words, and of
        // logits those that are inside.
        unsafe { self.prepared.run(stream, &places, args) }
    }
}

explained!(CrossEntropyPlan, Compiled);
