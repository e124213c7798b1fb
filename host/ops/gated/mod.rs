//! Gated linear units.

mod plan;
mod problem;

use tilewright_pointwise::Operator;

pub use plan::{GatedGradientPlan, GatedPlan};
use problem::{Problem, halves, halves_mut, named};

use super::frame::Choice;
use super::pointwise::{Options, PointwiseCandidate};
use super::{Activation, FloatElement};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// y = silu(gate) up: see [`Gated`].
pub fn swiglu<T: FloatElement>(
    stream: &Stream,
    gate: &TensorView<'_, T>,
    up: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Gated::new(Activation::Silu).run(stream, gate, up, y)
}

/// y = gelu(gate) up: see [`Gated`].
pub fn geglu<T: FloatElement>(
    stream: &Stream,
    gate: &TensorView<'_, T>,
    up: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Gated::new(Activation::Gelu).run(stream, gate, up, y)
}

/// y = act(gate) up, element by element, and its gradients: SwiGLU, GeGLU, ReGLU and the bilinear unit (Shazeer 2020, "GLU Variants Improve
/// Transformer").
///
/// - gate, up and y have one shape, of 0 to 5 dimensions, each with any strides. [`run_packed`](Self::run_packed) takes one tensor for gate and up: in
///   the last dimension the gate's columns, then as many of up's.
/// - f16, bf16 and f32 in and out; computed in f32, rounded once, to nearest even. NaN gives NaN.
/// - Gradients are those by gate, dy up act'(gate), and by up, dy act(gate). The derivative of ReLU at 0 is 0.
/// - No elements: nothing is done. A launch takes up to 2³¹ - 2¹⁶ pieces: 16 bytes each, or single elements where tensors do not lie so.
/// - Tensors that are aligned to 16 bytes, with rows that begin at multiples of that or lie one behind the other, are taken in vectors. So are others
///   whose columns are neighbours, but not for gradients. What is left is correct but slower.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits.
///
/// ```
/// use tilewright::ops::{Activation, Gated};
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[2.0, -1.0, 3.0, 5.0], &[1, 4])?;
/// let mut y = Tensor::<f32>::zeros(&device, &[1, 2])?;
/// Gated::new(Activation::Relu).run_packed(&device.default_stream(), &x.view(), &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [6.0, 0.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gated<'a> {
    activation: Activation,
    options: Options<'a>,
}

impl<'a> Gated<'a> {
    /// With this activation of the gate.
    pub fn new(activation: Activation) -> Self {
        Gated { activation, options: Options::DEFAULT }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Gated { options: Options { kernel: Some(name), ..self.options }, ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Gated { options: Options { overlap, ..self.options }, ..self }
    }

    /// Every compiled kernel of [`run`](Self::run), the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: FloatElement>(
        &self,
        gate: &TensorView<'_, T>,
        up: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<PointwiseCandidate>> {
        let problem = Problem::<3>::new(y.device(), named([("gate", gate), ("up", up)], [("y", y)]))?;
        Ok(problem.call(Operator::Gated, &problem.pieces.lies()).candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time. Fails when shapes differ, or a view lies on another device.
    pub fn plan<T: FloatElement>(
        &self,
        gate: &TensorView<'_, T>,
        up: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<GatedPlan> {
        GatedPlan::new(self, y.device(), named([("gate", gate), ("up", up)], [("y", y)]))
    }

    /// The same for x that holds gate and up side by side in its last dimension: see [`GatedPlan::run_packed`].
    ///
    /// Fails as [`plan`](Self::plan) does, and unless x has twice the columns of y.
    pub fn plan_packed<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<GatedPlan> {
        let [gate, up] = halves("x", x, ("y", y.shape()))?;
        GatedPlan::new(self, y.device(), named([("x", &gate), ("x", &up)], [("y", y)]))
    }

    /// A plan of the gradients, as [`plan`](Self::plan) makes one of y.
    pub fn plan_gradient<T: FloatElement>(
        &self,
        gate: &TensorView<'_, T>,
        up: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        d_gate: &TensorViewMut<'_, T>,
        d_up: &TensorViewMut<'_, T>,
    ) -> Result<GatedGradientPlan> {
        let read = [("gate", gate), ("up", up), ("dy", dy)];
        GatedGradientPlan::new(self, d_up.device(), named(read, [("d_gate", d_gate), ("d_up", d_up)]))
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`GatedPlan::run`].
    ///
    /// Fails when shapes differ, a view lies on another device, or y overlaps gate or up.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        gate: &TensorView<'_, T>,
        up: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(gate, up, y)?.run(stream, gate, up, y)
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
        self.plan_packed(x, y)?.run_packed(stream, x, y)
    }

    /// Queues the gradients on `stream`: `dy` is that of y, `d_gate` and `d_up` become those of gate and up.
    ///
    /// Fails when shapes differ, a view lies on another device, or what is written overlaps another tensor.
    pub fn run_gradient<T: FloatElement>(
        &self,
        stream: &Stream,
        gate: &TensorView<'_, T>,
        up: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        d_gate: &mut TensorViewMut<'_, T>,
        d_up: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan_gradient(gate, up, dy, d_gate, d_up)?.run(stream, [gate, up, dy], d_gate, d_up)
    }

    /// Queues the gradient by x of [`run_packed`](Self::run_packed) on `stream`, side by side as x.
    ///
    /// Fails as [`run_gradient`](Self::run_gradient) does, and unless x and `dx` have twice the columns of `dy`.
    pub fn run_packed_gradient<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dx: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let [gate, up] = halves("x", x, ("dy", dy.shape()))?;
        let [d_gate, d_up] = halves_mut("dx", dx, ("dy", dy.shape()))?;
        let tensors = named([("x", &gate), ("x", &up), ("dy", dy)], [("dx", &d_gate), ("dx", &d_up)]);
        GatedGradientPlan::new(self, dy.device(), tensors)?.launch(stream, tensors)
    }
}
