//! The time that products of groups take.

use super::{Sides, Size};

/// As much as rows of tiles are held up by memory, if it is all the time.
const HELD_UP: u64 = 256;

/// Products whose rows are those of groups.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Work {
    /// Groups that have rows.
    pub(in crate::ops) groups: u64,
    /// Rows of each, on average.
    pub(in crate::ops) rows: u64,
    /// Columns of tiles.
    pub(in crate::ops) columns: u64,
    /// Rows of a tile.
    pub(in crate::ops) high: u64,
    /// Cycles of a tile.
    pub(in crate::ops) each: u64,
    /// Bytes of a group's matrix.
    pub(in crate::ops) matrix: u64,
    /// Whether the kernel is made for few rows.
    pub(in crate::ops) few: bool,
}

impl Work {
    /// Groups that have rows, and how many on average: as many as the caller expects, if it says so.
    pub(in crate::ops) fn average(sides: &Sides, expected: Option<usize>) -> [u64; 2] {
        let Size { groups, rows, .. } = sides.size;
        if sides.apart {
            return [groups as u64, expected.unwrap_or(rows).min(rows) as u64];
        }
        let each = expected.unwrap_or(rows / groups.max(1)).max(1);
        [groups.min(rows.div_ceil(each)) as u64, each as u64]
    }

    /// The time of all tiles, shared out among the SMs: that of the tensor cores or of what the L2 delivers, or that of matrices from memory, which hide
    /// most of each other.
    ///
    /// From memory an SM gets 16 bytes a cycle. A group's matrix is read once where its rows of tiles keep step, as they do where one group's tiles are all that runs at a
    /// time, and for each of them where memory holds them up: between the two by how long memory takes beside half of what is computed. Tiles of few rows do not leave it in L2 at
    /// all. Rows vary: the last tile of each group is half full on average.
    pub(in crate::ops) fn cycles(&self, sms: u32) -> u64 {
        let &Work { groups, rows, columns, high, each, matrix, few } = self;
        let sms = u64::from(sms).max(1);
        // Rows of tiles, in halves.
        let halves = (2 * rows / high + 1).max(2);
        // Each CTA takes whole tiles.
        let tiles = halves.saturating_mul(groups).saturating_mul(columns).div_ceil(2);
        let compute = tiles.div_ceil(sms).saturating_mul(each);
        let once = groups.saturating_mul(matrix) / (16 * sms);
        let held_up = match few {
            true => HELD_UP,
            false if halves.saturating_mul(columns) / 2 >= sms => 0,
            false => (once.saturating_mul(2 * HELD_UP) / compute.max(1)).min(HELD_UP),
        };
        let memory = once.saturating_add(once.saturating_mul((halves - 2) * held_up) / (2 * HELD_UP));
        let (longer, shorter) = (compute.max(memory), compute.min(memory));
        (longer + shorter / 8).max(each)
    }
}
