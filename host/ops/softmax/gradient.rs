//! The gradient of softmax and log-softmax.

use std::sync::LazyLock;

use tilewright_rows::{SOFTMAX_GRADIENT, SoftmaxGradientArgs};

use super::{Softmax, SoftmaxCandidate};
use crate::ops::frame::{Choice, Named, Operands, Plan, Table, explained, of_shape};
use crate::ops::rows::{Compiled, FloatElement, Matrices, Operand, Prepared, Selection};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(SOFTMAX_GRADIENT.iter().map(|k| (k.element, *k))));

/// The kernel that computes a softmax's gradient, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`Softmax::plan_gradient`], and runs many times, on any stream, from any thread. It derefs
/// to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct SoftmaxGradientPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    prepared: Prepared<3>,
    scale: f32,
    log: u32,
}

/// The tensors of a gradient, in the order of a plan's.
fn named<'v, T: FloatElement>(
    y: &'v TensorView<'_, T>,
    dy: &'v TensorView<'_, T>,
    dx: &'v TensorViewMut<'_, T>,
) -> [Named<'v>; 3] {
    [Named::read("y", y), Named::read("dy", dy), Named::written("dx", dx)]
}

impl SoftmaxGradientPlan {
    /// Queues the gradient by x on `stream`, as [`Softmax::run_gradient`] does.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or dx overlaps another
    /// tensor; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        y: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let places = self.operands.places(stream, named(y, dy, dx).map(Some), None)?;
        let &SoftmaxGradientPlan { scale, log, .. } = self;
        let args = |[y, dy, dx]: [_; 3], order, _| SoftmaxGradientArgs { y, dy, dx, order, scale, log };
        // SAFETY: the arguments are those of `softmax_gradient`, and of `softmax_gradient_held` and `softmax_gradient_long`, which have the same. The
        // tensors are like those of the plan, and borrowed, dx exclusively.
        unsafe { self.prepared.run(stream, &places, args) }
    }
}

explained!(SoftmaxGradientPlan, Compiled);

impl Softmax<'_> {
    /// Every compiled kernel for the gradient and this element type, the best by estimate first, with the reason for those that cannot compute
    /// this.
    pub fn candidates_gradient<T: FloatElement>(
        &self,
        y: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<Vec<SoftmaxCandidate>> {
        let (_, matrices) = self.gradient(y, dy, dx)?;
        Ok(select(&matrices).candidates())
    }

    /// A plan of the gradient for tensors of these shapes, strides and alignments, which runs many times, as [`plan`](Self::plan) makes of softmax.
    pub fn plan_gradient<T: FloatElement>(
        &self,
        y: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<SoftmaxGradientPlan> {
        let (operands, matrices) = self.gradient(y, dy, dx)?;
        let (choice, prepared) = select(&matrices).prepare(self.kernel, self.overlap)?;
        let (scale, log) = (self.scale, self.log.into());
        Ok(SoftmaxGradientPlan { choice, operands, prepared, scale, log })
    }

    /// Queues the gradient by x on `stream`, of y, the result that [`run`](Self::run) gave, and `dy`, the gradient by y: dx = s y (dy - Σ y dy), or
    /// s (dy - exp(y) Σ dy) for the logarithm.
    ///
    /// - y, dy and dx have one shape, of 1 to 5 dimensions, each with any strides; what is said of rows in [`Softmax`] holds.
    /// - Sums in f32; the result is rounded once, to nearest even. A NaN in a row of dy, or of y unless that is a logarithm, makes the row of dx NaN.
    /// - A mask needs nothing: where y is 0, so is dx, for finite dy; where y is a logarithm of -inf, dx is s dy. So it is in rows that have nothing
    ///   left.
    /// - Rows that are aligned to 16 bytes and multiples of that long are read once, if they have at most 8192 elements or, on Hopper,
    ///   131072; so are, on Hopper, rows of up to 53241 elements (f32 26621) of contiguous, aligned tensors. All others are correct but slower.
    ///
    /// Fails when the shapes differ, a view lies on another device, dx overlaps another tensor, or the scale is none.
    pub fn run_gradient<T: FloatElement>(
        &self,
        stream: &Stream,
        y: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan_gradient(y, dy, dx)?.run(stream, y, dy, dx)
    }

    /// Checks the gradient's arguments.
    fn gradient<T: FloatElement>(
        &self,
        y: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<(Operands, Matrices<3>)> {
        self.check_scale()?;
        if y.rank() == 0 {
            return Err(Error::argument("y", of_shape(y.shape()), "of 1 dimension or more"));
        }
        for (name, shape) in [("dy", dy.shape()), ("dx", dx.shape())] {
            if shape != y.shape() {
                let allowed = format!("{}, the shape of `y`", of_shape(y.shape()));
                return Err(Error::argument(name, of_shape(shape), allowed));
            }
        }
        let tensors = named(y, dy, dx);
        let operands = Operands::checked(dx.device(), tensors.map(Some))?;
        let rows = std::array::from_fn(|i| Operand::planned(&tensors[i], i));
        Ok((operands, Matrices::new(dx.device(), rows)))
    }
}

fn select(matrices: &Matrices<3>) -> Selection<'_, 3> {
    Selection::of_rows(matrices, &TABLE)
}
