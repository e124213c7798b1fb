//! Gradients of a convolution, of its images and of its filters.

use super::choose::Selection;
use super::geometry::{Geometry, of_last};
use super::gradient_plan::{ConvFiltersPlan, ConvImagesPlan};
use super::options::geometry_options;
use super::problem::{Problem, Tensors};
use super::{ConvCandidate, FloatElement, expect_filters_of_channels};
use crate::ops::frame::{Choice, Workspace};
use crate::{DType, Error, Result, Stream, TensorView, TensorViewMut};

/// Gradients of y = x ∗ w, given dy: of the images, dx, and of the filters, dw.
///
/// The tensors and the options are those of [`Conv`](super::Conv): dx has x's shape, dw that of w, dy that of y. All of a gradient is written, also
/// what no output depends on: zeros there.
///
/// - dx is a convolution of dy with the filters turned around; where the convolution has a stride, one for each of the pixels that it tells
///   apart, which different taps reach (Dumoulin & Visin 2016, "A guide to convolution arithmetic for deep learning").
/// - dw is a product of dy with patches of x over all pixels, which are divided among SMs where that fills them (stream-K; Osama et al. 2023).
///   The parts are added in one order: the same inputs give the same bits on the same GPU. dy's pixels follow each other evenly.
/// - Sums are of f32, rounded once to `T`. f32 has dx alone, without a stride.
///
/// A call does not wait, and allocates nothing but the [`workspace`](Self::workspace), if that is needed and none was given. What is called again and
/// again is planned once: [`images_plan`](Self::images_plan), [`filters_plan`](Self::filters_plan).
///
/// ```no_run
/// use tilewright::ops::ConvGradient;
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let x = Tensor::<f16>::zeros(&device, &[32, 56, 56, 64])?;
/// let w = Tensor::<f16>::zeros(&device, &[128, 3, 3, 64])?;
/// let dy = Tensor::<f16>::zeros(&device, &[32, 28, 28, 128])?;
/// let (mut dx, mut dw) = (Tensor::zeros(&device, x.shape())?, Tensor::zeros(&device, w.shape())?);
/// let stream = device.default_stream();
/// let mut gradient = ConvGradient::new().stride([2, 2]).padding([1, 1]);
/// gradient.images(&stream, &dy.view(), &w.view(), &mut dx.view_mut())?;
/// gradient.filters(&stream, &x.view(), &dy.view(), &mut dw.view_mut())?;
/// # Ok(())
/// # }
/// ```
pub struct ConvGradient<'a> {
    geometry: Geometry,
    pub(super) kernel: Option<&'a str>,
    pub(super) overlap: bool,
    workspace: Workspace<'a>,
}

impl Default for ConvGradient<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl ConvGradient<'_> {
    /// Those of y = x ∗ w.
    pub fn new() -> Self {
        let (geometry, workspace) = (Geometry::default(), Workspace::Owned(None));
        ConvGradient { geometry, kernel: None, overlap: true, workspace }
    }
}

impl<'a> ConvGradient<'a> {
    geometry_options!();

    /// Forces a kernel by its name; see [`images_candidates`](Self::images_candidates) and
    /// [`filters_candidates`](Self::filters_candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        ConvGradient { kernel: Some(name), ..self }
    }
    /// Whether kernels may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless set.
    /// They wait for that one's results before they read or write memory.
    pub fn overlap(self, overlap: bool) -> Self {
        ConvGradient { overlap, ..self }
    }
    /// Memory for the sums of parts of dw's tiles, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or
    /// more, of any values. Calls that may be at work at the same time, on whatever streams, have memory of their own.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        ConvGradient { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }

    pub(super) fn of_images<T: FloatElement>(
        &self,
        dy: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<Problem> {
        let problem = Problem::new(Tensors::images(dy, w, dx), self.geometry, [])?;
        expect_filters_of_channels::<T>(&problem)?;
        let stride = self.geometry.stride;
        if T::DTYPE == DType::F32 && stride != [1; 3] {
            let allowed = "of ones: of f32 there are no other gradients";
            return Err(Error::argument("stride", format!("{stride:?}"), allowed));
        }
        Ok(problem)
    }

    pub(super) fn of_filters<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dw: &TensorViewMut<'_, T>,
    ) -> Result<Problem> {
        let problem = Problem::new(Tensors::filters(x, dy, dw), self.geometry, [])?;
        if T::DTYPE == DType::F32 {
            return Err(Error::argument(
                "dw",
                "of f32",
                "of f16 or bf16: of f32 there are no gradients of filters",
            ));
        }
        Ok(problem)
    }

    /// Every compiled kernel for gradients of images of this element type, for the first of the products that they take, the best by estimate
    /// first, with the reason for those that cannot compute it.
    pub fn images_candidates<T: FloatElement>(
        &self,
        dy: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<Vec<ConvCandidate>> {
        let products = self.of_images(dy, w, dx)?.backward()?;
        match products.first() {
            Some(first) => Ok(Selection::of_images::<T>(dx, first)?.candidates()),
            None => Ok(Vec::new()),
        }
    }

    /// A plan of dx for tensors of these shapes, strides and alignments, which runs many times: the kernels, and how they are launched. The tensors may
    /// be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernels, which takes the driver a while the first time.
    pub fn images_plan<T: FloatElement>(
        &self,
        dy: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<ConvImagesPlan> {
        ConvImagesPlan::new(self, dy, w, dx)
    }

    /// Queues dx on `stream`: [`images_plan`](Self::images_plan), and [`ConvImagesPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or dx overlaps an input.
    pub fn images<T: FloatElement>(
        &self,
        stream: &Stream,
        dy: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        dx: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.images_plan(dy, w, dx)?.run(stream, dy, w, dx)
    }

    /// Every compiled kernel for gradients of filters of this element type, the best by estimate first, with the reason for those that
    /// cannot compute this one.
    pub fn filters_candidates<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dw: &TensorViewMut<'_, T>,
    ) -> Result<Vec<ConvCandidate>> {
        let product = self.of_filters(x, dy, dw)?.forward();
        Ok(Selection::of_filters::<T>(dw, &product)?.candidates())
    }

    /// A plan of dw for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn filters_plan<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dw: &TensorViewMut<'_, T>,
    ) -> Result<ConvFiltersPlan> {
        ConvFiltersPlan::new(self, x, dy, dw)
    }

    /// Elements of the [`workspace`](Self::workspace) that [`filters`](Self::filters) needs: those of the [plan](Self::filters_plan).
    pub fn workspace_len<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dw: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        Ok(self.filters_plan(x, dy, dw)?.workspace_len())
    }

    /// Queues dw on `stream`: [`filters_plan`](Self::filters_plan), and [`ConvFiltersPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or dw overlaps an input.
    pub fn filters<T: FloatElement>(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dw: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.filters_plan(x, dy, dw)?.run_in(stream, x, dy, dw, &mut self.workspace)
    }
}
