//! Narrow weights made wide on a device, and products of these.

use tilewright_dequant_gemm::{KERNELS, WIDEN, WIDEN_DEPTH, WidenKernel, WidenWeightsArgs};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_device::tile::RasterOrder;

use super::problem::Problem;
use super::table::kind;
use super::{DequantGemm, DeviceWeights, PANEL};
use crate::ops::HalfElement;
use crate::ops::frame::{Places, check, of_shape};
use crate::ops::gemm::{Gemm, GemmPlan};
use crate::tensor::{Layout, Named, Untyped, alignment};
use crate::{AnyFunction, Arch, Device, Error, Launch, Result, Stream, TensorView, TensorViewMut};

/// Bytes of wide weights that are made at a time, for each SM: products of as many fill the SMs.
const SLAB_BYTES: usize = 1 << 20;
/// A slab's rows are a multiple of these: whole tiles of the product, and of the kernel that makes weights wide.
const SLAB_ROWS: usize = 256;
/// What plans take of wide weights' memory.
const ALIGN: u64 = 16;

impl DeviceWeights {
    /// Queues on `stream` what weights stand for, into `wide` \[N, K\], of any strides: each its code's value, scaled and shifted as its group says, and rounded to `T`, f16 or
    /// bf16 as the scales are. [`DequantGemm`] multiplies by these numbers.
    ///
    /// Fails when `wide` is of another shape or lies on another device, and for weights packed for int8 activations or with scales of another type.
    ///
    /// ```
    /// use tilewright::ops::DeviceWeights;
    /// use tilewright::quant::{Format, Group, HalfType, Order, QuantizedWeights, Scheme, Zeros};
    /// use tilewright::{Device, Tensor, f16};
    ///
    /// # fn main() -> tilewright::Result<()> {
    /// let device = Device::emulator();
    /// let scheme = Scheme { format: Format::NF4, group: Group::Row, zeros: Zeros::None, scales: HalfType::F16 };
    /// let quantized = QuantizedWeights::quantize("down_proj", &[0.5f32; 2 * 64], [2, 64], scheme)?;
    /// let w = DeviceWeights::upload(&device, &quantized.pack(Order::B16)?)?;
    /// let mut wide = Tensor::<f16>::zeros(&device, &[2, 64])?;
    /// w.dequantize(&device.default_stream(), &mut wide.view_mut())?;
    /// assert!(wide.to_vec()?.iter().all(|x| x.to_f32() == 0.5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn dequantize<T: HalfElement>(&self, stream: &Stream, wide: &mut TensorViewMut<'_, T>) -> Result<()> {
        stream.expect_on(self.device())?;
        check(self.device(), [Named::written("wide", wide)])?;
        let [n, k] = self.shape();
        if wide.shape() != [n, k] {
            let allowed = format!("of shape [{n}, {k}]: the weights `{}`", self.name());
            return Err(Error::argument("wide", of_shape(wide.shape()), allowed));
        }
        let kind = kind::<T>(self)?;
        let kernel = WIDEN.iter().find(|kernel| (kernel.element, kernel.format, kernel.zeros) == kind);
        let kernel = kernel.ok_or_else(|| Error::KernelMissing {
            kernel: "widen_weights",
            arch: Arch::Sm80,
            reason: format!("there is none for {} weights", kind.1),
        })?;
        if n == 0 || k == 0 {
            return Ok(());
        }
        Widener::new(self.device(), kernel)?.run(stream, self, &wide.untyped(), 0)
    }
}

/// A kernel that makes weights wide, loaded.
#[derive(Clone, Debug)]
struct Widener {
    kernel: &'static Listed<WidenKernel>,
    function: AnyFunction,
}

impl Widener {
    fn new(device: &Device, kernel: &'static Listed<WidenKernel>) -> Result<Self> {
        Ok(Widener { kernel, function: device.listed(&KERNELS, kernel)? })
    }

