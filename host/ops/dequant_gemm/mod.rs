//! Dequantised GEMM: C = act(alpha A Wᵀ + bias) of narrow weights W.

mod choose;
mod int8;
mod problem;
mod table;
mod weights;

use tilewright_device::tile::{RasterOrder, StreamOrder};

use choose::Selection;
pub use int8::{DequantGemmInt8, Int8Output, dequant_gemm_int8};
use problem::Problem;
use table::{Call, Compiled, Kind, Reads, kernels, zeros_of};
pub use weights::DeviceWeights;

use super::HalfElement;
use super::frame::{Candidate, Choice, Plan, Workspace, of_shape};
use crate::ops::Activation;
use crate::quant::{Order, Zeros};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// Rows of tiles that are taken together, so that CTAs which run at a time share their operands in L2.
const PANEL: u32 = 16;
/// Elements of the workspace's begin that count parts: zeros before and after every kernel.
const COUNTERS: usize = 4096;

/// A kernel that could compute a dequantised GEMM, or why it could not.
pub type DequantCandidate = Candidate<Compiled>;
/// The kernel that computes a dequantised GEMM, and why it was chosen.
pub type DequantPlan = Plan<Compiled>;

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
}

impl<T: HalfElement> DequantGemm<'_, T> {
    /// C = A Wᵀ.
    pub fn new() -> Self {
        let (workspace, activation) = (Workspace::Owned(None), Activation::Identity);
        DequantGemm { alpha: 1.0, bias: None, kernel: None, overlap: true, workspace, activation }
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
    /// more.
    ///
    /// Its first 4096 elements are counters: zeros before the first call that it is given to, and after every call. With anything
    /// else kernels may wait for ever. Calls on other streams that may run at the same time need memory of their own.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        DequantGemm { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }

    fn problem(&self, a: &TensorView<'_, T>, w: &DeviceWeights, c: &TensorViewMut<'_, T>) -> Result<Problem> {
        Problem::new(a, w, c, self.bias, self.workspace.named())
    }

    fn kind(w: &DeviceWeights) -> Result<Kind> {
        let scheme = w.scheme();
        if w.order() != Order::B16 {
            return Err(w.error("order", "b8".to_owned(), "b16, for activations of f16 and bf16".to_owned()));
        }
        if scheme.scales != T::HALF {
            let was = scheme.scales.dtype().name().to_owned();
            return Err(w.error("scales", was, format!("{}, the activations' type", T::DTYPE.name())));
        }
        let zeros = match scheme.zeros {
            Zeros::None => "none",
            Zeros::Original | Zeros::Packed => "original",
            Zeros::Rescaled => "rescaled",
        };
        let (element, format) = (T::DTYPE.name(), scheme.format.name());
        if kernels((element, format, zeros)).is_empty() {
            let was = format!("{zeros}, for activations of {element}");
            return Err(w.error("zeros", was, format!("one of {}", zeros_of(element, format).join(", "))));
        }
        Ok((element, format, zeros))
    }

    /// Every compiled kernel for these types and weights, the best by estimate first, with the reason for those that
    /// cannot compute this product.
    pub fn candidates(
        &self,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, T>,
    ) -> Result<Vec<DequantCandidate>> {
        Ok(Selection::new(&self.problem(a, w, c)?, Self::kind(w)?)?.candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan(
        &self,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, T>,
    ) -> Result<DequantPlan> {
        Selection::new(&self.problem(a, w, c)?, Self::kind(w)?)?.choose(self.kernel)
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: 0 if no tile is divided.
    pub fn workspace_len(
        &self,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        c: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        let problem = self.problem(a, w, c)?;
        if problem.size[0] == 0 {
            return Ok(0);
        }
        let plan = Selection::new(&problem, Self::kind(w)?)?.choose(self.kernel)?;
        Ok(Division::new(&problem, plan.descriptor())?.workspace)
    }

    /// Queues the product on `stream`.
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
        let problem = self.problem(a, w, c)?;
        stream.expect_on(&problem.device)?;
        let kind = Self::kind(w)?;
        if problem.size[0] == 0 {
            return Ok(());
        }
        let kernel = Selection::new(&problem, kind)?.choose(self.kernel)?.descriptor();
        let epilogue = (self.activation, self.alpha, self.overlap);
        launch(&problem, kernel, w, stream, &mut self.workspace, epilogue)
    }
}

/// Divides the tiles, finds the workspace, and launches the kernel with the activation, alpha and whether it may overlap with the
/// kernel in front.
fn launch(
    problem: &Problem,
    kernel: &Compiled,
    w: &DeviceWeights,
    stream: &Stream,
    workspace: &mut Workspace<'_>,
    (activation, alpha, overlap): (Activation, f32, bool),
) -> Result<()> {
    let division = Division::new(problem, kernel)?;
    let address = workspace.of(division.workspace, stream)?;
    let call = Call {
        stream,
        weights: w.abi(),
        order: division.order([address + COUNTERS as u64 * 4, address])?,
        ctas: division.ctas,
        activation,
        alpha,
        overlap,
    };
    kernel.run(problem, &call)?;
    workspace.used(division.workspace, stream)
}

/// How tiles are divided among CTAs.
struct Division {
    raster: RasterOrder,
    steps: u32,
    /// Tiles that are not divided.
    whole: u32,
    ctas: u32,
    /// Elements of the workspace.
    workspace: usize,
}

impl Division {
    fn new(problem: &Problem, kernel: &Compiled) -> Result<Self> {
        let [m, n, k] = problem.size;
        let [rows, columns, depth] = kernel.tile;
        let resident = kernel.resident(&problem.device)?.max(1);
        let too_large = || {
            let allowed = format!("of at most {} steps of tiles", StreamOrder::MAX_STEPS);
            Error::argument("c", of_shape(&[m, n]), allowed)
        };
        if kernel.reads == Reads::Stream {
            // Depth is divided inside of CTAs.
            let slabs = u32::try_from(n.div_ceil(rows as usize)).map_err(|_| too_large())?;
            let ctas = resident.min(slabs);
            let raster = RasterOrder::new(1, 1, 1, PANEL).ok_or_else(too_large)?;
            return Ok(Division { raster, steps: 1, whole: 1, ctas, workspace: 0 });
        }
        let count =
            |len: usize, tile: u32| u32::try_from(len.div_ceil(tile as usize)).map_err(|_| too_large());
        let (down, across, steps) = (count(n, rows)?, count(m, columns)?, count(k, depth)?);
        let raster = RasterOrder::new(1, down, across, PANEL).ok_or_else(too_large)?;
        let tiles = raster.total();
        // Whole waves of tiles are not divided; the steps of the rest are.
        let whole = tiles - tiles % resident;
        let shared = (tiles - whole).checked_mul(steps).filter(|&s| s <= StreamOrder::MAX_STEPS);
        let ctas = resident.min(whole.max(shared.ok_or_else(too_large)?));
        let [sums, counters] = StreamOrder::workspace(tiles - whole, ctas, [rows, columns], kernel.consumers);
        if counters > COUNTERS as u64 * 4 {
            return Err(too_large());
        }
        let workspace = if sums == 0 { 0 } else { COUNTERS + (sums / 4) as usize };
        Ok(Division { raster, steps, whole, ctas, workspace })
    }

    fn order(&self, workspace: [u64; 2]) -> Result<StreamOrder> {
        StreamOrder::new(self.raster, self.steps, self.whole, self.ctas, workspace).ok_or_else(|| {
            Error::argument("c", format!("of {} tiles", self.raster.total()), "of fewer steps of tiles")
        })
    }
}
