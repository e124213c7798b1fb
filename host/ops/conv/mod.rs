//! Convolution of images and sequences, and its gradients.

mod choose;
mod geometry;
mod gradient;
mod gradient_plan;
mod options;
mod plan;
mod problem;
mod table;
#[cfg(test)]
mod tests;

use tilewright_device::tile::Activation;

use choose::Selection;
use geometry::{Geometry, of_last};
pub use gradient::ConvGradient;
pub use gradient_plan::{ConvFiltersPlan, ConvImagesPlan};
use options::geometry_options;
pub use plan::{ConvPlan, ConvViews};
use problem::{Problem, Tensors};
use table::{Compiled, Finish, Pass};

use super::FloatElement;
use super::frame::{Candidate, Choice, Named, of_shape};
use super::gemm::Gemm;
use crate::tensor::{Layout, Untyped};
use crate::{DType, Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute a convolution, or why it could not.
pub type ConvCandidate = Candidate<Compiled>;

/// y = x ∗ w: x \[images, height, width, channels\], w \[outputs, rows, columns, channels\], y \[images, height, width, outputs\]; or sequences, or volumes.
///
/// See [`Conv`] for strides, paddings, dilations, groups, bias, residual, activation and the choice of the kernel.
pub fn conv<T: FloatElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    w: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Conv::new().run(stream, x, w, y)
}

/// y = act(x ∗ w + bias + residual): a convolution of images, of sequences, or of volumes.
///
/// - x is \[images, height, width, channels\], w is \[outputs, rows, columns, channels / groups\], y is \[images, height', width', outputs\] with
///   height' = (height + padding above and below - dilation (rows - 1) - 1) / stride + 1, rounded down, and so width'. Each may have any strides;
///   outputs' pixels follow each other evenly where there is an epilogue.
/// - Without a height they are sequences: x \[sequences, length, channels\], w \[outputs, taps, channels / groups\], y \[sequences, length', outputs\].
/// - With a depth they are volumes: x \[volumes, depth, height, width, channels\], w \[outputs, slices, rows, columns, channels / groups\], y
///   \[volumes, depth', height', width', outputs\]. The planes of all volumes follow each other evenly, and so do the rows of a filter's slices.
/// - y\[n, p, q, k\] = Σ over r, s, c of x\[n, p stride + r dilation - padding, …, c\] w\[k, r, s, c\], where pixels outside of an image are zeros: a
///   cross-correlation, as in all frameworks. It is a product with patches of the images that no memory holds (implicit GEMM; Chetlur et al.
///   2014, "cuDNN: Efficient Primitives for Deep Learning").
/// - Products are of the element type `T` (f16 or bf16), accumulated in f32; bias, residual and the [activation](Self::activation) apply in f32;
///   then the result is rounded to `T`, to nearest even. f32 is for as many groups as channels and as outputs.
/// - Channels that are contiguous, aligned to 16 bytes and of which there are multiples of 8 are read by the fast kernels; anything else is
///   correct but slower. A filter of one pixel without stride, padding, groups and residual is a [`Gemm`], unless a tile that this lacks takes less.
/// - No images, no outputs: nothing is done. No channels: sums of nothing, which are 0.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The first use of a kernel on
/// a device compiles it in the driver. What is called again and again is [planned](Self::plan) once.
///
/// ```no_run
/// use tilewright::ops::{Activation, Conv};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let x = Tensor::<f16>::zeros(&device, &[32, 56, 56, 64])?;
/// let w = Tensor::<f16>::zeros(&device, &[128, 3, 3, 64])?;
/// let bias = Tensor::<f16>::zeros(&device, &[128])?;
/// let mut y = Tensor::<f16>::zeros(&device, &[32, 28, 28, 128])?;
/// let bias = bias.view();
/// let conv = Conv::new().stride([2, 2]).padding([1, 1]).bias(&bias).activation(Activation::Relu);
/// conv.run(&device.default_stream(), &x.view(), &w.view(), &mut y.view_mut())?;
/// # Ok(())
/// # }
/// ```
pub struct Conv<'a, T> {
    geometry: Geometry,
    bias: Option<&'a TensorView<'a, T>>,
    residual: Option<&'a TensorView<'a, T>>,
    activation: Activation,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl<T: FloatElement> Conv<'_, T> {
    /// y = x ∗ w.
    pub fn new() -> Self {
        let (geometry, activation) = (Geometry::default(), Activation::Identity);
        Conv { geometry, bias: None, residual: None, activation, kernel: None, overlap: true }
    }
}

