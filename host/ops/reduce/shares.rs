//! How a kernel's threads and CTAs share a reduction.

use tilewright_device::tile::division::Division;
use tilewright_reduce::{AHEAD, COLUMNS_THREADS, ColumnsWork, ROWS_THREADS, ReduceKernel, RowsWork, VECTOR};

use super::problem::{Problem, walk};
use crate::ops::frame::Rejection;
use crate::ops::runs::{Run, product};

/// CTAs that an SM holds.
const RESIDENT: usize = 4;
/// The most parts of a result.
const PARTS: usize = 1024;

/// How CTAs share it, and what they do at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Parts of a result that go to memory, to be reduced by another launch; 1 where there are none.
    pub(super) parts: usize,
    /// CTAs in all.
    pub(super) ctas: usize,
    /// Threads of a result, of rows; neighbouring threads with neighbouring results, of columns: a power of two.
    threads: usize,
    /// Of rows: threads of a line.
    lanes: usize,
    /// Of rows: pieces of a line. Of columns: elements of a part.
    cut: usize,
}

/// A power of two that is not less, up to `most`.
fn power(least: usize, most: usize) -> usize {
    least.clamp(1, most).next_power_of_two()
}

impl Shares {
    /// Of a kernel whose CTAs, or clusters, take whole results, or `parts` of each.
    fn rows(problem: &Problem, kernel: &ReduceKernel, parts: usize, sms: usize) -> Self {
        let most = ROWS_THREADS as usize;
        let (line, lines) = problem.lines();
        let (vectors, lines) = (line.size.div_ceil(kernel.piece as usize), product(lines));
        let all = vectors.saturating_mul(lines);
        let (results, shares) = (problem.results(), parts * kernel.ctas as usize);
        let mut lanes = if vectors < 2 { 1 } else { power(vectors.div_ceil(AHEAD).max(2), most) };
        let mut threads = power(all.div_ceil(AHEAD), most).max(lanes);
        while threads < most && (shares > 1 || results.saturating_mul(threads) < sms * 1024 && threads < all)
        {
            threads *= 2;
        }
        while lanes < threads && (lines == 1 || lanes < vectors.min(32)) {
            lanes *= 2;
        }
        // Lines are cut where there are fewer than work for all.
        let wanted = (shares * (threads / lanes)).div_ceil(lines.max(1));
        let cuts = wanted.min(vectors.div_ceil(AHEAD * lanes)).max(1);
        let cut = vectors.div_ceil(cuts).max(1) * kernel.piece as usize;
        let ctas = results.div_ceil(most / threads).saturating_mul(shares);
        Shares { parts, ctas, threads, lanes, cut }
    }

    fn columns(problem: &Problem, kernel: &ReduceKernel, parts: usize, sms: usize) -> Self {
        let most = COLUMNS_THREADS as usize;
        let pieces = problem.results().div_ceil(kernel.piece as usize);
        let each = problem.elements().div_ceil(parts);
        // As many threads along a result as have several elements each.
        let along = if each < 2 * AHEAD { 1 } else { power(each / AHEAD / 2 + 1, most) };
        let least = most / along;
        let (line, _) = problem.lines();
        let (columns, _) = problem.columns();
        let ctas = |across: usize| pieces.div_ceil(across).saturating_mul(parts);
        let mut across = power(pieces, 32).max(least);
        // Fewer neighbours read less than whole sectors well; more CTAs read more at a time.
        while across > least.max(128 / kernel.bytes.max(4) as usize) && ctas(across) < sms * RESIDENT {
            across /= 2;
        }
        if line.strides[0] < columns.strides[0] {
            across = least;
        }
        Shares { parts, ctas: ctas(across), threads: across, lanes: 1, cut: each }
    }

