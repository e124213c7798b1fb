//! Launches of flash-decoding: the parts, and what merges them.

use tilewright_attention::{DecodeArgs, DecodeKernel, KERNELS, MERGE, MergeArgs};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_device::tile::SplitParts;
use tilewright_device::tile::division::Division;

use super::problem::{Problem, Size};
use super::splits::part_columns;
use super::table::{BOX, Run};
use crate::ops::frame::{expect_mapped, of_shape};
use crate::{Arch, Error, Launch, Result, Stream};

/// Launches the kernel, and the one that merges its parts if there are several.
pub(super) fn run(
    kernel: &'static Listed<DecodeKernel>,
    problem: &Problem,
    stream: &Stream,
    how: &Run,
) -> Result<()> {
    let Problem { device, inputs: [q, k, v], o, lse, size, cache, scales: [cap, scale], .. } = problem;
    let function = device.listed(&KERNELS, kernel)?;
    let backend = device.backend();
    let tma = kernel.arch == Arch::Sm90a;
    // A box for each page, or for the part of one that fits a block.
    let paged = problem.cached.table.as_ref().and_then(|_| u32::try_from(size.block_rows).ok());
    let [_, keys] = kernel.tile;
    let lines = if tma { paged.map_or(keys, |rows| rows.min(keys)) } else { 0 };
    let q: GlobalAbi<(), 4> = q.streamed(backend, if tma { BOX } else { 0 })?;
    let [k, v]: [GlobalAbi<(), 4>; 2] = [k.streamed(backend, lines)?, v.streamed(backend, lines)?];
    if size.keys > 0 {
        expect_mapped(kernel.name, kernel.arch, [k.tma, v.tma])?;
    }
    let &Size { batch, heads, kv_heads, queries, .. } = size;
    let columns = part_columns(size);
    let too_large = || {
        Error::argument(
            "q",
            of_shape(problem.inputs[0].layout.shape()),
            "of fewer than 2^31 tiles and parts of keys",
        )
    };
    let count = |n: usize| u32::try_from(n).map_err(|_| too_large());
    let shared_by = count(heads / kv_heads.max(1))?;
    let order = (kernel.order)(count(batch)?, count(kv_heads)?, shared_by, count(queries)?, how.splits);
    let order = order.ok_or_else(too_large)?;

    let rows = if how.splits == 1 { 0 } else { batch * heads * queries };
    let lines = how.splits as usize * rows;
    // A part of all rows after the other; behind the results the sums.
    let parts = SplitParts {
        results: how.workspace,
        sums: how.workspace + (lines * columns * 4) as u64,
        lines: count(lines)?,
        columns: count(columns)?,
        step: count(rows)?,
        padding: 0,
    };
    let lse: GlobalAbi<(), 4> = lse.arg(backend, true, 0)?;
    let grid = function.resident_ctas().min(order.total()).max(1);
    let launch = Launch::grid([grid, 1, 1]).pdl(how.overlap && tma);
    let o: GlobalAbi<(), 4> = o.streamed(backend, 0)?;
    let args = DecodeArgs { q, k, v, o, lse, parts, order, cache: *cache, cap: *cap, scale: *scale };
    // SAFETY: the arguments are those of `decode`. The views that the tensors come from are borrowed by the caller, those that are written exclusively, and reach no
    // further than their shapes, which the kernel keeps to; the workspace is as large as the parts are. Programmatic launch only
    // moves what precedes its wait for the preceding grid.
    unsafe { function.launch_block(stream, &launch, &args)? };
    if how.splits == 1 {
        return Ok(());
    }
    let merge = MERGE.iter().find(|merge| (merge.arch, merge.element) == (kernel.arch, kernel.element));
    let merge = merge.ok_or_else(|| Error::KernelMissing {
        kernel: kernel.name,
        arch: kernel.arch,
        reason: "the set has no kernel that merges its parts".to_owned(),
    })?;
    let (tiles, each) = (count(columns)?.div_ceil(merge.columns), count(heads * queries)?);
    let (by_tiles, by_queries) = (Division::by(tiles), Division::by(count(queries)?));
    let args = MergeArgs { parts, o, lse, by_tiles, by_queries, rows: each, splits: how.splits };
    let merge = device.listed(&KERNELS, merge)?;
    let ctas = each.checked_mul(tiles).filter(|&ctas| ctas < 1 << 31).ok_or_else(too_large)?;
    let launch = Launch::grid([ctas, count(batch)?, 1]).pdl(how.overlap && tma);
    // SAFETY: as above, with the arguments of `merge`; the preceding grid wrote the parts, and this one waits for it.
    unsafe { merge.launch_block(stream, &launch, &args) }
}
