//! The kernels' launch.

use tilewright_device::abi::GlobalAbi;
use tilewright_device::arch::tma::{EVICT_FIRST, EVICT_NORMAL};
use tilewright_scaled_gemm::{GroupedScaledGemmArgs, GroupedScaledGemmFewArgs};

use super::choose::Compiled;
use super::problem::Problem;
use crate::ops::frame::expect_mapped;
use crate::ops::groups::{BOX, Loaded, Sides};
use crate::{Result, Stream};

/// Launches a kernel.
pub(super) fn run(
    kernel: &Compiled,
    loaded: &Loaded<Problem>,
    stream: &Stream,
    problem: &Problem,
) -> Result<()> {
    let Problem { sides: Sides { a, c, numbers, size, .. }, b, scales } = problem;
    let (function, launch) = (&loaded.function, loaded.grid(kernel.arch));
    let backend = function.device().backend();
    let groups = loaded.tiled.groups(numbers);
    let a: GlobalAbi<(), 3> = a.arg(backend, true, kernel.box_lines)?;
    let c: GlobalAbi<(), 3> = c.arg(backend, true, BOX)?;
    // Nobody reads a matrix again where rows are few.
    let (mut b, policy): (GlobalAbi<(), 3>, _) = match kernel.few {
        false => (b.t()?.arg(backend, false, BOX)?, EVICT_NORMAL),
        true => (b.arg(backend, true, BOX)?, EVICT_FIRST),
    };
    b.policy = policy;
    // Without depth nothing is loaded.
    if size.k > 0 {
        expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    }
    let [line_scales, block_scales]: [GlobalAbi<(), 3>; 2] =
        [scales[0].arg(backend, true, 0)?, scales[1].arg(backend, true, 0)?];
    // SAFETY: the arguments are those of the kernel. The views that the tensors come from are borrowed by the caller, C exclusively, and reach no
    // further than their shapes, which the kernel keeps to: groups have no rows but those. There are as many numbers as the kernel reads.
    // Programmatic launch only moves what precedes its wait for the preceding grid.
    unsafe {
        if kernel.few {
            let args = GroupedScaledGemmFewArgs { a, b, c, line_scales, block_scales, groups };
            function.launch_block(stream, &launch, &args)
        } else {
            let args = GroupedScaledGemmArgs { a, b, c, line_scales, block_scales, groups };
            function.launch_block(stream, &launch, &args)
        }
    }
}
