//! The kernels' launch.

use tilewright_device::abi::GlobalAbi;
use tilewright_grouped_gemm::KGroupedGemmArgs;

use super::choose::Compiled;
use super::problem::Problem;
use crate::ops::frame::expect_mapped;
use crate::ops::groups::{BOX, Tiled};
use crate::{AnyFunction, Arch, Launch, Result, Stream};

/// Launches a kernel.
pub(super) fn run(
    kernel: &Compiled,
    function: &AnyFunction,
    stream: &Stream,
    problem: &Problem,
    tiled: &Tiled,
    overlap: bool,
) -> Result<()> {
    let Problem { a, b, c, numbers, accumulate, .. } = problem;
    let backend = function.device().backend();
    let tma = kernel.arch == Arch::Sm90a;
    let lines = if tma { BOX } else { 0 };
    let a: GlobalAbi<(), 3> = a.arg(backend, true, lines)?;
    let b: GlobalAbi<(), 3> = b.arg(backend, true, lines)?;
    let c: GlobalAbi<(), 3> = c.arg(backend, true, lines)?;
    expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    let groups = tiled.groups(numbers);
    let grid = function.resident_ctas().min(tiled.tiles).max(1);
    let launch = Launch::grid([grid, 1, 1]).pdl(overlap && tma);
    let args = KGroupedGemmArgs { a, b, c, groups, accumulate: u32::from(*accumulate) };
    // SAFETY: the arguments are those of the kernel. The views that the tensors come from are borrowed by the caller, C exclusively, and reach no
    // further than their shapes, which the kernel keeps to: groups have no rows but those, and C a matrix for each. There are as many numbers as the kernel reads.
    // Programmatic launch only moves what precedes its wait for the preceding grid.
    unsafe { function.launch_block(stream, &launch, &args) }
}
