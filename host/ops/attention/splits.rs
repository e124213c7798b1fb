//! Into how many parts keys are divided, and what that takes.

use tilewright_device::tile::SplitParts;

use super::problem::{Problem, Size};
use super::table::Compiled;

/// The most parts that are looked at.
const MOST: u64 = 64;
/// The same of codes, whose CTAs take fewer bytes in a time, so that more of them are wanted.
const MOST_OF_CODES: u64 = 256;
/// Up to so many queries, keys are divided even if that takes memory that nobody gave.
const FEW: usize = 16;
/// What a block's products and exponentials wait for each other.
const WAITS: u64 = 500;
/// Bytes a cycle that an SM's share of the memory's bandwidth brings.
const BANDWIDTH: u64 = 37;
/// Of tiles' elements a CTA widens so many a cycle, with what waits for it: of an H100.
const WIDENED: u64 = 8;
/// What a part costs beside its blocks: its Q, its result.
const PART: u64 = 1000;
/// What merging costs.
const MERGE: u64 = 2500;

/// Parts of the keys, and the time that they take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) splits: u64,
    /// Tiles times parts.
    pub(super) items: u64,
    pub(super) cycles: u64,
}

/// The division that is done first: `forced`, or the smallest of those that are about as fast.
///
/// The constants are of an H200, in the unit of the other kernels' estimate: a block takes its products and exponentials, one
/// after the other, or the time in which an SM's share of the memory's bandwidth brings it, whichever is longer.
pub(super) fn split(problem: &Problem, kernel: &Compiled, sms: u32, slowness: u64) -> Split {
    let Problem { size, splits: forced, .. } = problem;
    let Size { batch, heads, kv_heads, queries, keys, .. } = problem.divided();
    let [[m, n], [d, dv]] = [kernel.tile, kernel.columns].map(|pair| pair.map(u64::from));
    let chunks = u64::from(kernel.chunks);
    let rows = (heads / kv_heads.max(1)).saturating_mul(queries) as u64;
    let tiles = (batch as u64).saturating_mul(kv_heads as u64).saturating_mul(rows.div_ceil(m));
    let (all_sms, blocks) = (u64::from(sms).max(1), (keys as u64).div_ceil(n));
    // CTAs that divide the columns of V go through a tile's keys together: what one of them reads the others should find in L2.
    let (sms, dv) = ((all_sms / chunks).max(1), dv / chunks);
    let widened = if problem.kind.codes { n * (d + dv) / WIDENED } else { 0 };
    let compute = (m * n * (d + dv) / 4096 + m * n / 16) * slowness + WAITS + widened;
    let bytes = ((size.columns[0] + size.columns[1]) * problem.inputs[1].dtype.bytes()) as u64;
    let memory = n * bytes / (BANDWIDTH * chunks);
    let most = if problem.kind.codes { MOST_OF_CODES } else { MOST };
    let worthwhile = size.queries <= FEW || problem.has_workspace;
    let most = if worthwhile && mergeable(size) { most.min(blocks.max(1)) } else { 1 };
    let candidates = match forced {
        Some(splits) => u64::from(*splits)..=u64::from(*splits),
        None => 1..=most,
    };
    let ctas = u64::from(kernel.ctas);
    let time = |splits: u64| {
        let (items, each) = (tiles.saturating_mul(splits), blocks.div_ceil(splits));
        // CTAs that share an SM wait under each other's work.
        let sharing = if items > sms { ctas } else { 1 };
        // Alone an SM has little more than its share.
        let part = each * compute.max(memory * sharing * 9 / 10) + (PART + 8 * d) / sharing;
        let all = tiles.saturating_mul(blocks * n).saturating_mul(bytes) / (all_sms * BANDWIDTH);
        let merge = if splits > 1 { MERGE + 50 * splits } else { 0 };
        Split { splits, items, cycles: items.div_ceil(sms * ctas).saturating_mul(part).max(all) + merge }
    };
    let start = time(*candidates.start());
    candidates
        .map(time)
        .fold(start, |best, next| if next.cycles * 50 < best.cycles * 49 { next } else { best })
}

/// Whether a grid of the merging kernel has room for all sequences.
pub(super) fn mergeable(size: &Size) -> bool {
    size.batch <= 65535
}

/// Elements of the workspace: of each part its result and its log-sum-exp.
pub(super) fn workspace_len(size: &Size, splits: u32) -> usize {
    if splits <= 1 {
        return 0;
    }
    let rows = size.batch.saturating_mul(size.heads).saturating_mul(size.queries);
    rows.saturating_mul(part_columns(size) + 1).saturating_mul(splits as usize)
}

/// Columns of a part's results: those of V, and zeros up to a multiple of what a lane of the merging kernel reads.
pub(super) fn part_columns(size: &Size) -> usize {
    size.columns[1].next_multiple_of(SplitParts::RUN)
}
