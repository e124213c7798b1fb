//! Which kernel computes a product of int8 activations: an estimate of each one's time.

use super::super::choose::{DequantCandidate, rejection, take};
use super::super::problem::Problem;
use super::super::table::Compiled;
use super::table::{Kind, kernels};
use crate::{Arch, Result};

/// Depth that the estimate counts in.
const STEP: u64 = 128;

/// Every kernel of the kind, the fastest by estimate first, the impossible ones last.
pub(super) fn candidates(problem: &Problem, kind: Kind) -> Result<Vec<DequantCandidate>> {
    let reading = problem.a.reading(problem.device.backend(), true)?;
    let candidate = |kernel: Compiled| DequantCandidate {
        kernel,
        outcome: match rejection(problem, reading, &kernel) {
            Some(rejection) => Err(rejection),
            None => Ok(estimate(&kernel, kind.3, problem.size, problem.device.sm_count())),
        },
    };
    let mut all: Vec<_> = kernels(kind).map(candidate).collect();
    all.sort_by_key(DequantCandidate::rank);
    Ok(all)
}

/// The best kernel, or the one that is asked for by name.
pub(super) fn choose(problem: &Problem, kind: Kind, forced: Option<&str>) -> Result<DequantCandidate> {
    let (all, scales) = (candidates(problem, kind)?, if kind.3 { "groups" } else { "rows" });
    let what = format!("{} weights, zeros {}, scales of {scales}, and int8 activations", kind.1, kind.2);
    // There is no kind without kernels.
    take(problem, &all[0], &all, forced, &what)
}

/// The time of a persistent kernel whose steps are shared evenly.
///
/// The constants are of an H200: each step of 128 takes 60 cycles, 2.6 for a row of weights to decode, and one for each 23 of the
/// tile's elements to multiply, 14 where groups' sums are scaled; sums of parts are read at 15 elements a cycle; a launch takes
/// 9000. `mma.sync` and `cp.async` take four times as long.
fn estimate(kernel: &Compiled, groups: bool, [m, n, k]: [usize; 3], sms: u32) -> u64 {
    let [rows, columns, _] = kernel.tile.map(u64::from);
    let tiles = (n as u64).div_ceil(rows).saturating_mul((m as u64).div_ceil(columns));
    let steps = tiles.saturating_mul((k as u64).div_ceil(STEP)).div_ceil(u64::from(sms).max(1));
    let slowness = if kernel.arch == Arch::Sm90a { 1 } else { 4 };
    let step = 60 + rows * 26 / 10 + rows * columns / if groups { 14 } else { 23 };
    let parts = u64::from(sms).div_ceil(tiles.max(1));
    let sums = if parts > 1 { parts * rows * columns / 15 } else { 0 };
    steps.saturating_mul(step * slowness).saturating_add(sums + 9000)
}
