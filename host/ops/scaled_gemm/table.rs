//! The compiled kernels, and their launch.

use std::sync::LazyLock;

use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_device::tile::{Activation, EpilogueAbi, RasterOrder, StreamOrder};
use tilewright_scaled_gemm::{
    KERNELS, Mode, SCALED, ScaledGemmArgs, ScaledGemmStreamArgs, ScaledKernel, ToRangeAbi,
};

use super::problem::Problem;
use crate::ops::frame::{MOST_ALIKE, Table, absent, alike, expect_mapped};
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, Arch, DType, Device, Launch, Result, Stream};

/// Lines of a TMA box of A.
const BOX: u32 = 64;

/// The types of A and B where these are split into parts, which add up apart: in place of `tf32`.
pub(super) const SPLIT: &str = "split f32";

/// One compiled kernel.
pub type Compiled = Listed<ScaledKernel>;

/// What a kernel is chosen by first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    /// The types of A and B.
    pub(super) input: &'static str,
    pub(super) output: &'static str,
    /// Whether scales are of blocks.
    pub(super) blocks: bool,
    /// Whether sums of floats may stay in the tensor cores.
    pub(super) fast: bool,
}

/// How CTAs take the tiles of C.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Whole, or their clusters divide the depth of each.
    Tiles(RasterOrder),
    /// So many CTAs divide the depth of all.
    Stream(StreamOrder, u32),
}

/// What a launch needs beside the matrices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) order: Order,
    pub(super) alpha: f32,
    pub(super) activation: Activation,
    /// L2 policies of A and B.
    pub(super) policies: [u64; 2],
    /// May start while the preceding grid still runs.
    pub(super) overlap: bool,
}

static TABLE: LazyLock<Table<Kind, Compiled>> = LazyLock::new(|| {
    let kinds = |kernel: &'static Compiled| {
        let ScaledKernel { input, output, mode, .. } = kernel.description;
        // Only sums of 8-bit floats lose by it.
        let promoted = !matches!(input, "i8" | "tf32");
        let input = if input == "tf32" && mode == Mode::Promoted { SPLIT } else { input };
        let serves = move |fast: &bool| *fast || mode != Mode::Straight || !promoted;
        let kind = move |fast| (Kind { input, output, blocks: mode == Mode::Blocks, fast }, *kernel);
        [false, true].into_iter().filter(serves).map(kind)
    };
    Table::new(SCALED.iter().flat_map(kinds))
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.kernels(&kind)
}

/// The element types of C that there are for A and B of these types.
pub(super) fn outputs(input: &str) -> Vec<&'static str> {
    let mut outputs: Vec<_> =
        TABLE.kinds().filter(|kind| kind.input == input).map(|kind| kind.output).collect();
    outputs.sort_unstable();
    outputs.dedup();
    outputs
}

/// The kernel, loaded.
pub(super) fn function<D>(device: &Device, kernel: &Listed<D>) -> Result<AnyFunction> {
    device.listed(&KERNELS, kernel)
}

/// Lines of a tile of B, of so many columns of C, that a kernel reads: all, or [as many for each](alike).
pub(super) fn lines_read(kernel: &Compiled, columns: usize) -> u32 {
    let [_, n, _] = kernel.tile;
    // Scales of blocks, and sums of parts, have places in whole tiles.
    let most = match kernel.mode {
        _ if kernel.row_major => 0,
        Mode::Blocks => 0,
        _ if kernel.stream => 1,
        _ => MOST_ALIKE,
    };
    alike(columns, n, 8, most)
}

/// Whether the kernel stores numbers of 8 bits.
fn to_e4m3(kernel: &Compiled) -> bool {
    kernel.output == DType::E4M3.name()
}

