//! Sums over the rows of a matrix whose rows begin anywhere, such as 8191 x 8191: so many rows that they end at a multiple of 16 bytes are taken as
//! one, which is read in vectors; its results are parts of those that are wanted.

use tilewright_reduce::{Made, VECTOR};

use super::choose::{Compiled, Prepared};
use super::problem::Problem;
use crate::Result;
use crate::ops::frame::PLANNED_ROOM;
use crate::ops::runs::Run;

/// A reduction over rows, of which several are taken as one.
pub(super) struct Folded {
    /// The reduction over whole groups of rows, to as many results as a group has elements.
    pub(super) groups: Problem,
    /// Rows of a group.
    rows: usize,
    /// That over the rows behind the last group, if there are some.
    rest: Option<Problem>,
}

impl Problem {
    /// It, for kernels that read vectors, where these could not otherwise: of the rows of one contiguous matrix, with memory for parts.
    pub(super) fn folded(&self) -> Option<Folded> {
        let (&[columns], &[all]) = (&self.kept[..], &self.reduced[..]) else { return None };
        let contiguous = columns.strides[0] == 1 && all.strides[0] == columns.size;
        let aligned = self.x.is_multiple_of(VECTOR as u64);
        let has_parts = self.room && self.how.made != Made::LargestPlace as u32;
        let piece = VECTOR / self.dtype.bytes();
        // The least number of rows whose elements are whole vectors: a power of two, for so is a vector's.
        let rows = piece >> columns.size.trailing_zeros().min(piece.ilog2());
        if !(contiguous && aligned && has_parts) || rows == 1 || all.size < rows {
            return None;
        }
        let (size, groups) = (columns.size.checked_mul(rows)?, all.size / rows);
        let of_groups = Run { size, strides: [1, 1] };
        let over_groups = Run { size: groups, strides: [size] };
        let rest = all.size % rows;
        let behind = self.x + (groups * size * self.dtype.bytes()) as u64;
        let over_rest = Run { size: rest, ..all };
        Some(Folded {
            groups: Problem { kept: vec![of_groups], reduced: vec![over_groups], ..self.clone() },
            rows,
            rest: (rest > 0).then(|| Problem {
                x: behind,
                reduced: vec![over_rest],
                room: false,
                ..self.clone()
            }),
        })
    }
}

impl Folded {
    /// The launches: over groups by `kernel`, over the rows behind them, and over the parts of `whole` that these gave.
    pub(super) fn prepare(
        &self,
        whole: &Problem,
        kernel: &'static Compiled,
        overlap: bool,
    ) -> Result<Prepared> {
        let shares = self.groups.shares(kernel);
        let [first, _] = self.groups.parts(shares.parts, PLANNED_ROOM, false);
        let mut steps = vec![first.step(kernel, &shares, overlap)?];
        let mut parts = shares.parts * self.rows;
        if let Some(rest) = &self.rest {
            let at = PLANNED_ROOM + (parts * whole.results() * size_of::<f32>()) as u64;
            let [rest, _] = rest.parts(1, at, false);
            steps.push(rest.chosen_step(overlap)?);
            parts += 1;
        }
        let [_, last] = whole.parts(parts, PLANNED_ROOM, false);
        steps.push(last.chosen_step(overlap)?);
        Ok(Prepared { steps, workspace_len: whole.results().saturating_mul(parts) })
    }
}
