//! Products of int8 activations and narrow integers, summed up in i32.

mod choose;
mod problem;
pub(super) mod table;

use choose::Selection;
use problem::{kind, problem};

use super::plan::{self, named};
use super::problem::{Others, Problem};
use super::{DequantCandidate, DequantPlan, DeviceWeights};
use crate::ops::frame::{Choice, Operands, Workspace};
use crate::ops::{Activation, HalfElement};
use crate::{Element, Result, Stream, TensorView, TensorViewMut, bf16, f16};

/// Element types of the output of a product of int8 activations: `f16` and `bf16`, scaled, and `i32`, the sums.
pub trait Int8Output: Element + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for f16 {}
impl sealed::Sealed for bf16 {}
impl sealed::Sealed for i32 {}
impl Int8Output for f16 {}
impl Int8Output for bf16 {}
impl Int8Output for i32 {}

/// C = A Wᵀ: A \[M, K\] int8, W \[N, K\] narrow integers, C \[M, N\] f16 or bf16, or i32: A Qᵀ, without scales.
///
/// See [`DequantGemmInt8`] for the scales of A's rows, the bias, the activation, the workspace and the choice of the kernel.
pub fn dequant_gemm_int8<C: Int8Output>(
    stream: &Stream,
    a: &TensorView<'_, i8>,
    w: &DeviceWeights,
    c: &mut TensorViewMut<'_, C>,
) -> Result<()> {
    DequantGemmInt8::new().run(stream, a, w, c)
}

/// C = act(tokens A Wᵀ + bias) of int8 activations and narrow integers W, or the exact sums A Qᵀ.
///
/// - A is \[M, K\], rows contiguous from multiples of 16 bytes on, K a multiple of 16; C is \[M, N\], with any strides. W is
///   \[N, K\]: [`DeviceWeights`] of format u4, i4, u2, i2 or i8, packed in the order [`B8`](crate::quant::Order::B8), W = Q times
///   scales; Q are codes' values less zeros, which are integers of the format's range.
/// - C of type `i32` is A Qᵀ, exact modulo 2^32: no scales apply. Groups may be any; with zeros 64, 128 or a row.
/// - C of type `f16` or `bf16`, which the scales have too: where rows have one scale, the exact sum is converted to f32 and
///   multiplied by it; of groups of 128 the exact sums are converted, multiplied and added up in f32. Then the rows' scales of A,
///   the bias and the activation `E` apply in f32; the result is rounded to nearest even.
/// - `tokens` is \[M\], the scales of A's rows; the bias is \[N\]. No rows: nothing is done.
/// - Tiles are divided among SMs along K where that fills them (stream-K). The parts are added in one order: the same inputs
///   give the same bits on the same GPU.
///
/// A call does not wait, and allocates nothing but the [`workspace`](Self::workspace), if that is needed and none was given. The
/// first use of a kernel on a device compiles it in the driver.
///
/// ```no_run
/// use tilewright::ops::{DequantGemmInt8, DeviceWeights};
/// use tilewright::quant::{Format, Group, HalfType, Order, QuantizedWeights, Scheme, Zeros};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let scheme = Scheme { format: Format::I4, group: Group::K128, zeros: Zeros::None, scales: HalfType::F16 };
/// let quantized = QuantizedWeights::quantize("up_proj", &vec![0.25; 4096 * 1024], [4096, 1024], scheme)?;
/// let w = DeviceWeights::upload(&device, &quantized.pack(Order::B8)?)?;
/// let x = Tensor::<i8>::zeros(&device, &[16, 1024])?;
/// let tokens = Tensor::filled(&device, 0.02, &[16])?;
/// let mut y = Tensor::<f16>::zeros(&device, &[16, 4096])?;
/// let scales = tokens.view();
/// DequantGemmInt8::new().tokens(&scales).run(&device.default_stream(), &x.view(), &w, &mut y.view_mut())?;
/// # Ok(())
/// # }
/// ```
pub struct DequantGemmInt8<'a, C: Int8Output> {
    tokens: Option<&'a TensorView<'a, f32>>,
    bias: Option<&'a TensorView<'a, C>>,
    kernel: Option<&'a str>,
    overlap: bool,
    workspace: Workspace<'a>,
    activation: Activation,
}