/// Launches a kernel on the matrices, of the transposed product if it computes that.
pub(super) fn run(
    kernel: &Compiled,
    function: &AnyFunction,
    stream: &Stream,
    problem: &Problem,
    call: &Call,
) -> Result<()> {
    if !to_e4m3(kernel) {
        return launch(kernel, function, stream, (problem, ()), call);
    }
    let number = |number: &Option<Untyped>| match number {
        Some(number) => number.arg::<(), 2>(function.device().backend(), true, 0),
        None => Ok(absent()),
    };
    let to_range =
        ToRangeAbi { scale: number(&problem.scale_c)?.into(), amax: number(&problem.amax)?.into() };
    launch(kernel, function, stream, (problem, to_range), call)
}

/// The same, with what rounding to the kernel's type takes.
fn launch<R: Copy>(
    kernel: &Compiled,
    function: &AnyFunction,
    stream: &Stream,
    (problem, rounding): (&Problem, R),
    call: &Call,
) -> Result<()> {
    let Problem { a, b, c, bias, scales: [of_rows, of_columns], blocks, size: [m, n, k], .. } = problem;
    let backend = function.device().backend();
    let (tma, c_rows) = (kernel.arch == Arch::Sm90a, kernel.row_major);
    let lines = |count| if tma { count } else { 0 };
    let mut a: GlobalAbi<(), 2> = a.arg(backend, true, lines(BOX))?;
    let read = lines_read(kernel, *n);
    let mut b: GlobalAbi<(), 2> = b.t()?.arg(backend, false, lines(kernel.box_lines.min(read)))?;
    [a.policy, b.policy] = call.policies;
    if *k > 0 {
        expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    }
    let scales = |of: &Option<Untyped>, shape: [usize; 2], along: usize| match of {
        None => Ok(absent()),
        Some(scales) => {
            let mut strides = [0, 0];
            strides[along] = scales.layout.strides()[0];
            let layout = Layout::strided(&shape, &strides)?;
            Untyped { layout, ..*scales }.arg::<(), 2>(backend, along == 1, 0)
        }
    };
    let [line_scales, block_scales]: [GlobalAbi<(), 2>; 2] = match blocks {
        Some(blocks) => [blocks[0].arg(backend, true, 0)?, blocks[1].arg(backend, true, 0)?],
        None => [absent(), absent()],
    };
    let bias: GlobalAbi<(), 2> = match bias {
        Some(bias) => bias.arg(backend, c_rows, 0)?,
        None => absent(),
    };
    let epilogue = EpilogueAbi {
        bias,
        residual: (),
        row_scales: scales(of_rows, [*m, 1], 0)?,
        column_scales: scales(of_columns, [1, *n], 1)?,
        alpha: call.alpha,
        beta: 0.0,
        activation: call.activation,
    };
    // Numbers of 8 bits are stored from registers.
    let c_lines = if to_e4m3(kernel) { 0 } else { lines(kernel.box_lines) };
    let c: GlobalAbi<(), 2> = c.arg(backend, c_rows, c_lines)?;
    let grid = |ctas| Launch::grid([ctas, 1, 1]).pdl(call.overlap && tma);
    // SAFETY: the arguments are those of `scaled_gemm`, or of `scaled_gemm_stream`, which has memory for its parts, with `rounding` for the kernel's type; B's boxes have the lines that a tile has. The
    // views that the matrices come from are borrowed by the caller, c and amax exclusively, and reach no further than their shapes, which the kernel keeps to.
    // Programmatic launch only moves what precedes its wait for the preceding grid.
    unsafe {
        match call.order {
            Order::Tiles(order) => {
                let lines = read;
                let args =
                    ScaledGemmArgs { a, b, c, line_scales, block_scales, order, lines, epilogue, rounding };
                let cluster = kernel.cluster[0];
                let clusters = order.total().min(function.resident_ctas() / cluster).max(1);
                function.launch_block(stream, &grid(clusters * cluster), &args)
            }
            Order::Stream(order, ctas) => {
                let args = ScaledGemmStreamArgs {
                    a,
                    b,
                    c,
                    line_scales,
                    block_scales,
                    order,
                    lines: read,
                    epilogue,
                    rounding,
                };
                function.launch_block(stream, &grid(ctas), &args)
            }
        }
    }
}
