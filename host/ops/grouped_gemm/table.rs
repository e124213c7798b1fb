//! The compiled kernels, and their launch.

use std::marker::PhantomData;
use std::sync::LazyLock;

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::arch::tma::{EVICT_FIRST, EVICT_NORMAL};
use tilewright_device::kernel::Listed;
use tilewright_device::tile::division::Division;
use tilewright_grouped_gemm::{
    GROUPED, GroupedGemmArgs, GroupedGemmFewArgs, GroupedKernel, Groups, KERNELS, PANEL, RowsOf,
};

use super::problem::{Problem, Size};
use crate::ops::frame::{Table, expect_mapped, of_shape};
use crate::ops::indices::log2_bytes;
use crate::tensor::Untyped;
use crate::{AnyFunction, Arch, Device, Error, Launch, Result, Stream};

/// Lines of a TMA box of B and of C.
pub(super) const BOX: u32 = 64;
/// The most tiles that are counted.
const MOST_TILES: u64 = 1 << 31;

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

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(GROUPED.iter().map(|kernel| (kernel.element, *kernel))));

/// The kernels of an element type.
pub(super) fn kernels(element: &'static str) -> &'static [Compiled] {
    TABLE.kernels(&element)
}

/// The kernel, loaded.
pub(super) fn function<D>(device: &Device, kernel: &Listed<D>) -> Result<AnyFunction> {
    device.listed(&KERNELS, kernel)
}

/// What a launch needs beside the tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// With numbers that are nowhere yet.
    groups: Groups,
    /// The most tiles that groups can have.
    tiles: u32,
    /// May start while the preceding grid still runs.
    overlap: bool,
}

impl Call {
    pub(super) fn new(problem: &Problem, kernel: &Compiled, overlap: bool) -> Result<Self> {
        let Size { groups, rows, n, .. } = problem.size;
        let [high, wide, _] = kernel.tile.map(u64::from);
        let (columns, all) = ((n as u64).div_ceil(wide), (rows as u64).div_ceil(high));
        // Where groups follow each other, each one's last tile may be a part of one.
        let high =
            if problem.apart { all.saturating_mul(groups as u64) } else { all + groups.min(rows) as u64 };
        let tiles = high.saturating_mul(columns);
        let groups =
            groups_of(&problem.numbers, &problem.c, problem.apart, [groups, rows], [tiles, columns])?;
        Ok(Call { groups, tiles: tiles as u32, overlap })
    }
}

/// Which rows groups have, with numbers that are nowhere yet, and which tiles of C, all together and in a row, if they can be counted.
pub(super) fn groups_of(
    numbers: &Untyped,
    c: &Untyped,
    apart: bool,
    [count, rows]: [usize; 2],
    [tiles, columns]: [u64; 2],
) -> Result<Groups> {
    if tiles > MOST_TILES
        || columns * u64::from(PANEL) > MOST_TILES
        || count as u64 > u64::from(u32::MAX >> 1)
    {
        return Err(Error::argument(
            "c",
            of_shape(c.layout.shape()),
            format!("of at most {MOST_TILES} tiles"),
        ));
    }
    Ok(Groups {
        numbers: 0,
        count: count as u32,
        rows: rows as u32,
        columns: columns as u32,
        by_panel: Division::by(columns as u32 * PANEL),
        log2_bytes: log2_bytes(numbers),
        apart: u32::from(apart),
    })
}

/// Launches a kernel.
pub(super) fn run(
    kernel: &Compiled,
    function: &AnyFunction,
    stream: &Stream,
    problem: &Problem,
    call: &Call,
) -> Result<()> {
    let Problem { a, b, c, scales, numbers, .. } = problem;
    let backend = function.device().backend();
    let (tma, b_rows) = (kernel.arch == Arch::Sm90a, kernel.row_major_b);
    let lines = |count| if tma { count } else { 0 };
    let groups = Groups { numbers: numbers.address, ..call.groups };
    let a: GlobalAbi<(), 3> = a.arg(backend, true, lines(kernel.box_lines))?;
    let c: GlobalAbi<(), 3> = c.arg(backend, true, lines(BOX))?;
    let scales: GlobalAbi<f32, 3> = match scales {
        Some(scales) => scales.arg(backend, true, 0)?,
        None => NOTHING,
    };
    let grid = function.resident_ctas().min(call.tiles).max(1);
    let launch = Launch::grid([grid, 1, 1]).pdl(call.overlap && tma);
    let (mut b, policy): (GlobalAbi<(), 3>, _) = match kernel.of {
        RowsOf::Many => (b.arg(backend, b_rows, lines(BOX))?, EVICT_NORMAL),
        // Nobody reads a matrix again.
        RowsOf::Few => (b.t()?.arg(backend, !b_rows, lines(BOX))?, EVICT_FIRST),
    };
    b.policy = policy;
    expect_mapped(kernel.name, kernel.arch, [a.tma, b.tma])?;
    // SAFETY: the arguments are those of the kernel. The views that the tensors come from are borrowed by the caller, C exclusively, and reach no
    // further than their shapes, which the kernel keeps to: groups have no rows but those. There are as many numbers as the kernel reads.
    // Programmatic launch only moves what precedes its wait for the preceding grid.
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
