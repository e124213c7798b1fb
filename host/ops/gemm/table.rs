//! The compiled GEMM kernels, and their launch.

use std::sync::LazyLock;

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernel::Listed;
use tilewright_device::tile::RasterOrder;
use tilewright_gemm::{GEMM, GemmArgs, GemmKernel, GemmStreamArgs, KERNELS};

use super::problem::Matrices;
use crate::ops::frame::{MOST_ALIKE, Table, TileParts, alike, expect_mapped};
use crate::{AnyFunction, Arch, Device, Launch, Result, Stream};

/// Lines of a TMA box of A.
const BOX: u32 = 64;

/// One compiled kernel.
pub type Compiled = Listed<GemmKernel>;

/// What a launch needs beside the matrices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) order: RasterOrder,
    /// alpha and beta.
    pub(super) scale: [f32; 2],
    /// L2 policies of A and B.
    pub(super) policies: [u64; 2],
    /// May start while the preceding grid still runs.
    pub(super) overlap: bool,
    /// B is written by no kernel that may still run.
    pub(super) constant: bool,
    /// The most SMs that it takes, if not all.
    pub(super) sms: Option<u32>,
}

/// What a kernel is chosen by first: names of the input type, the output type and the activation, and whether that is of
/// gates.
pub(super) type Kind = (&'static str, &'static str, &'static str, bool);

static TABLE: LazyLock<Table<Kind, Compiled>> =
    LazyLock::new(|| Table::new(GEMM.iter().map(|k| ((k.input, k.output, k.activation, k.gated), *k))));

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.kernels(&kind)
}

/// The kernel, loaded.
pub(super) fn function(device: &Device, kernel: &Compiled) -> Result<AnyFunction> {
    device.listed(&KERNELS, kernel)
}

/// CTAs of it that run at a time, on at most so many SMs.
pub(super) fn resident(function: &AnyFunction, sms: Option<u32>) -> u32 {
    let (resident, all) = (function.resident_ctas(), function.device().sm_count().max(1));
    sms.map_or(resident, |sms| resident.saturating_mul(sms.min(all)) / all).max(1)
}

/// Lines of a tile of B, of so many columns, that a kernel reads: all, or [as many for each](alike), in boxes of whole patterns of the swizzle.
pub(super) fn lines_read(kernel: &Compiled, columns: usize) -> u32 {
    let [_, n, _] = kernel.tile;
    // Gated units are stored by whole tiles.
    let most = match kernel {
        _ if !kernel.short => 0,
        _ if kernel.gated => 1,
        _ => MOST_ALIKE,
    };
    alike(columns, n, 8 * n / kernel.box_lines[0], most)
}

/// Launches a kernel; one that divides tiles so, with the workspace at this address.
pub(super) fn run(
    kernel: &Compiled,
    function: &AnyFunction,
    stream: &Stream,
    matrices: &Matrices,
    call: &Call,
    parts: Option<(&TileParts<true>, u64)>,
) -> Result<()> {
    let Matrices { a, b, c, bias, .. } = matrices;
    let backend = function.device().backend();
    let tma = kernel.arch == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let [a_rows, b_rows, c_rows] = kernel.row_major;
    let mut a: GlobalAbi<(), 3> = a.arg(backend, a_rows, lines(BOX))?;
    let [of_b, of_c] = kernel.box_lines;
    let read = lines_read(kernel, matrices.size.n);
    let of_b = read / (kernel.tile[1] / of_b);
    let mut b: GlobalAbi<(), 3> = b.arg(backend, b_rows, lines(of_b))?;
    [a.policy, b.policy] = call.policies;
    expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    let c: GlobalAbi<(), 3> = c.arg(backend, c_rows, lines(of_c))?;
    let bias = match bias {
        Some(bias) => bias.arg(backend, c_rows, 0)?,
        None => GlobalAbi { map: TensorMap::NONE, shape: [0; 3], tma: 0, ..c },
    };
    let [alpha, beta] = call.scale;
    if let Some((parts, address)) = parts {
        let launch = Launch::grid([parts.ctas * kernel.cluster[0], 1, 1]).pdl(call.overlap && tma);
        let args = GemmStreamArgs { a, b, c, bias, order: parts.order(address), lines: read, alpha, beta };
        // SAFETY: as below; the caller lends the workspace to this launch.
        return unsafe { function.launch_block(stream, &launch, &args) };
    }
    // Those that take a tile together, or its depth.
    let cluster = kernel.cluster[0];
    let clusters = call.order.total().min(resident(function, call.sms) / cluster).max(1);
    let launch = Launch::grid([clusters * cluster, 1, 1]).pdl(call.overlap && tma);
    let args = GemmArgs {
        a,
        b,
        c,
        bias,
        order: call.order,
        alpha,
        beta,
        constant: u32::from(call.constant),
        lines: read,
    };
    // SAFETY: the arguments are those of `gemm`. The views that the matrices come from are borrowed by the caller, c
    // exclusively, and reach no further than their shapes, which the kernel keeps to. Programmatic launch only moves what
    // precedes its wait for the preceding grid.
    unsafe { function.launch_block(stream, &launch, &args) }
}
