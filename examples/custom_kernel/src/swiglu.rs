//! The gated layer of a transformer's MLP.

use custom_kernel_device::swiglu::{Ampere, Hopper, Tiled, Unaligned};
use tilewright::{Arch, Instance, Launch, Result, Stream, TensorView, TensorViewMut, f16};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::tile::{ColMajor, Global, GlobalMut, RasterOrder};

use crate::{KERNELS, check_output, wrong};

/// Rows of tiles that are computed side by side, so that CTAs share operands in the L2 cache.
const PANEL: u32 = 16;

/// Queues Y = silu(X Gᵀ) * (X Uᵀ) for X \[M, K\], weights G and U \[N, K\], and Y \[M, N\].
///
/// Lines aligned to 16 bytes are read by the fast kernels, any others by a slow one.
pub fn swiglu(
    stream: &Stream,
    x: &TensorView<'_, f16>,
    gate: &TensorView<'_, f16>,
    up: &TensorView<'_, f16>,
    y: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let arch = if x.device().runs(Arch::Sm90a) { Arch::Sm90a } else { Arch::Sm80 };
    swiglu_for(arch, stream, x, gate, up, y)
}

/// The same with the kernels for `arch`, where they can read the matrices.
pub fn swiglu_for(
    arch: Arch,
    stream: &Stream,
    x: &TensorView<'_, f16>,
    gate: &TensorView<'_, f16>,
    up: &TensorView<'_, f16>,
    y: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let &[m, k] = x.shape() else { return Err(wrong("x", x.shape(), "a matrix")) };
    let &[n, _] = gate.shape() else { return Err(wrong("gate", gate.shape(), "a matrix")) };
    for (name, weights) in [("gate", gate), ("up", up)] {
        if *weights.shape() != [n, k] {
            return Err(wrong(name, weights.shape(), format!("of shape {:?}", [n, k])));
        }
    }
    check_output(y, [m, n], &[x, gate, up])?;
    // The kernel's G and U are [K, N]: the weights transposed, with K contiguous.
    let transposed =
        |w: &TensorView<'_, f16>| w.clone().transpose(0, 1)?.arg::<2, Global<f16, 2, ColMajor>>();
    let inputs = [x.arg::<2, Global<f16, 2>>()?, transposed(gate)?, transposed(up)?];
    if arch == Arch::Sm90a && inputs.iter().all(|input| input.tma == 1) {
        launch::<Hopper>(stream, inputs, y, Hopper::args)
    } else if inputs.iter().all(|input| input.align == 16) {
        launch::<Ampere>(stream, inputs, y, Ampere::args)
    } else {
        launch::<Unaligned>(stream, inputs, y, Unaligned::args)
    }
}

type Abi = GlobalAbi<f16, 2>;

fn launch<K: Instance + Tiled>(
    stream: &Stream,
    [x, gate, up]: [Abi; 3],
    y: &mut TensorViewMut<'_, f16>,
    args: fn(Abi, Abi, Abi, Abi, RasterOrder) -> K::Args,
) -> Result<()> {
    let out = y.arg::<2, GlobalMut<f16, 2>>()?;
    let [m, n] = [0, 1].map(|i| out.shape[i].div_ceil(K::TILE[i]));
    let order = RasterOrder::new(1, m, n, PANEL).ok_or_else(|| wrong("y", y.shape(), "of fewer tiles"))?;
    if order.total() == 0 {
        return Ok(());
    }
    let function = y.device().kernel::<K>(&KERNELS)?;
    // CTAs stay, and take one tile after the other.
    let ctas = function.resident_ctas().min(order.total());
    let args = args(x, gate, up, out, order);
    // SAFETY: the arguments are the borrowed views', y's exclusively, and the kernel keeps to their shapes.
    unsafe { function.launch(stream, &Launch::grid([ctas, 1, 1]), &args) }
}
