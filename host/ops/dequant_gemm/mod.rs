//! Dequantised GEMM: C = act(alpha A Wᵀ + bias) of narrow weights W.

mod choose;
mod grouped;
mod int8;
mod memory;
mod plan;
mod problem;
mod quantize;
mod table;
mod weights;
mod widen;

use tilewright_device::tile::{RasterOrder, StreamOrder};

use choose::Selection;
pub use grouped::{GroupedDequantCandidate, GroupedDequantGemm, GroupedDequantPlan, grouped_dequant_gemm};
pub use int8::{DequantGemmInt8, Int8Output, dequant_gemm_int8};
pub use memory::WeightMemory;
use plan::{A, C, named};
pub use plan::{DequantPlan, DequantViews};
use problem::{Others, Problem};
use table::{Compiled, Reads, kind};
pub use weights::{DeviceWeights, WeightFacts};
use widen::WideProduct;

use super::HalfElement;
use super::frame::{Candidate, Choice, Operands, TileParts, Workspace, of_shape};
use crate::ops::Activation;
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// Rows of tiles that are taken together, so that CTAs which run at a time share their operands in L2.
const PANEL: u32 = 16;

/// A kernel that could compute a dequantised GEMM, or why it could not.
pub type DequantCandidate = Candidate<Compiled>;

/// C = A Wᵀ: A \[M, K\], W \[N, K\] narrow weights, C \[M, N\].
///
/// See [`DequantGemm`] for the scale, the bias, the activation, the workspace and the choice of the kernel.
pub fn dequant_gemm<T: HalfElement>(
    stream: &Stream,
    a: &TensorView<'_, T>,
    w: &DeviceWeights,
    c: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    DequantGemm::new().run(stream, a, w, c)
}

/// C = act(alpha A Wᵀ + bias) of narrow weights.
///
/// - A is \[M, K\] and C \[M, N\], with any strides; W is \[N, K\]: [`DeviceWeights`], with scales of A's type `T` (f16 or bf16).
/// - A weight is its code's value, scaled and shifted as its group says, rounded to `T`; kernels for few rows of A scale sums of 128
///   products in f32 instead, and round less. Products are of `T`, accumulated in f32; alpha, the bias and the [activation](Self::activation) apply in f32; then the result is rounded to `T`, to nearest even.
/// - The bias is \[N\]. No rows: nothing is done.
/// - Lines of A that are aligned to 16 bytes are read by the fast kernels; anything else is correct but slower.
/// - Many rows of formats that are slow to decode are multiplied by wide weights, which are made in the workspace first, 1 MiB for each SM at a time.
/// - Tiles are divided among SMs along K where that fills them (stream-K). The parts are added in one order: the same inputs
///   give the same bits on the same GPU.
///
/// A call does not wait, and allocates nothing but the [`workspace`](Self::workspace), if that is needed and none was given. The
/// first use of a kernel on a device compiles it in the driver.
///
/// ```no_run
/// use tilewright::ops::{Activation, DequantGemm, DeviceWeights};
/// use tilewright::quant::{Format, Group, HalfType, Order, QuantizedWeights, Scheme, Zeros};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let scheme =
///     Scheme { format: Format::U4, group: Group::K128, zeros: Zeros::Original, scales: HalfType::F16 };
/// let wide = vec![0.25; 4096 * 1024];
/// let quantized = QuantizedWeights::quantize("up_proj", &wide, [4096, 1024], scheme)?;
/// let w = DeviceWeights::upload(&device, &quantized.pack(Order::B16)?)?;
/// let x = Tensor::<f16>::zeros(&device, &[16, 1024])?;
/// let mut y = Tensor::<f16>::zeros(&device, &[16, 4096])?;
/// // y = silu(x wᵀ)
/// let mut up = DequantGemm::new().activation(Activation::Silu);
/// up.run(&device.default_stream(), &x.view(), &w, &mut y.view_mut())?;
/// # Ok(())
/// # }
/// ```
pub struct DequantGemm<'a, T: HalfElement> {
    alpha: f32,
    bias: Option<&'a TensorView<'a, T>>,
    kernel: Option<&'a str>,
    overlap: bool,
    workspace: Workspace<'a>,
    activation: Activation,
    gated: bool,
}

impl<T: HalfElement> DequantGemm<'_, T> {
    /// C = A Wᵀ.
    pub fn new() -> Self {
        let (workspace, activation) = (Workspace::Owned(None), Activation::Identity);
        DequantGemm {
            alpha: 1.0,
            bias: None,
            kernel: None,
            overlap: true,
            workspace,
            activation,
            gated: false,
        }
    }
}

