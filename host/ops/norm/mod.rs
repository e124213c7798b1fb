//! RMSNorm and LayerNorm of rows.

mod gradient;
mod gradient_plan;
mod plan;
mod problem;

use std::sync::LazyLock;

use tilewright_rows::NORM;

pub use gradient::NormGradient;
pub use gradient_plan::{NormGradientPlan, NormGradientViews};
pub use plan::{NormPlan, NormViews};
use problem::{Problem, ROWS};

use super::frame::{Candidate, Choice, Named, Table};
use super::rows::{Compiled, FloatElement, Selection};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute a norm, or why it could not.
pub type NormCandidate = Candidate<Compiled>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(NORM.iter().map(|k| (k.element, *k))));

/// y = x / sqrt(mean of x² + epsilon) w over the last dimension: see [`Norm`].
pub fn rms_norm<T: FloatElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    weight: &TensorView<'_, T>,
    epsilon: f32,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Norm::rms().weight(weight).epsilon(epsilon).run(stream, x, y)
}

/// y = (x - mean) / sqrt(variance + epsilon) w + b over the last dimension: see [`Norm`].
pub fn layer_norm<T: FloatElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    weight: &TensorView<'_, T>,
    bias: &TensorView<'_, T>,
    epsilon: f32,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Norm::layer().weight(weight).bias(bias).epsilon(epsilon).run(stream, x, y)
}

/// RMSNorm, y = s / sqrt(mean of s² + epsilon) w + b, or LayerNorm, the same of s minus its mean, over the last dimension of s = x or
/// s = x + residual; and its [gradients](Self::gradient).
///
/// - x, y, and for [`run_added`](Self::run_added) residual and sum have one shape, of 1 to 5 dimensions, each with any strides: rows are those
///   of the last dimension, of any length. w and b are vectors as long as a row; 1 and 0 unless set.
/// - f16, bf16 and f32, the same for all; s, its mean and variance in f32, the variance of distances from the mean; results are rounded once, to
///   nearest even. The norm is that of s in f32, not of the rounded sum.
/// - A row with a NaN is NaN throughout; LayerNorm's with an infinity too. Where squares overflow f32, RMSNorm's elements are 0 times w plus b,
///   and NaN where they are infinite. A row of zeros is zeros times w plus b.
/// - No rows, or rows without elements: nothing is done.
/// - Rows that are aligned to 16 bytes and multiples of that long are read once, if they have at most 16384 elements or, on Hopper, 262144,
///   with a residual 196608; so are, on Hopper, rows of up to 53241 elements (f32 53245) of contiguous tensors that are aligned, as w and b are.
///   All others are correct but slower.
///
/// A call allocates no device memory and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits. What is
/// called again and again is [planned](Self::plan) once.
///
/// ```
/// use tilewright::ops::{Norm, rms_norm};
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let stream = device.default_stream();
/// let x = Tensor::<f32>::from_slice(&device, &[2.0, -2.0, 1.0, 1.0], &[2, 2])?;
/// let w = Tensor::<f32>::from_slice(&device, &[1.0, 3.0], &[2])?;
/// let mut y = Tensor::<f32>::zeros(&device, &[2, 2])?;
/// rms_norm(&stream, &x.view(), &w.view(), 0.0, &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [1.0, -3.0, 1.0, 3.0]);
/// // y = layer_norm(x + r), s = x + r
/// let r = Tensor::<f32>::zeros(&device, &[2, 2])?;
/// let mut s = Tensor::<f32>::zeros(&device, &[2, 2])?;
/// Norm::layer().run_added(&stream, &x.view(), &r.view(), &mut s.view_mut(), &mut y.view_mut())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Norm<'a, T> {
    centred: bool,
    epsilon: f32,
    weight: Option<&'a TensorView<'a, T>>,
    bias: Option<&'a TensorView<'a, T>>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl<'a, T: FloatElement> Norm<'a, T> {
    /// RMSNorm.
    pub fn rms() -> Self {
        Norm { centred: false, epsilon: 1e-5, weight: None, bias: None, kernel: None, overlap: true }
    }
    /// LayerNorm.
    pub fn layer() -> Self {
        Norm { centred: true, ..Self::rms() }
    }
    /// What is added to the mean square: not negative, finite; 1e-5 unless set.
    pub fn epsilon(self, epsilon: f32) -> Self {
        Norm { epsilon, ..self }
    }
    /// w, a factor for each column.
    pub fn weight(self, weight: &'a TensorView<'a, T>) -> Self {
        Norm { weight: Some(weight), ..self }
    }
    /// b, what is added to each column.
    pub fn bias(self, bias: &'a TensorView<'a, T>) -> Self {
        Norm { bias: Some(bias), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Norm { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Norm { overlap, ..self }
    }

    /// The gradients of it.
    pub fn gradient(&self) -> NormGradient<'a, T> {
        NormGradient::new(self)
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates(&self, x: &TensorView<'_, T>, y: &TensorViewMut<'_, T>) -> Result<Vec<NormCandidate>> {
        let tensors = plan::named(x, y, [self.weight, self.bias]);
        Ok(select(&self.problem(x, y, tensors)?, false).candidates())
    }

    /// The same for [`run_added`](Self::run_added).
    pub fn candidates_added(
        &self,
        x: &TensorView<'_, T>,
        residual: &TensorView<'_, T>,
        sum: &TensorViewMut<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<NormCandidate>> {
        let tensors = plan::added(x, residual, sum, y, [self.weight, self.bias]);
        Ok(select(&self.problem(x, y, tensors)?, true).candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors, and weight
    /// and bias, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan(&self, x: &TensorView<'_, T>, y: &TensorViewMut<'_, T>) -> Result<NormPlan> {
        NormPlan::new(self, self.problem(x, y, plan::named(x, y, [self.weight, self.bias]))?, false)
    }

    /// The same for [`NormPlan::run_added`].
    pub fn plan_added(
        &self,
        x: &TensorView<'_, T>,
        residual: &TensorView<'_, T>,
        sum: &TensorViewMut<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<NormPlan> {
        let tensors = plan::added(x, residual, sum, y, [self.weight, self.bias]);
        NormPlan::new(self, self.problem(x, y, tensors)?, true)
    }

    /// Queues it on `stream`, y = norm(x): [`plan`](Self::plan), and [`NormPlan::run`].
    ///
    /// Fails when the shapes differ, a view lies on another device, y overlaps another tensor, or epsilon is none.
    pub fn run(&self, stream: &Stream, x: &TensorView<'_, T>, y: &mut TensorViewMut<'_, T>) -> Result<()> {
        self.plan(x, y)?.launch(stream, plan::named(x, y, [self.weight, self.bias]))
    }

    /// Queues it on `stream`, sum = x + residual, y = norm(x + residual): [`plan_added`](Self::plan_added), and [`NormPlan::run_added`].
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_added(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        residual: &TensorView<'_, T>,
        sum: &mut TensorViewMut<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let tensors = plan::added(x, residual, sum, y, [self.weight, self.bias]);
        self.plan_added(x, residual, sum, y)?.launch(stream, tensors)
    }

    /// Checks that tensors fit together, x and y among them.
    fn problem(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
        tensors: plan::Tensors<'_>,
    ) -> Result<Problem> {
        Problem::new(self.epsilon, y.device(), Named::read("x", x), tensors)
    }
}

fn select(problem: &Problem, residual: bool) -> Selection<'_, ROWS> {
    let element = problem.matrices.operands[0].tensor.dtype.name();
    problem.select(TABLE.kernels(&element), residual, 5)
}
