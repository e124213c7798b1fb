//! Launches of flash-decoding: the parts, and what merges them.

use tilewright_attention::{DecodeArgs, DecodeKernel, KERNELS, MERGE, MergeArgs, PartKeys, SplitOrder};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_device::tile::SplitParts;
use tilewright_device::tile::division::Division;

use super::problem::{Problem, Size};
use super::splits::part_columns;
use super::table::BOX;
use crate::ops::frame::{expect_mapped, of_shape};
use crate::tensor::Untyped;
use crate::{AnyFunction, Arch, Error, Launch, Result, Stream};

/// A kernel of parts of the keys, and the one that merges its parts if there are several.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    kernel: &'static Listed<DecodeKernel>,
    function: AnyFunction,
    order: SplitOrder,
    splits: u32,
    /// Where parts lie in the workspace, from its begin on.
    parts: SplitParts,
    grid: [u32; 3],
    merge: Option<Merge>,
}

/// How parts are merged.
#[derive(Clone, Debug)]
struct Merge {
    function: AnyFunction,
    by_tiles: Division,
    by_queries: Division,
    rows: u32,
    grid: [u32; 3],
}

impl Parts {
    pub(super) fn new(kernel: &'static Listed<DecodeKernel>, problem: &Problem, splits: u32) -> Result<Self> {
        let (device, size) = (&problem.device, problem.divided());
        let function = device.listed(&KERNELS, kernel)?;
        let Size { batch, heads, kv_heads, queries, .. } = size;
        let columns = part_columns(&size);
        let too_large = || {
            Error::argument(
                "q",
                of_shape(problem.inputs[0].layout.shape()),
                "of fewer than 2^31 tiles and parts of keys",
            )
        };
        let count = |n: usize| u32::try_from(n).map_err(|_| too_large());
        let shared_by = count(heads / kv_heads.max(1))?;
        let order = (kernel.order)(count(batch)?, count(kv_heads)?, shared_by, count(queries)?, splits);
        let order = order.ok_or_else(too_large)?;
        let rows = if splits == 1 { 0 } else { batch * heads * queries };
        let lines = splits as usize * rows;
        // A part of all rows after the other; behind the results the sums.
        let parts = SplitParts {
            results: 0,
            sums: (lines * columns * 4) as u64,
            lines: count(lines)?,
            columns: count(columns)?,
            step: count(rows)?,
            padding: 0,
        };
        let of_columns = size.columns[1].div_ceil((kernel.columns[1] / kernel.chunks) as usize).max(1);
        let of_columns = count(of_columns)?.min(kernel.chunks);
        let ctas = (function.resident_ctas() / of_columns).min(order.total()).max(1);
        let grid = [ctas, of_columns, 1];
        let merge = if splits == 1 { None } else { Some(Merge::new(kernel, problem, too_large)?) };
        Ok(Parts { kernel, function, order, splits, parts, grid, merge })
    }

    pub(super) fn run(
        &self,
        problem: &Problem,
        stream: &Stream,
        overlap: bool,
        workspace: u64,
    ) -> Result<()> {
        match problem.selected {
            None => self.launch(problem, stream, overlap, (workspace, problem.cache)),
            Some(selected) => self.launch(problem, stream, overlap, (workspace, selected)),
        }
    }