    /// How a kernel would compute a reduction, and in how many cycles.
    pub(super) fn best(problem: &Problem, kernel: &ReduceKernel, sms: usize) -> (Self, u64) {
        let of = |parts| {
            let shares = match kernel.rows {
                true => Self::rows(problem, kernel, parts, sms),
                false => Self::columns(problem, kernel, parts, sms),
            };
            (shares, shares.cycles(problem, kernel, sms))
        };
        let whole = of(1);
        let bytes = problem.elements().saturating_mul(problem.dtype.bytes());
        // Of a part at least what a CTA reads in two turns.
        let most = (bytes / (2 * AHEAD * VECTOR * ROWS_THREADS as usize)).min(PARTS);
        let most = if kernel.rows { most } else { most.max(bytes / VECTOR / AHEAD / 64).min(PARTS) };
        let fill = (sms * RESIDENT).div_ceil(whole.0.ctas.max(1));
        let parts = fill.min(most);
        if !problem.room || kernel.ctas > 1 || parts < 2 {
            return whole;
        }
        let divided = of(parts);
        if divided.1 < whole.1 { divided } else { whole }
    }

    /// Its time, in cycles of an SM: bound by memory, or by how long CTAs take one after the other.
    ///
    /// The constants are of an H200: 20 bytes a cycle come to an SM, 16 to one CTA, which takes 900 cycles besides; a cluster 1500, another
    /// launch over parts 3000.
    fn cycles(&self, problem: &Problem, kernel: &ReduceKernel, sms: usize) -> u64 {
        let width = problem.dtype.bytes();
        let bytes = problem.results().saturating_mul(problem.elements()).saturating_mul(width);
        let turns = self.ctas.div_ceil(sms * RESIDENT).max(1);
        let work = turns.saturating_mul(900 + bytes / self.ctas.max(1) / 16);
        let short = kernel.rows && problem.lines().0.size * width < 32 && problem.elements() > 1;
        let slowness = if kernel.bytes < 16 {
            3
        } else if short {
            4
        } else {
            1
        };
        let joining = if kernel.ctas > 1 { 1500 } else { 0 };
        let merging = if self.parts > 1 { 3000 + self.parts } else { 0 };
        (work.max(bytes / (20 * sms)).saturating_mul(slowness) + joining + merging) as u64
    }

    /// What a kernel of rows is told.
    pub(super) fn rows_work(&self, problem: &Problem) -> Result<RowsWork, Rejection> {
        let too_many =
            Rejection::AtMost { what: "pieces of results", most: tilewright_reduce::Walk::<1>::MOST };
        let (line, lines) = problem.lines();
        let number = |size: usize| u32::try_from(size).map_err(|_| too_many);
        let lines = walk(lines.iter().copied()).ok_or(too_many)?;
        let cuts = line.size.div_ceil(self.cut);
        let pieces = number(cuts.saturating_mul(lines.count() as usize))?;
        if pieces > tilewright_reduce::Walk::<1>::MOST {
            return Err(too_many);
        }
        Ok(RowsWork {
            x: problem.x,
            y: problem.y,
            results: walk(problem.kept.iter().copied()).ok_or(too_many)?,
            lines,
            length: number(line.size)?,
            cut: number(self.cut)?,
            by_line: Division::by(number(cuts)?),
            pieces,
            threads: self.threads.ilog2(),
            lanes: self.lanes.ilog2(),
            by_parts: Division::by(number(self.parts)?),
        })
    }

    /// What a kernel of columns is told.
    pub(super) fn columns_work(
        &self,
        problem: &Problem,
        kernel: &ReduceKernel,
    ) -> Result<ColumnsWork, Rejection> {
        let most = tilewright_reduce::Walk::<1>::MOST;
        let too_many = Rejection::AtMost { what: "elements of a result", most };
        let (columns, outer) = problem.columns();
        let piece = kernel.piece as usize;
        let vectors = Run {
            size: columns.size / piece,
            strides: columns.strides.map(|stride| stride.wrapping_mul(piece)),
        };
        Ok(ColumnsWork {
            x: problem.x,
            y: problem.y,
            pieces: walk(outer.iter().copied().chain([vectors])).ok_or(too_many)?,
            step: columns.strides[1] as u64,
            elements: walk(problem.reduced.iter().copied()).ok_or(too_many)?,
            chunk: u32::try_from(self.cut).map_err(|_| too_many)?,
            across: self.threads.ilog2(),
            by_parts: Division::by(u32::try_from(self.parts).map_err(|_| too_many)?),
            apart: problem.results() as u64,
        })
    }
}