impl<C: Int8Output> DequantGemmInt8<'_, C> {
    /// C = A Wᵀ.
    pub fn new() -> Self {
        let (workspace, activation) = (Workspace::Owned(None), Activation::Identity);
        DequantGemmInt8 { tokens: None, bias: None, kernel: None, overlap: true, workspace, activation }
    }
}

impl<C: Int8Output> Default for DequantGemmInt8<'_, C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, C: Int8Output + HalfElement> DequantGemmInt8<'a, C> {
    /// The scales of A's rows, \[M\]: ones unless given. One scale for all of A is a view that is broadcast.
    pub fn tokens(self, tokens: &'a TensorView<'a, f32>) -> Self {
        DequantGemmInt8 { tokens: Some(tokens), ..self }
    }
    /// What is added to every row before the activation: \[N\].
    pub fn bias(self, bias: &'a TensorView<'a, C>) -> Self {
        DequantGemmInt8 { bias: Some(bias), ..self }
    }
    /// What is applied to every element before it is rounded; nothing unless set.
    pub fn activation(self, activation: Activation) -> Self {
        DequantGemmInt8 { activation, ..self }
    }
}

impl<'a, C: Int8Output> DequantGemmInt8<'a, C> {
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        DequantGemmInt8 { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs; see
    /// [`DequantGemm::overlap`](super::DequantGemm::overlap).
    pub fn overlap(self, overlap: bool) -> Self {
        DequantGemmInt8 { overlap, ..self }
    }
    /// Memory for the sums of parts of tiles, of [`workspace_len`](Self::workspace_len) elements or more; see
    /// [`DequantGemm::workspace`](super::DequantGemm::workspace).
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        DequantGemmInt8 { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }

    /// The tensors of the call beside A and C.
    fn others(&self) -> Others<'_, C> {
        Others { bias: self.bias, tokens: self.tokens }
    }

    fn problem(
        &self,
        a: &TensorView<'_, i8>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, C>,
    ) -> Result<Problem> {
        self.others().planned(|others| problem(&a.planned(plan::A), w, &c.planned(plan::C), others))
    }

    /// Every compiled kernel for these types and weights, the best by estimate first, with the reason for those that
    /// cannot compute this product.
    pub fn candidates(
        &self,
        a: &TensorView<'_, i8>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, C>,
    ) -> Result<Vec<DequantCandidate>> {
        Ok(Selection::new(&self.problem(a, w, c)?, kind(w, C::DTYPE)?)?.candidates())
    }

    /// A plan for A and C of these shapes, strides and alignments, and weights of this shape and scheme, which runs many times: see
    /// [`DequantGemm::plan`](super::DequantGemm::plan).
    pub fn plan(
        &self,
        a: &TensorView<'_, i8>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, C>,
    ) -> Result<DequantPlan> {
        let problem = self.problem(a, w, c)?;
        let choice = Selection::new(&problem, kind(w, C::DTYPE)?)?.choose(self.kernel)?;
        let operands = Operands::new(c.device(), named(a, c, &self.others()));
        DequantPlan::new(choice, operands, problem, w, (self.activation, 1.0, self.overlap))
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: those of the [`plan`](Self::plan).
    pub fn workspace_len(
        &self,
        a: &TensorView<'_, i8>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, C>,
    ) -> Result<usize> {
        Ok(self.plan(a, w, c)?.workspace_len())
    }

    /// Queues the product on `stream`: [`plan`](Self::plan), and [`DequantPlan::run`].
    ///
    /// Fails when the views and the weights do not fit together, lie on another device, C overlaps an input, or there is no
    /// kernel for the weights' format, group, zeros and scales: the error names the tensor.
    pub fn run(
        &mut self,
        stream: &Stream,
        a: &TensorView<'_, i8>,
        w: &DeviceWeights,
        c: &mut TensorViewMut<'_, C>,
    ) -> Result<()> {
        let plan = self.plan(a, w, c)?;
        let tensors = named(a, c, &Others { bias: self.bias, tokens: self.tokens });
        plan.run_in(stream, tensors, w, &mut self.workspace)
    }
}