    fn launch<S: PartKeys>(
        &self,
        problem: &Problem,
        stream: &Stream,
        overlap: bool,
        (workspace, cache): (u64, S),
    ) -> Result<()> {
        let Problem { device, inputs: [q, k, v], o, lse, size, scales: [cap, scale], terms, .. } = problem;
        let Parts { kernel, function, order, splits, parts, grid, merge } = self;
        let backend = device.backend();
        let tma = kernel.arch == Arch::Sm90a;
        let lines = if tma { cache.cache().pages.box_rows(kernel.tile[1]) } else { 0 };
        let q: GlobalAbi<(), 4> = q.streamed(backend, if tma { BOX } else { 0 })?;
        let [k, v]: [GlobalAbi<(), 4>; 2] = [k.streamed(backend, lines)?, v.streamed(backend, lines)?];
        if size.keys > 0 {
            expect_mapped(kernel.name, kernel.arch, [k.tma, v.tma])?;
        }
        let parts = SplitParts { results: workspace, sums: workspace + parts.sums, ..*parts };
        let lse: GlobalAbi<(), 4> = lse.arg(backend, true, 0)?;
        let launch = Launch::grid(*grid).pdl(overlap && tma);
        let o: GlobalAbi<(), 4> = o.streamed(backend, 0)?;
        let (order, cap, scale, terms) = (*order, *cap, *scale, *terms);
        let args = DecodeArgs { q, k, v, o, lse, parts, order, cache, cap, scale, terms };
        // SAFETY: the arguments are those of `decode` for these keys, which the kernel was chosen for. The views that the tensors come from are borrowed by the caller, those that are written exclusively, and reach no
        // further than their shapes, which the kernel keeps to; the workspace is as large as the parts are. Programmatic launch only
        // moves what precedes its wait for the preceding grid.
        unsafe { function.launch_block(stream, &launch, &args)? };
        let Some(Merge { function, by_tiles, by_queries, rows, grid }) = merge else { return Ok(()) };
        let (by_tiles, by_queries) = (*by_tiles, *by_queries);
        let o: GlobalAbi<(), 4> = in_lines(problem.o, problem)?.streamed(backend, 0)?;
        let lse: GlobalAbi<(), 4> = in_lines(problem.lse, problem)?.arg(backend, true, 0)?;
        let args = MergeArgs { parts, o, lse, by_tiles, by_queries, rows: *rows, splits: *splits };
        let launch = Launch::grid(*grid).pdl(overlap && tma);
        // SAFETY: as above, with the arguments of `merge`; the preceding grid wrote the parts, and this one waits for it.
        unsafe { function.launch_block(stream, &launch, &args) }
    }
}

/// A result, \[batch, heads, queries, columns\], with its dimensions in the order of the parts' rows: with lists of blocks queries come before heads. A
/// log-sum-exp that is not wanted has no rows, and keeps none.
fn in_lines(result: Untyped, problem: &Problem) -> Result<Untyped> {
    if problem.selected.is_none() || result.layout.len() == 0 {
        return Ok(result);
    }
    let layout = result.layout.transpose(1, 2)?;
    Ok(Untyped { layout, ..result })
}

impl Merge {
    fn new(
        kernel: &'static Listed<DecodeKernel>,
        problem: &Problem,
        too_large: impl Fn() -> Error,
    ) -> Result<Self> {
        let Problem { device, size, .. } = problem;
        let count = |n: usize| u32::try_from(n).map_err(|_| too_large());
        let merge = MERGE.iter().find(|merge| (merge.arch, merge.element) == (kernel.arch, kernel.element));
        let merge = merge.ok_or_else(|| Error::KernelMissing {
            kernel: kernel.name,
            arch: kernel.arch,
            reason: "the set has no kernel that merges its parts".to_owned(),
        })?;
        let tiles = count(part_columns(size))?.div_ceil(merge.columns);
        let rows = count(size.heads * size.queries)?;
        // Of a line's results, that lie together: see `in_lines`.
        let inner = if problem.selected.is_some() { size.heads } else { size.queries };
        let (by_tiles, by_queries) = (Division::by(tiles), Division::by(count(inner)?));
        let ctas = rows.checked_mul(tiles).filter(|&ctas| ctas < 1 << 31).ok_or_else(&too_large)?;
        let (function, grid) = (device.listed(&KERNELS, merge)?, [ctas, count(size.batch)?, 1]);
        Ok(Merge { function, by_tiles, by_queries, rows, grid })
    }
}
