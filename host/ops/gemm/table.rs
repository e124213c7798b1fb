//! The compiled GEMM kernels, and their launch.

use std::sync::LazyLock;

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernel::Listed;
use tilewright_device::tile::RasterOrder;
use tilewright_gemm::{GEMM, GemmArgs, GemmKernel, KERNELS};

use super::problem::Matrices;
use crate::ops::frame::{Table, expect_mapped};
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

/// Launches a kernel.
pub(super) fn run(
    kernel: &Compiled,
    function: &AnyFunction,
    stream: &Stream,
    matrices: &Matrices,
    call: &Call,
) -> Result<()> {
    let Matrices { a, b, c, bias, .. } = matrices;
    let backend = function.device().backend();
    let tma = kernel.arch == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let [a_rows, b_rows, c_rows] = kernel.row_major;
    let mut a: GlobalAbi<(), 3> = a.arg(backend, a_rows, lines(BOX))?;
    let mut b: GlobalAbi<(), 3> = b.arg(backend, b_rows, lines(kernel.box_lines))?;
    [a.policy, b.policy] = call.policies;
    expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    let c: GlobalAbi<(), 3> = c.arg(backend, c_rows, lines(kernel.box_lines))?;
    let bias = match bias {
        Some(bias) => bias.arg(backend, c_rows, 0)?,
        None => GlobalAbi { map: TensorMap::NONE, shape: [0; 3], tma: 0, ..c },
    };
    // Those that take a tile together, or its depth.
    let cluster = kernel.cluster[0];
    let (resident, all) = (function.resident_ctas(), function.device().sm_count().max(1));
    let resident = call.sms.map_or(resident, |sms| resident.saturating_mul(sms.min(all)) / all);
    let clusters = call.order.total().min(resident / cluster).max(1);
    let launch = Launch::grid([clusters * cluster, 1, 1]).pdl(call.overlap && tma);
    let [alpha, beta] = call.scale;
    let args = GemmArgs { a, b, c, bias, order: call.order, alpha, beta, constant: u32::from(call.constant) };
    // SAFETY: the arguments are those of `gemm`. The views that the matrices come from are borrowed by the caller, c
    // exclusively, and reach no further than their shapes, which the kernel keeps to. Programmatic launch only moves what
    // precedes its wait for the preceding grid.
    unsafe { function.launch_block(stream, &launch, &args) }
}
