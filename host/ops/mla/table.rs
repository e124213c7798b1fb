//! The compiled kernels, and their launches.

use std::f32::consts::LOG2_E;
use std::sync::LazyLock;

use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_device::tile::{ListAbi, PageTable, SplitParts};
use tilewright_mla::{
    Causal, KERNELS, MERGE, MLA, MergeArgs, MlaArgs, MlaCodesArgs, MlaKernel, MlaPlainArgs, PooledAbi,
};

use super::problem::Problem;
use crate::ops::frame::{Table, expect_mapped};
use crate::{AnyFunction, Arch, Device, Error, Launch, Result, Stream};

/// Lines of a TMA box of Q and O, and of a tile.
pub(super) const ROWS: u32 = 64;

/// One compiled kernel.
pub type Compiled = Listed<MlaKernel>;

/// How kernels are to be launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Tiles of rows, and the groups of as many CTAs.
    pub(super) grid: [u32; 2],
    pub(super) pages: PageTable,
    pub(super) items: ListAbi,
    /// The sequences whose parts are merged, of which there are `cut`.
    pub(super) merged: ListAbi,
    pub(super) cut: u32,
    pub(super) parts: SplitParts,
    pub(super) overlap: bool,
}

/// What a kernel is chosen by first: the name of the element type, whether the cache is of records of 8 bits, and the columns of keys and of values.
pub(super) type Kind = (&'static str, bool, [u32; 2]);

static TABLE: LazyLock<Table<Kind, Compiled>> =
    LazyLock::new(|| Table::new(MLA.iter().map(|k| ((k.element, k.codes, k.columns), *k))));

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
    problem: &Problem,
    stream: &Stream,
    how: &Run,
) -> Result<()> {
    let Problem { device, q, o, lse, cache, heads, positions, scale, .. } = problem;
    let backend = device.backend();
    let tma = kernel.arch == Arch::Sm90a;
    let lines = if tma { ROWS } else { 0 };
    let [rows, columns] = if tma { kernel.box_of } else { [0; 2] };
    let q: GlobalAbi<(), 3> = q.arg(backend, true, lines)?;
    // Records are copied one by one, without a map.
    let boxes = if kernel.codes { [0, 1] } else { [rows, columns / 64] };
    let pool: GlobalAbi<(), 4> = cache.pool.streamed_boxes(backend, boxes)?;
    expect_mapped(kernel.name, kernel.arch, [q.tma, if kernel.codes { 1 } else { pool.tma }])?;
    let kv = PooledAbi { pool, pages: how.pages };
    let o: GlobalAbi<(), 3> = o.arg(backend, true, lines)?;
    let lse: GlobalAbi<(), 3> = lse.arg(backend, true, 0)?;
    let (parts, work, scale) = (how.parts, how.items, scale * LOG2_E);
    let causal = Causal::new(*heads, if positions.causal { positions.each } else { 1 });
    let [tiles, groups] = how.grid;
    let launch = Launch::grid([tiles, groups, kernel.parts]).pdl(how.overlap && tma);
    // SAFETY: the arguments are those of the kernel's function. The views that the tensors come from are borrowed by the
    // caller, those that are written exclusively, and reach no further than their shapes, which the kernel keeps to; the lists
    // are the plan's for this grid, and the parts have room for its tiles. Programmatic launch only moves what
    // precedes its wait for the preceding grid.
    unsafe {
        match (tma, kernel.codes) {
            (true, true) => function.launch_block(
                stream,
                &launch,
                &MlaCodesArgs { q, kv, o, lse, parts, work, causal, scale },
            ),
            (true, false) => {
                function.launch_block(stream, &launch, &MlaArgs { q, kv, o, lse, parts, work, causal, scale })
            }
            (false, _) => function.launch_block(
                stream,
                &launch,
                &MlaPlainArgs { q, kv, o, lse, parts, work, causal, scale },
            ),
        }
    }
}

/// What merges a kernel's parts, loaded.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    function: AnyFunction,
    arch: Arch,
    /// Rows of a CTA.
    rows: u32,
}

impl Merge {
    pub(super) fn of(kernel: &Compiled, device: &Device) -> Result<Self> {
        let of = (kernel.arch, kernel.element, kernel.columns[1]);
        let merge = MERGE.iter().find(|merge| (merge.arch, merge.element, merge.columns) == of);
        let merge = merge.ok_or_else(|| Error::KernelMissing {
            kernel: kernel.name,
            arch: kernel.arch,
            reason: "the set has no kernel that merges its parts".to_owned(),
        })?;
        Ok(Merge { function: device.listed(&KERNELS, merge)?, arch: merge.arch, rows: merge.rows })
    }

    /// Launches it.
    pub(super) fn run(&self, problem: &Problem, stream: &Stream, how: &Run) -> Result<()> {
        let Problem { device, o, lse, .. } = problem;
        let backend = device.backend();
        let o: GlobalAbi<(), 3> = o.arg(backend, true, 0)?;
        let lse: GlobalAbi<(), 3> = lse.arg(backend, true, 0)?;
        let args = MergeArgs { parts: how.parts, o, lse, list: how.merged };
        let overlap = how.overlap && self.arch == Arch::Sm90a;
        let launch = Launch::grid([problem.together().div_ceil(self.rows), how.cut, 1]).pdl(overlap);
        // SAFETY: as above, with the arguments of `merge`; the preceding grid wrote the parts, and this one waits for it.
        unsafe { self.function.launch_block(stream, &launch, &args) }
    }
}