    /// Makes the rows from `first` on wide, a multiple of the kernel's: as many as `wide` has.
    fn run(&self, stream: &Stream, w: &DeviceWeights, wide: &Untyped, first: usize) -> Result<()> {
        let rows = self.kernel.rows as usize;
        let &[n, k] = wide.layout.shape() else { return Ok(()) };
        let tiles = [n.div_ceil(rows), k.div_ceil(WIDEN_DEPTH as usize)];
        // Sizes are below 2^31.
        let order = RasterOrder::new(1, tiles[0] as u32, tiles[1] as u32, PANEL).ok_or_else(|| {
            let allowed = format!("of at most {} tiles of {rows} x {WIDEN_DEPTH}", RasterOrder::MAX_TILES);
            Error::argument("wide", of_shape(&[n, k]), allowed)
        })?;
        let launch = Launch::grid([order.total().min(self.function.resident_ctas()).max(1), 1, 1]);
        let wide: GlobalAbi<(), 2> = wide.arg(stream.device().backend(), true, 0)?;
        let args = WidenWeightsArgs { w: w.abi(), wide, order, first: (first / rows) as u32 };
        // SAFETY: the arguments are those of `widen_weights`. The caller borrows the weights, and what is written exclusively; the kernel keeps to
        // their shapes.
        unsafe { self.function.launch_block(stream, &launch, &args) }
    }
}

/// C = act(alpha A Wᵀ + bias) by wide weights: slabs of W's rows one after the other, each made wide in the workspace and multiplied.
#[derive(Clone, Debug)]
pub(super) struct WideProduct {
    widener: Widener,
    /// Rows of W, of all slabs but the last.
    rows: usize,
    /// The products of such a slab and of the last, which has no more rows.
    products: [GemmPlan; 2],
    /// How the products' tensors are aligned: A, C, the bias.
    aligned: [u64; 3],
}

impl WideProduct {
    pub(super) fn new<T: HalfElement>(
        gemm: &DequantGemm<'_, T>,
        kernel: &'static Listed<WidenKernel>,
        problem: &Problem,
        a: &TensorView<'_, T>,
        c: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let [m, n, k] = problem.size;
        let device = a.device();
        let slabs = (n * k * size_of::<T>()).div_ceil(SLAB_BYTES * device.sm_count().max(1) as usize).max(1);
        let rows = n.div_ceil(slabs).next_multiple_of(SLAB_ROWS).min(n).max(1);
        let last = n - (n.div_ceil(rows).max(1) - 1) * rows;
        let of_bias = gemm.bias.map_or(ALIGN, |bias| alignment(bias.address()));
        let aligned = [alignment(a.address()), alignment(c.address()), of_bias];
        let product = |rows: usize| {
            let a = TensorView::<T>::without_memory(device, a.shape(), a.strides(), aligned[0])?;
            let w = TensorView::<T>::without_memory(device, &[k, rows], &[1, k], ALIGN)?;
            let c = TensorViewMut::<T>::without_memory(device, &[m, rows], c.strides(), aligned[1])?;
            let bias = gemm
                .bias
                .map(|bias| TensorView::<T>::without_memory(device, &[rows], bias.strides(), aligned[2]));
            let bias = bias.transpose()?;
            let product = Gemm::new().alpha(gemm.alpha).activation(gemm.activation).overlap(gemm.overlap);
            let product = match &bias {
                Some(bias) => product.bias(bias),
                None => product,
            };
            product.plan_of(&a, &w, &c)
        };
        let products = [product(rows)?, product(last)?];
        Ok(WideProduct { widener: Widener::new(device, kernel)?, rows, products, aligned })
    }

    /// Elements of f32 that the wide weights of a slab take.
    pub(super) fn workspace_len(&self, [_, _, k]: [usize; 3]) -> usize {
        (self.rows * k * size_of::<u16>()).div_ceil(size_of::<f32>())
    }

    /// Queues the product, with wide weights at `workspace`.
    pub(super) fn run(
        &self,
        stream: &Stream,
        problem: &Problem,
        w: &DeviceWeights,
        workspace: u64,
    ) -> Result<()> {
        let &Problem { ref a, ref c, ref bias, size: [_, n, k], .. } = problem;
        let dtype = a.dtype;
        let behind = |of: &Untyped, dimension: usize, first: usize| {
            of.address + (first * of.layout.strides()[dimension] * size_of::<u16>()) as u64
        };
        let mut first = 0;
        while first < n {
            let rows = self.rows.min(n - first);
            let wide = Untyped { address: workspace, dtype, layout: Layout::strided(&[rows, k], &[k, 1])? };
            self.widener.run(stream, w, &wide, first)?;
            let product = &self.products[usize::from(rows < self.rows)];
            let [of_a, of_c, of_bias] = self.aligned;
            // In the order of a `GemmPlan`'s: A, B, C, the bias.
            let places = Places::lying([
                (of_a, a.address),
                (ALIGN, workspace),
                (of_c, behind(c, 1, first)),
                (of_bias, bias.as_ref().map_or(0, |bias| behind(bias, 0, first))),
            ]);
            product.launch(stream, &places)?;
            first += rows;
        }
        Ok(())
    }
}
