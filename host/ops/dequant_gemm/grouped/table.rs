//! The compiled kernels, and their launch.

use std::sync::LazyLock;

use tilewright_dequant_gemm::{GROUPED, GroupedDequantGemmArgs, GroupedDequantKernel, KERNELS};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;

use super::super::DeviceWeights;
use super::super::table::{Kind, kind_in};
use super::problem::Problem;
use crate::ops::HalfElement;
use crate::ops::frame::{Table, expect_mapped};
use crate::ops::groups::{Loaded, Sides};
use crate::{AnyFunction, Arch, Device, Result, Stream};

/// One compiled kernel.
pub type Compiled = Listed<GroupedDequantKernel>;

static TABLE: LazyLock<Table<Kind, Compiled>> = LazyLock::new(|| {
    Table::new(GROUPED.iter().map(|kernel| ((kernel.element, kernel.format, kernel.zeros), *kernel)))
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.kernels(&kind)
}

/// What kernels are chosen by for activations of `T`.
pub(super) fn kind<T: HalfElement>(w: &DeviceWeights) -> Result<Kind> {
    kind_in::<T, _>(&TABLE, w)
}

/// The kernel, loaded.
pub(super) fn function(device: &Device, kernel: &Compiled) -> Result<AnyFunction> {
    device.listed(&KERNELS, kernel)
}

/// Launches a kernel.
pub(super) fn run(
    kernel: &Compiled,
    loaded: &Loaded<Problem>,
    stream: &Stream,
    problem: &Problem,
    w: &DeviceWeights,
) -> Result<()> {
    let &Problem { sides: Sides { a, c, numbers, .. }, blocks, .. } = &problem;
    let (function, launch) = (&loaded.function, loaded.grid(kernel.arch));
    let backend = function.device().backend();
    let lines = |count| if kernel.arch == Arch::Sm90a { count } else { 0 };
    let groups = loaded.tiled.groups(numbers);
    let a: GlobalAbi<(), 3> = a.arg(backend, true, lines(kernel.tile[0]))?;
    let c: GlobalAbi<(), 3> = c.t()?.arg(backend, false, lines(kernel.box_c))?;
    expect_mapped(kernel.name, kernel.arch, [a.tma])?;
    let args = GroupedDequantGemmArgs { w: w.abi(), a, c, blocks: *blocks, groups };
    // SAFETY: the arguments are those of `grouped_dequant_gemm`. The views that the tensors come from and the weights are borrowed by the caller, C exclusively,
    // and reach no further than their shapes, which the kernel keeps to: groups have no rows but those. There are as many numbers as the kernel reads, and as
    // many blocks of weights. Programmatic launch only moves what precedes its wait for the preceding grid.
    unsafe { function.launch_block(stream, &launch, &args) }
}
