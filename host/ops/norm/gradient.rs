//! The gradients of RMSNorm and LayerNorm.

use super::gradient_plan::{NormGradientPlan, Tensors, named, select};
use super::problem::Problem;
use super::{Norm, NormCandidate};
use crate::ops::frame::{Choice, Named, Workspace};
use crate::ops::rows::FloatElement;
use crate::{Result, Stream, TensorView, TensorViewMut};

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
/// can be captured in a [`Graph`](crate::Graph). What is called again and again is [planned](Self::plan) once.
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
        Ok(select(&self.problem(x, dx, self.named(x, dy, dx))?).candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, the one that adds up its parts, and how they are
    /// launched. All tensors may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernels, which takes the driver a while the first time.
    pub fn plan(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<NormGradientPlan> {
        let tensors = self.named(x, dy, dx);
        NormGradientPlan::new(&self.norm, self.problem(x, dx, tensors)?, &tensors)
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: those of the [`plan`](Self::plan).
    pub fn workspace_len(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        Ok(self.plan(x, dy, dx)?.workspace_len())
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`NormGradientPlan::run`].
    ///
    /// Fails when shapes do not fit, a view lies on another device, what is written overlaps another tensor, or epsilon is none.
    pub fn run(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let plan = self.plan(x, dy, dx)?;
        let places = plan.places(stream, self.named(x, dy, dx), self.workspace.named())?;
        self.workspace.lend(plan.workspace_len(), stream, |address| plan.launch(stream, places, address))
    }

    fn named<'v>(
        &'v self,
        x: &'v TensorView<'_, T>,
        dy: &'v TensorView<'_, T>,
        dx: &'v TensorViewMut<'_, T>,
    ) -> Tensors<'v> {
        let (read, written) =
            ([self.d_sum, self.norm.weight], [self.d_weight.as_ref(), self.d_bias.as_ref()]);
        named([x, dy], dx, read, written)
    }

    /// Checks that tensors fit together, x and dx among them.
    fn problem(
        &self,
        x: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
        tensors: Tensors<'_>,
    ) -> Result<Problem> {
        Problem::new(self.norm.epsilon, dx.device(), Named::read("x", x), tensors)
    }
}
