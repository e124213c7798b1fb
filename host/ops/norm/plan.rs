//! A norm's kernel and launches, for tensors wherever they lie.

use tilewright_rows::NormArgs;

use super::problem::{Problem, ROWS};
use super::{Norm, select};
use crate::ops::frame::{Named, Operands, Plan, absent, explained};
use crate::ops::rows::{Compiled, FloatElement, Planned, Prepared};
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a norm, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`Norm::plan`] or [`Norm::plan_added`], and runs many times, on any stream, from any
/// thread. It derefs to the [`Plan`] that explains the choice of its kernel.
///
/// ```
/// use tilewright::ops::{Norm, NormViews};
/// use tilewright::{Device, Tensor, TensorView, TensorViewMut};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = TensorView::<f32>::without_memory(&device, &[2, 4], &[4, 1], 16)?;
/// let w = TensorView::<f32>::without_memory(&device, &[4], &[1], 16)?;
/// let y = TensorViewMut::<f32>::without_memory(&device, &[2, 4], &[4, 1], 16)?;
/// let plan = Norm::rms().weight(&w).epsilon(0.0).plan(&x, &y)?;
///
/// let w = Tensor::<f32>::filled(&device, 3.0, &[4])?;
/// let views = NormViews { weight: Some(w.view()), bias: None };
/// for step in 1..3 {
///     let x = Tensor::<f32>::filled(&device, step as f32, &[2, 4])?;
///     let mut y = Tensor::<f32>::zeros(&device, &[2, 4])?;
///     plan.run(&device.default_stream(), &x.view(), &mut y.view_mut(), &views)?;
///     assert_eq!(y.to_vec()?, [3.0; 8]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NormPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    prepared: Prepared<ROWS>,
    how: How,
}

/// What kernels are told beside tensors of rows.
#[derive(Clone, Copy, Debug)]
struct How {
    /// Whether a residual is added.
    added: bool,
    /// Weight and bias, at the places of the plan.
    columns: [Planned; 2],
    per_column: f32,
    epsilon: f32,
    centred: u32,
}

/// What a [`NormPlan`] runs on beside tensors of rows: given where the plan was made with it.
#[derive(Clone, Debug)]
pub struct NormViews<'a, T: Element> {
    /// See [`Norm::weight`].
    pub weight: Option<TensorView<'a, T>>,
    /// See [`Norm::bias`].
    pub bias: Option<TensorView<'a, T>>,
}

impl<T: Element> Default for NormViews<'_, T> {
    fn default() -> Self {
        NormViews { weight: None, bias: None }
    }
}

/// The tensors of a norm, in the order of a plan's: x, the residual, the sum, y, weight and bias.
pub(super) type Tensors<'v> = [Option<Named<'v>>; 6];

/// Those of a norm of x; of weight and bias those that are there.
pub(super) fn named<'v, T: FloatElement>(
    x: &'v TensorView<'_, T>,
    y: &'v TensorViewMut<'_, T>,
    [weight, bias]: [Option<&'v TensorView<'_, T>>; 2],
) -> Tensors<'v> {
    let weight = weight.map(|weight| Named::read("weight", weight));
    let bias = bias.map(|bias| Named::read("bias", bias));
    [Some(Named::read("x", x)), None, None, Some(Named::written("y", y)), weight, bias]
}

/// The same of a sum.
pub(super) fn added<'v, T: FloatElement>(
    x: &'v TensorView<'_, T>,
    residual: &'v TensorView<'_, T>,
    sum: &'v TensorViewMut<'_, T>,
    y: &'v TensorViewMut<'_, T>,
    vectors: [Option<&'v TensorView<'_, T>>; 2],
) -> Tensors<'v> {
    let [x, _, _, y, weight, bias] = named(x, y, vectors);
    [x, Some(Named::read("residual", residual)), Some(Named::written("sum", sum)), y, weight, bias]
}

impl NormPlan {
    pub(super) fn new<T>(norm: &Norm<'_, T>, problem: Problem, added: bool) -> Result<Self> {
        let (choice, prepared) = select(&problem, added).prepare(norm.kernel, norm.overlap)?;
        let how = How {
            added,
            columns: problem.columns()?,
            per_column: 1.0 / problem.matrices.cols as f32,
            epsilon: norm.epsilon,
            centred: norm.centred.into(),
        };
        Ok(NormPlan { choice, operands: problem.operands, prepared, how })
    }

    /// Queues it on `stream`: y = norm(x).
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or y overlaps another
    /// tensor; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
        views: &NormViews<'_, T>,
    ) -> Result<()> {
        self.launch(stream, named(x, y, [views.weight.as_ref(), views.bias.as_ref()]))
    }

    /// Queues it on `stream`: sum = x + residual, y = norm(x + residual), for a plan of [`Norm::plan_added`].
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_added<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        residual: &TensorView<'_, T>,
        sum: &mut TensorViewMut<'_, T>,
        y: &mut TensorViewMut<'_, T>,
        views: &NormViews<'_, T>,
    ) -> Result<()> {
        self.launch(stream, added(x, residual, sum, y, [views.weight.as_ref(), views.bias.as_ref()]))
    }

    /// What is written is borrowed by the caller exclusively, and the others.
    pub(super) fn launch(&self, stream: &Stream, tensors: Tensors<'_>) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        let How { added, columns, per_column, epsilon, centred } = self.how;
        let [weight, bias] = columns.map(|vector| vector.at(&places));
        let args = |[x, residual, sums, y]: [_; ROWS], order, _| {
            let [residual, sums] = if added { [residual, sums] } else { [absent().into(); 2] };
            NormArgs { x, residual, weight, bias, y, sums, order, per_column, epsilon, centred }
        };
        // SAFETY: the arguments are those of `norm`, and of `norm_long`, which has the same. The tensors are like those of the plan, and borrowed by the
        // caller, y and the sum exclusively.
        unsafe { self.prepared.run(stream, &places, args) }
    }
}

explained!(NormPlan, Compiled);