impl<T: FloatElement> Default for Conv<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T: FloatElement> Conv<'a, T> {
    geometry_options!();

    /// What is added to every pixel before the activation: \[outputs\].
    pub fn bias(self, bias: &'a TensorView<'a, T>) -> Self {
        Conv { bias: Some(bias), ..self }
    }
    /// What is added before the activation, of y's shape or one that broadcasts to it.
    pub fn residual(self, residual: &'a TensorView<'a, T>) -> Self {
        Conv { residual: Some(residual), ..self }
    }
    /// What is applied to every element before it is rounded; nothing unless set.
    pub fn activation(self, activation: Activation) -> Self {
        Conv { activation, ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Conv { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch,
    /// Hopper); on unless set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Conv { overlap, ..self }
    }

    /// The checked problem, and what is done with the sums.
    fn problem(
        &self,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<(Problem, Finish)> {
        let others = self.bias.map(|bias| Named::read("bias", bias)).into_iter();
        let others = others.chain(self.residual.map(|residual| Named::read("residual", residual)));
        let problem = Problem::new(Tensors::outputs(x, w, y), self.geometry, others)?;
        expect_filters_of_channels::<T>(&problem)?;
        let [images, height, width, groups, outputs] = match *problem.y.layout.shape() {
            [images, height, width, groups, outputs] => [images, height, width, groups, outputs],
            _ => [0; 5],
        };
        let bias = match self.bias {
            None => None,
            Some(bias) if *bias.shape() == [groups * outputs] => {
                let step = bias.strides().first().copied().unwrap_or(0);
                let shape = [images, height, width, groups, outputs];
                let layout = Layout::strided(&shape, &[0, 0, 0, outputs.saturating_mul(step), step])?;
                Some(Untyped { layout, ..bias.untyped() })
            }
            Some(bias) => {
                let allowed = format!("of shape [{}], one number for each output", groups * outputs);
                return Err(Error::argument("bias", of_shape(bias.shape()), allowed));
            }
        };
        let residual = match self.residual {
            None => None,
            Some(residual) => {
                let allowed = || format!("of shape {:?}, or one that broadcasts to it", y.shape());
                let wrong = |_| Error::argument("residual", of_shape(residual.shape()), allowed());
                Some(problem.as_outputs(residual.untyped().broadcast(y.shape()).map_err(wrong)?)?)
            }
        };
        if let Some(residual) = &residual
            && problem::Product::matrices(residual).is_none()
        {
            let allowed = "of strides by which its pixels follow each other evenly".to_owned();
            return Err(Error::argument("residual", of_shape(y.shape()), allowed));
        }
        Ok((problem, Finish { bias, residual, activation: self.activation, overlap: self.overlap }))
    }

    fn selection<'p>(
        y: &'p TensorViewMut<'_, T>,
        product: &'p problem::Product,
        finish: &Finish,
    ) -> Result<Selection<'p>> {
        let epilogue =
            finish.bias.is_some() || finish.residual.is_some() || finish.activation != Activation::Identity;
        Selection::new(y.device(), product, (Pass::Patches, T::DTYPE.name()), epilogue)
    }

    /// Whether it is a product of matrices that no kernel was asked for.
    fn is_product(&self, problem: &Problem) -> bool {
        let plain = Geometry::default();
        let one =
            problem.size().filter == [1; 3] && Geometry { dilation: [1; 3], ..problem.geometry } == plain;
        one && self.kernel.is_none() && self.residual.is_none() && T::DTYPE != DType::F32
    }

    fn gemm(&self) -> Gemm<'a, T> {
        let gemm = Gemm::new().activation(self.activation).overlap(self.overlap);
        match self.bias {
            Some(bias) => gemm.bias(bias),
            None => gemm,
        }
    }

    /// Every compiled kernel of convolutions for this element type, the best by estimate first, with the reason for those that cannot compute
    /// this one.
    pub fn candidates(
        &self,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<ConvCandidate>> {
        let (problem, finish) = self.problem(x, w, y)?;
        Ok(Self::selection(y, &problem.forward(), &finish)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors, those
    /// among the options too, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan(
        &self,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<ConvPlan> {
        ConvPlan::new(self, x, w, y)
    }

    /// Queues the convolution on `stream`: [`plan`](Self::plan), and [`ConvPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or y overlaps an input.
    pub fn run(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(x, w, y)?.queue(stream, plan::named([x, w], y, [self.bias, self.residual]))
    }
}

/// f32 is for filters of single channels.
fn expect_filters_of_channels<T: FloatElement>(problem: &Problem) -> Result<()> {
    let size = problem.size();
    if T::DTYPE != DType::F32 || (size.channels == 1 && size.outputs == 1) {
        return Ok(());
    }
    let allowed = "as many as channels and as outputs: of f32 there are no other convolutions";
    Err(Error::argument("groups", size.groups.to_string(), allowed))
}
