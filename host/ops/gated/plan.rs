//! The kernels of gated units and their launches, for tensors wherever they lie.

use tilewright_pointwise::{GatedArgs, GatedGradientArgs, Operator};

use super::problem::{Problem, halves, named};
use super::{Activation, Gated};
use crate::ops::FloatElement;
use crate::ops::frame::{Choice, Named, Operands, explained};
use crate::ops::pointwise::{Compiled, PointwisePlan, Prepared};
use crate::{Device, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a gated unit, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`Gated::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`](crate::ops::Plan) that explains the choice of its kernel.
///
/// ```
/// use tilewright::ops::{Activation, Gated};
/// use tilewright::{Device, Tensor, TensorView, TensorViewMut};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = TensorView::<f32>::without_memory(&device, &[1, 4], &[4, 1], 16)?;
/// let y = TensorViewMut::<f32>::without_memory(&device, &[1, 2], &[2, 1], 16)?;
/// let plan = Gated::new(Activation::Relu).plan_packed(&x, &y)?;
///
/// for gate in [2.0, 3.0] {
///     let x = Tensor::<f32>::from_slice(&device, &[gate, -1.0, 3.0, 5.0], &[1, 4])?;
///     let mut y = Tensor::<f32>::zeros(&device, &[1, 2])?;
///     plan.run_packed(&device.default_stream(), &x.view(), &mut y.view_mut())?;
///     assert_eq!(y.to_vec()?, [3.0 * gate, 0.0]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GatedPlan {
    choice: PointwisePlan,
    operands: Operands,
    prepared: Prepared<3>,
    activation: Activation,
}

impl GatedPlan {
    pub(super) fn new(gated: &Gated<'_>, device: &Device, tensors: [Named<'_>; 3]) -> Result<Self> {
        let problem = Problem::new(device, tensors)?;
        let (choice, prepared) = prepare(gated, &problem, Operator::Gated)?;
        Ok(GatedPlan { choice, operands: problem.operands, prepared, activation: gated.activation })
    }

    /// Queues it on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or y overlaps gate or
    /// up; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        gate: &TensorView<'_, T>,
        up: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.launch(stream, named([("gate", gate), ("up", up)], [("y", y)]))
    }

    /// Queues it on `stream` for x that holds gate and up side by side in its last dimension.
    ///
    /// Fails as [`run`](Self::run) does, and unless x has twice the columns of y.
    pub fn run_packed<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let [gate, up] = halves("x", x, ("y", y.shape()))?;
        self.launch(stream, named([("x", &gate), ("x", &up)], [("y", y)]))
    }

    /// Y is borrowed by the caller exclusively, and the others.
    fn launch(&self, stream: &Stream, tensors: [Named<'_>; 3]) -> Result<()> {
        let places = self.operands.places(stream, tensors.map(Some), None)?;
        let activation = self.activation as u32;
        // SAFETY: the arguments are those of `gated`. The tensors are like those of the plan, and borrowed by the caller, y exclusively.
        unsafe {
            self.prepared.run(stream, &places, |[gate, up, y], order| GatedArgs {
                gate,
                up,
                y,
                order,
                activation,
            })
        }
    }
}

explained!(GatedPlan, Compiled);

/// The same of the gradients of a gated unit: see [`Gated::plan_gradient`].
#[derive(Clone, Debug)]
pub struct GatedGradientPlan {
    choice: PointwisePlan,
    operands: Operands,
    prepared: Prepared<5>,
    activation: Activation,
}

impl GatedGradientPlan {
    pub(super) fn new(gated: &Gated<'_>, device: &Device, tensors: [Named<'_>; 5]) -> Result<Self> {
        let problem = Problem::new(device, tensors)?;
        let (choice, prepared) = prepare(gated, &problem, Operator::GatedGradient)?;
        Ok(GatedGradientPlan { choice, operands: problem.operands, prepared, activation: gated.activation })
    }

    /// Queues the gradients by gate and up on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or what is written
    /// overlaps another tensor; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        [gate, up, dy]: [&TensorView<'_, T>; 3],
        d_gate: &mut TensorViewMut<'_, T>,
        d_up: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let read = [("gate", gate), ("up", up), ("dy", dy)];
        self.launch(stream, named(read, [("d_gate", d_gate), ("d_up", d_up)]))
    }

    /// What is written is borrowed by the caller exclusively, and the others.
    pub(super) fn launch(&self, stream: &Stream, tensors: [Named<'_>; 5]) -> Result<()> {
        let places = self.operands.places(stream, tensors.map(Some), None)?;
        let activation = self.activation as u32;
        // SAFETY: as above, of `gated_gradient`.
        unsafe {
            self.prepared.run(stream, &places, |[gate, up, dy, d_gate, d_up], order| GatedGradientArgs {
                gate,
                up,
                dy,
                d_gate,
                d_up,
                order,
                activation,
            })
        }
    }
}

explained!(GatedGradientPlan, Compiled);

/// The kernel of a unit, and its launches.
fn prepare<const N: usize>(
    gated: &Gated<'_>,
    problem: &Problem<N>,
    operator: Operator,
) -> Result<(PointwisePlan, Prepared<N>)> {
    let (lies, options) = (problem.pieces.lies(), gated.options);
    let choice = problem.call(operator, &lies).choose(options.kernel)?;
    let pieces = problem.pieces.clone();
    let prepared = Prepared::new(&problem.device, pieces, choice.descriptor(), options.overlap)?;
    Ok((choice, prepared))
}
