//! The gated layer of a transformer's MLP.

use custom_kernel_device::swiglu::{Ampere, Hopper, Tiled, Unaligned};
use tilewright::{
    Arch, Instance, OrWhereUnreadable, Result, SafeKernel, Stream, TensorView, TensorViewMut, f16,
};
use tilewright_device::tile::{ColMajor, Global, GlobalMut, RasterOrder};

use crate::{KERNELS, wrong};

/// Rows of tiles that are computed side by side, so that CTAs share operands in the L2 cache.
const PANEL: u32 = 16;

/// Queues Y = silu(X Gᵀ) * (X Uᵀ) for X \[M, K\], weights G and U \[N, K\], and Y \[M, N\].
///
/// Lines aligned to 16 bytes are read by the fast kernels, any others by a slow one. Errors name the kernels' parameters: `g`
/// and `u` are the weights transposed.
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
    // The kernel's G and U are [K, N]: the weights transposed, with K contiguous.
    let inputs = [x, &gate.clone().transpose(0, 1)?, &up.clone().transpose(0, 1)?];
    match arch {
        Arch::Sm90a => launch::<Hopper>(stream, inputs, y),
        Arch::Sm80 => launch::<Ampere>(stream, inputs, y),
    }
    .or_where_unreadable(|| launch::<Unaligned>(stream, inputs, y))
}

/// The kernels' parameters.
type Parameters =
    (Global<f16, 2>, Global<f16, 2, ColMajor>, Global<f16, 2, ColMajor>, GlobalMut<f16, 2>, RasterOrder);

fn launch<K: Instance + SafeKernel<Parameters = Parameters> + Tiled>(
    stream: &Stream,
    [x, g, u]: [&TensorView<'_, f16>; 3],
    y: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let &[rows, cols] = y.shape() else { return Err(wrong("y", y.shape(), "a matrix")) };
    let [m, n] =
        [(rows, K::TILE[0]), (cols, K::TILE[1])].map(|(size, tile)| size.div_ceil(tile as usize) as u32);
    let order = RasterOrder::new(1, m, n, PANEL).ok_or_else(|| wrong("y", y.shape(), "of fewer tiles"))?;
    if order.total() == 0 {
        return Ok(());
    }
    let kernel = y.device().kernel::<K>(&KERNELS)?;
    // CTAs stay, and take one tile after the other.
    let ctas = kernel.resident_ctas().min(order.total());
    kernel.launch(stream, [ctas, 1, 1], (x, g, u, y, order))
}
