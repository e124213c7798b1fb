//! The kernels' launch.

use tilewright_device::abi::GlobalAbi;
use tilewright_grouped_gemm::KGroupedGemmArgs;

use super::choose::Compiled;
use super::problem::Problem;
use crate::ops::frame::expect_mapped;
use crate::ops::groups::{BOX, Loaded};
use crate::{Arch, Result, Stream};

/// Launches a kernel.
pub(super) fn run(
    kernel: &Compiled,
    loaded: &Loaded<Problem>,
    stream: &Stream,
    problem: &Problem,
) -> Result<()> {
    let Problem { a, b, c, numbers, accumulate, .. } = problem;
    let backend = loaded.function.device().backend();
    let lines = if kernel.arch == Arch::Sm90a { BOX } else { 0 };
    let a: GlobalAbi<(), 3> = a.arg(backend, true, lines)?;
    let b: GlobalAbi<(), 3> = b.arg(backend, true, lines)?;
    let c: GlobalAbi<(), 3> = c.arg(backend, true, lines)?;
    expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    let groups = loaded.tiled.groups(numbers);
    let args = KGroupedGemmArgs { a, b, c, groups, accumulate: u32::from(*accumulate) };
    // SAFETY: the arguments are those of the kernel. The views that the tensors come from are borrowed by the caller, C exclusively, and reach no
    // further than their shapes, which the kernel keeps to: groups have no rows but those, and C a matrix for each. There are as many numbers as the kernel reads.
    // Programmatic launch only moves what precedes its wait for the preceding grid.
    unsafe { loaded.function.launch_block(stream, &loaded.grid(kernel.arch), &args) }
}
