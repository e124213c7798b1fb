//! The kernels' launch.

use tilewright_device::abi::GlobalAbi;
use tilewright_grouped_gemm::{Groups, KGroupedGemmArgs};

use super::choose::Compiled;
use super::problem::{Problem, Size};
use crate::ops::frame::expect_mapped;
use crate::ops::grouped_gemm::table::{BOX, groups_of};
use crate::{AnyFunction, Arch, Launch, Result, Stream};

/// What a launch needs beside the tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// With numbers that are nowhere yet.
    groups: Groups,
    /// Of all groups.
    tiles: u32,
    /// May start while the preceding grid still runs.
    overlap: bool,
}

impl Call {
    pub(super) fn new(problem: &Problem, kernel: &Compiled, overlap: bool) -> Result<Self> {
        let Size { groups, rows, m, n } = problem.size;
        let [high, wide, _] = kernel.tile.map(u64::from);
        let columns = (n as u64).div_ceil(wide);
        let tiles = (m as u64).div_ceil(high).saturating_mul(columns).saturating_mul(groups as u64);
        let Problem { numbers, c, apart, .. } = problem;
        let groups = groups_of(numbers, c, *apart, [groups, rows], [tiles, columns])?;
        Ok(Call { groups, tiles: tiles as u32, overlap })
    }
}

/// Launches a kernel.
pub(super) fn run(
    kernel: &Compiled,
    function: &AnyFunction,
    stream: &Stream,
    problem: &Problem,
    call: &Call,
) -> Result<()> {
    let Problem { a, b, c, numbers, accumulate, .. } = problem;
    let backend = function.device().backend();
    let tma = kernel.arch == Arch::Sm90a;
    let lines = if tma { BOX } else { 0 };
    let a: GlobalAbi<(), 3> = a.arg(backend, true, lines)?;
    let b: GlobalAbi<(), 3> = b.arg(backend, true, lines)?;
    let c: GlobalAbi<(), 3> = c.arg(backend, true, lines)?;
    expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    let groups = Groups { numbers: numbers.address, ..call.groups };
    let grid = function.resident_ctas().min(call.tiles).max(1);
    let launch = Launch::grid([grid, 1, 1]).pdl(call.overlap && tma);
    let args = KGroupedGemmArgs { a, b, c, groups, accumulate: u32::from(*accumulate) };
    // SAFETY: the arguments are those of the kernel. The views that the tensors come from are borrowed by the caller, C exclusively, and reach no
    // further than their shapes, which the kernel keeps to: groups have no rows but those, and C a matrix for each. There are as many numbers as the kernel reads.
    // Programmatic launch only moves what precedes its wait for the preceding grid.
    unsafe { function.launch_block(stream, &launch, &args) }
}
