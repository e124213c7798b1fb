//! The compiled kernels, and their launch.

use std::marker::PhantomData;
use std::sync::LazyLock;

use tilewright_dequant_gemm::{DequantGemmInt8Args, DequantInt8Kernel, INT8};
use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernel::Listed;
use tilewright_device::tile::EpilogueAbi;

use super::super::problem::Problem;
use super::super::table::{Call, Compiled};
use crate::ops::frame::Table;
use crate::{AnyFunction, Arch, DType, Launch, Result};

/// What a kernel is chosen by first: names of the scales' type, the format and the mode of zeros, and whether scales are of
/// groups rather than of rows.
pub(super) type Kind = (&'static str, &'static str, &'static str, bool);

static TABLE: LazyLock<Table<Kind, Compiled>> = LazyLock::new(|| {
    let kind = |kernel: &DequantInt8Kernel| (kernel.element, kernel.format, kernel.zeros, kernel.groups);
    Table::new(INT8.iter().map(|kernel| (kind(kernel), Compiled::int8(kernel))))
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.kernels(&kind)
}

/// The names that `of` gives to the kinds of which `like` is true.
pub(super) fn names(like: impl Fn(&Kind) -> bool, of: impl Fn(&Kind) -> &'static str) -> String {
    let mut names: Vec<_> = TABLE.kinds().filter(|&kind| like(kind)).map(of).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// A tensor without elements: what a kernel does without.
fn nothing() -> GlobalAbi<(), 2> {
    GlobalAbi {
        map: TensorMap::NONE,
        address: 0,
        strides: [0; 2],
        policy: 0,
        shape: [0; 2],
        align: 16,
        tma: 0,
        element: PhantomData,
    }
}

/// Launches a kernel.
pub(in crate::ops::dequant_gemm) fn run(
    kernel: &Listed<DequantInt8Kernel>,
    function: &AnyFunction,
    problem: &Problem,
    call: &Call<'_>,
) -> Result<()> {
    let Problem { device, a, c, bias, tokens, scales, .. } = problem;
    let backend = device.backend();
    let tma = kernel.arch == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let (output, sums) = match c.dtype {
        DType::I32 => (nothing(), c.t()?.arg(backend, false, 0)?),
        _ => (c.t()?.arg(backend, false, lines(kernel.box_c))?, nothing()),
    };
    let a: GlobalAbi<(), 2> = a.arg(backend, true, lines(kernel.tile[1]))?;
    // Scales of groups are the weights', and apply as sums are added up.
    let scales = scales.filter(|_| !kernel.groups);
    let epilogue = EpilogueAbi {
        bias: bias.map_or_else(|| Ok(nothing()), |bias| bias.arg(backend, false, 0))?,
        residual: (),
        row_scales: scales.map_or_else(|| Ok(nothing()), |scales| scales.arg(backend, false, 0))?,
        column_scales: tokens.map_or_else(|| Ok(nothing()), |tokens| tokens.arg(backend, true, 0))?,
        alpha: call.alpha,
        beta: 0.0,
        activation: call.activation,
    };
    let args = DequantGemmInt8Args { w: call.weights, a, c: output, sums, order: call.order, epilogue };
    let launch = Launch::grid([call.ctas, 1, 1]).pdl(call.overlap && tma);
    // SAFETY: the arguments are those of `dequant_gemm_int8`. The caller borrows the views and weights, c exclusively, and the
    // workspace that the order names; the kernel keeps to their shapes. Programmatic launch only moves what precedes its wait
    // for the preceding grid.
    unsafe { function.launch_block(call.stream, &launch, &args) }
}