impl<T: HalfElement> Default for DequantGemm<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T: HalfElement> DequantGemm<'a, T> {
    /// The factor of A Wᵀ; 1 unless set.
    pub fn alpha(self, alpha: f32) -> Self {
        DequantGemm { alpha, ..self }
    }
    /// What is added to every row before the activation: \[N\].
    pub fn bias(self, bias: &'a TensorView<'a, T>) -> Self {
        DequantGemm { bias: Some(bias), ..self }
    }
    /// What is applied to every element before it is rounded; nothing unless set.
    pub fn activation(self, activation: Activation) -> Self {
        DequantGemm { activation, ..self }
    }
    /// The gated unit of a layer's input, for few rows of A: W's rows are gates and ups in turn, 8 of each, C is \[M, N / 2\], act(gate) · up of the sums in f32.
    /// Without a bias. Hopper's kernels for 8 rows of A and weights with zeros have it, those of u4 for f16 and bf16; elsewhere [`run`](Self::run) fails, and [`Gated`](super::Gated) takes the
    /// product: of x \[M, N\] the gates are the view \[M, N / 16, 8\] of x as \[M, N / 16, 2, 8\].
    pub fn gated(self) -> Self {
        DequantGemm { gated: true, ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        DequantGemm { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch,
    /// Hopper); on unless set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        DequantGemm { overlap, ..self }
    }
    /// Memory for the sums of parts of tiles, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or
    /// more, of any values. Calls that may be at work at the same time, on whatever streams, have memory of their own.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        DequantGemm { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }

    /// The tensors of the call beside A and C.
    fn others(&self) -> Others<'_, T> {
        Others { bias: self.bias, tokens: None }
    }

    fn problem(&self, a: &TensorView<'_, T>, w: &DeviceWeights, c: &TensorViewMut<'_, T>) -> Result<Problem> {
        self.others().planned(|others| Problem::new(&a.planned(A), w, &c.planned(C), others, self.gated))
    }

    /// Every compiled kernel for these types and weights, the best by estimate first, with the reason for those that
    /// cannot compute this product.
    pub fn candidates(
        &self,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, T>,
    ) -> Result<Vec<DequantCandidate>> {
        Ok(Selection::new(&self.problem(a, w, c)?, kind::<T>(w)?)?.candidates())
    }

    /// A plan for A and C of these shapes, strides and alignments, and weights of this shape and scheme, which runs many times: the kernel, and
    /// how it is launched. A, C and the bias may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan(
        &self,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, T>,
    ) -> Result<DequantPlan> {
        let problem = self.problem(a, w, c)?;
        let choice = Selection::new(&problem, kind::<T>(w)?)?.choose(self.kernel)?;
        let operands = Operands::new(c.device(), named(a, c, &self.others()));
        if let Some(kernel) = choice.descriptor().widens() {
            let product = WideProduct::new(self, kernel, &problem, a, c)?;
            return Ok(DequantPlan::wide(choice, operands, problem, w, product));
        }
        DequantPlan::new(choice, operands, problem, w, (self.activation, self.alpha, self.overlap))
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: those of the [`plan`](Self::plan).
    pub fn workspace_len(
        &self,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        Ok(self.plan(a, w, c)?.workspace_len())
    }

    /// Queues the product on `stream`: [`plan`](Self::plan), and [`DequantPlan::run`].
    ///
    /// Fails when the views and the weights do not fit together, lie on another device, C overlaps an input, or there is no
    /// kernel for the weights' format, zeros and scales: the error names the tensor.
    pub fn run(
        &mut self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        c: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let plan = self.plan(a, w, c)?;
        let tensors = named(a, c, &Others { bias: self.bias, tokens: None });
        plan.run_in(stream, tensors, w, &mut self.workspace)
    }
}

/// How tiles are divided among CTAs, of which so many run at a time.
fn tile_parts(problem: &Problem, kernel: &Compiled, resident: u32) -> Result<TileParts> {
    let [m, n, k] = problem.size;
    let [rows, columns, depth] = kernel.tile;
    let too_large = || {
        let allowed = format!("of at most {} steps of tiles", StreamOrder::MAX_STEPS);
        Error::argument("c", of_shape(&[m, n]), allowed)
    };
    let count = |len: usize, tile: u32| u32::try_from(len.div_ceil(tile as usize)).map_err(|_| too_large());
    // Those that stream weights divide the depth inside of CTAs, which take slabs of rows.
    let streams = kernel.reads == Reads::Stream;
    let (across, steps) = if streams { (1, 1) } else { (count(m, columns)?, count(k, depth)?) };
    let raster = RasterOrder::new(1, count(n, rows)?, across, PANEL).ok_or_else(too_large)?;
    // Whole waves of tiles are not divided; the steps of the rest are.
    let tiles = raster.total();
    let whole = if streams { tiles } else { tiles - tiles % resident };
    TileParts::new(raster, steps, whole, resident, [rows, columns], kernel.consumers).ok_or_else(too_large)
}
