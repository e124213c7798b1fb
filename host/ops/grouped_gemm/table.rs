//! The compiled kernels, and their launch.

use std::marker::PhantomData;
use std::sync::LazyLock;

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::arch::tma::{EVICT_FIRST, EVICT_NORMAL};
use tilewright_device::kernel::Listed;
use tilewright_grouped_gemm::{
    GROUPED, GroupedGemmArgs, GroupedGemmFewArgs, GroupedGemmGatedArgs, GroupedGemmGatedFewArgs,
    GroupedKernel, KERNELS, RowsOf,
};

use super::problem::Problem;
use crate::ops::frame::{Table, expect_mapped};
use crate::ops::groups::{BOX, Loaded, Sides};
use crate::{AnyFunction, Arch, Device, Result, Stream};

/// Scales of no rows.
const NOTHING: GlobalAbi<f32, 3> = GlobalAbi {
    map: TensorMap::NONE,
    address: 0,
    strides: [0; 3],
    policy: 0,
    shape: [0; 3],
    align: 16,
    tma: 0,
    element: PhantomData,
};

/// One compiled kernel.
pub type Compiled = Listed<GroupedKernel>;

/// By element type, and whether they store gated units.
static TABLE: LazyLock<Table<(&'static str, bool), Compiled>> =
    LazyLock::new(|| Table::new(GROUPED.iter().map(|kernel| ((kernel.element, kernel.gated), *kernel))));

/// The kernels of an element type, of products or of their gated units.
pub(super) fn kernels(element: &'static str, gated: bool) -> &'static [Compiled] {
    TABLE.kernels(&(element, gated))
}

/// The kernel, loaded.
pub(super) fn function<D>(device: &Device, kernel: &Listed<D>) -> Result<AnyFunction> {
    device.listed(&KERNELS, kernel)
}

/// Launches a kernel.
pub(super) fn run(
    kernel: &Compiled,
    loaded: &Loaded<Problem>,
    stream: &Stream,
    problem: &Problem,
) -> Result<()> {
    let Problem { sides: Sides { a, c, numbers, .. }, b, gated, scales } = problem;
    let (function, launch) = (&loaded.function, loaded.grid(kernel.arch));
    let backend = function.device().backend();
    let (tma, b_rows) = (kernel.arch == Arch::Sm90a, kernel.row_major_b);
    let lines = |count| if tma { count } else { 0 };
    let groups = loaded.tiled.groups(numbers);
    let a: GlobalAbi<(), 3> = a.arg(backend, true, lines(kernel.box_lines))?;
    let c: GlobalAbi<(), 3> = c.arg(backend, true, lines(BOX))?;
    let scales: GlobalAbi<f32, 3> = match scales {
        Some(scales) => scales.arg(backend, true, 0)?,
        None => NOTHING,
    };
    let policy = match kernel.of {
        RowsOf::Many => EVICT_NORMAL,
        // Nobody reads a matrix again.
        RowsOf::Few => EVICT_FIRST,
    };
    // SAFETY, of both launches: the arguments are those of the kernel. The views that the tensors come from are borrowed by the caller, C exclusively,
    // and reach no further than their shapes, which the kernel keeps to: groups have no rows but those. There are as many numbers as the kernel reads.
    // Programmatic launch only moves what precedes its wait for the preceding grid.
    if let Some(activation) = gated {
        let w = GlobalAbi::<(), 4> { policy, ..b.arg(backend, true, lines(BOX))? };
        expect_mapped(kernel.name, kernel.arch, [a.tma, w.tma])?;
        let activation = *activation as u32;
        // SAFETY: see above. W are two matrices of each group.
        return unsafe {
            match kernel.of {
                RowsOf::Many => {
                    let args = GroupedGemmGatedArgs { a, w, c, scales, groups, activation };
                    function.launch_block(stream, &launch, &args)
                }
                RowsOf::Few => {
                    let args = GroupedGemmGatedFewArgs { a, w, c, scales, groups, activation };
                    function.launch_block(stream, &launch, &args)
                }
            }
        };
    }
    let b: GlobalAbi<(), 3> = match kernel.of {
        RowsOf::Many => b.arg(backend, b_rows, lines(BOX))?,
        RowsOf::Few => b.t()?.arg(backend, !b_rows, lines(BOX))?,
    };
    let b = GlobalAbi { policy, ..b };
    expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    // SAFETY: see above.
    unsafe {
        match kernel.of {
            RowsOf::Many => {
                function.launch_block(stream, &launch, &GroupedGemmArgs { a, b, c, scales, groups })
            }
            RowsOf::Few => {
                function.launch_block(stream, &launch, &GroupedGemmFewArgs { a, b, c, scales, groups })
            }
        }
    }
}
