//! The gradient of softmax and log-softmax.

use std::sync::LazyLock;

use tilewright_rows::{SOFTMAX_GRADIENT, SoftmaxGradientArgs};

use super::{Softmax, SoftmaxCandidate, SoftmaxPlan};
use crate::ops::frame::{Choice, Named, Table, check, of_shape};
use crate::ops::rows::{Compiled, FloatElement, Matrices, Operand, Selection};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(SOFTMAX_GRADIENT.iter().map(|k| (k.element, *k))));

impl Softmax<'_> {
    /// Every compiled kernel for the gradient and this element type, the best by estimate first, with the reason for those that cannot compute
    /// this.
    pub fn candidates_gradient<T: FloatElement>(
        &self,
        y: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<Vec<SoftmaxCandidate>> {
        Ok(select(&self.gradient(y, dy, dx)?).candidates())
    }

    /// The kernel that [`run_gradient`](Self::run_gradient) would launch, and why.
    pub fn plan_gradient<T: FloatElement>(
        &self,
        y: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<SoftmaxPlan> {
        select(&self.gradient(y, dy, dx)?).choose(self.kernel)
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
        let matrices = self.gradient(y, dy, dx)?;
        let (scale, log) = (self.scale, u32::from(self.log));
        let args = |[y, dy, dx]: [_; 3], order| SoftmaxGradientArgs { y, dy, dx, order, scale, log };
        // SAFETY: the arguments are those of `softmax_gradient`, and of `softmax_gradient_held` and `softmax_gradient_long`, which have the same. dx is borrowed exclusively.
        unsafe { select(&matrices).queue(stream, (self.kernel, self.overlap), args) }
    }

    /// Checks the gradient's arguments.
    fn gradient<T: FloatElement>(
        &self,
        y: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<Matrices<3>> {
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
        check(dx.device(), [Named::read("y", y), Named::read("dy", dy), Named::written("dx", dx)])?;
        let operands = [("y", y.untyped()), ("dy", dy.untyped()), ("dx", dx.untyped())];
        Ok(Matrices::new(dx.device(), operands.map(|(name, tensor)| Operand::new(name, tensor))))
    }
}

fn select(matrices: &Matrices<3>) -> Selection<'_, 3> {
    Selection::of_rows(matrices, &TABLE)
}
