//! Which rows a group has, and which tiles a CTA takes of all groups.

use crate::abi::PassedAsIs;
use crate::arch::global;
use crate::arch::special::{block_x, grid_x};
use crate::tile::memory::division::Division;

/// Where the rows of each group are, as the host passes it, and the tiles of products of them: a group's follow each other.
///
/// ```
/// # use tilewright_device::tile::*;
/// /// Each group's rows of A, once more at the same places of B.
/// fn copied<L: FragmentLayout<64, 64>>(a: Global<f32, 3>, mut b: GlobalMut<f32, 3>, groups: Groups) {
///     // SAFETY: the host passes numbers of all groups.
///     for at in unsafe { groups.tiles::<64>() } {
///         let place = [at.matrix, at.m, at.n];
///         let tile = Fragment::<f32, 64, 64, L>::load(a.tile(place).of_rows(at.first, at.rows));
///         copy(tile, b.tile(place).of_rows(at.first, at.rows));
///     }
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// Address of where each group's rows begin and the last one's end, or of how many rows each has: `i32` in the low bytes of each.
    pub numbers: u64,
    /// Groups.
    pub count: u32,
    /// Rows of each of A's matrices: what numbers are cut off at.
    pub rows: u32,
    /// Columns of tiles.
    pub columns: u32,
    /// By [`PANEL`](Self::PANEL) rows of so many.
    pub by_panel: Division,
    /// The logarithm to base 2 of the bytes from one number to the next.
    pub log2_bytes: u32,
    /// 1 where each group's rows are the first ones of a matrix of its own, 0 where all follow each other in one matrix.
    pub apart: u32,
}

impl PassedAsIs for Groups {}

/// Groups whose numbers are read together.
const BATCH: usize = 8;

/// A tile of a group's product.
#[derive(Clone, Copy, Debug)]
pub struct GroupTile {
    /// The group, which is the number of B's matrix.
    pub group: u32,
    /// The number of A's and C's matrix.
    pub matrix: u32,
    /// The matrix's row at which the group's begin.
    pub first: u32,
    /// The group's rows.
    pub rows: u32,
    /// The row of the group's tiles.
    pub m: u32,
    /// The column of tiles.
    pub n: u32,
}

impl Groups {
    /// Rows of tiles that are taken together, column by column: CTAs that run at a time share them in L2, and a group's matrix passes by once for
    /// so many.
    pub const PANEL: u32 = 16;

    /// A number, as it may be used: no row is beyond a matrix's, whatever lies in memory.
    #[inline(always)]
    fn number(&self, i: u32) -> u32 {
        let at = self.numbers + ((i as u64) << self.log2_bytes);
        // SAFETY: who made the iterator vouches for the numbers.
        (unsafe { global::ld_global_u32(at as *const u32) } as i32).max(0).cast_unsigned().min(self.rows)
    }

    /// A group's first row, and how many it has.
    #[inline(always)]
    fn range(&self, group: u32) -> (u32, u32) {
        if self.apart != 0 {
            return (0, self.number(group));
        }
        let first = self.number(group);
        (first, self.number(group + 1).saturating_sub(first))
    }

    /// The same of some groups from `group` on, whose numbers are read together: one after the other, each waits for its own, which a token's 8 of 256 groups
    /// took a fifth longer by. Behind the last group there are no rows.
    #[inline(always)]
    fn ranges(&self, group: u32) -> [(u32, u32); BATCH] {
        let last = self.count - (self.apart != 0) as u32;
        let mut numbers = [0; BATCH + 1];
        let mut i = 0;
        while i <= BATCH {
            numbers[i] = self.number((group + i as u32).min(last));
            i += 1;
        }
        let mut ranges = [(0, 0); BATCH];
        let mut i = 0;
        while i < BATCH {
            ranges[i] = if self.apart == 0 {
                (numbers[i], numbers[i + 1].saturating_sub(numbers[i]))
            } else if group + (i as u32) < self.count {
                (0, numbers[i])
            } else {
                (0, 0)
            };
            i += 1;
        }
        ranges
    }

    /// Where the tile `t` of a group lies that has `high` rows of tiles.
    #[inline(always)]
    fn place(&self, high: u32, t: u32) -> (u32, u32) {
        let (panel, t) = self.by_panel.of(t);
        let above = panel * Self::PANEL;
        // Never 0, as the compiler cannot know: a division that may panic is a call, and beside one ptxas gives no warpgroup more registers than another.
        let of = (high - above).clamp(1, Self::PANEL);
        (above + t % of, t / of)
    }

    /// The tiles of products whose depth is a group's rows: `high` rows of tiles for each group, of which this CTA takes every `grid`-th.
    ///
    /// # Safety
    /// The numbers are where `numbers` says, one for each group, and one more where they are offsets.
    #[inline(always)]
    pub unsafe fn products(self, high: u32) -> GroupProducts {
        GroupProducts { groups: self, high, next: block_x() }
    }

    /// The tiles of `R` rows that this CTA takes: every `grid`-th of them all, group by group.
    ///
    /// # Safety
    /// As for [`products`](Self::products).
    #[inline(always)]
    pub unsafe fn tiles<const R: usize>(self) -> GroupTiles<R> {
        GroupTiles { groups: self, group: 0, before: 0, next: block_x() }
    }
}

/// The tiles of a CTA. Its numbers only grow: a cursor goes over the groups once.
pub struct GroupTiles<const R: usize> {
    groups: Groups,
    /// The group of the tile before, or a later one.
    group: u32,
    /// Tiles of the groups before it.
    before: u32,
    /// The number of the next tile, of all groups.
    next: u32,
}

impl<const R: usize> Iterator for GroupTiles<R> {
    type Item = GroupTile;

    #[inline(always)]
    fn next(&mut self) -> Option<GroupTile> {
        let Groups { count, columns, apart, .. } = self.groups;
        while self.group < count {
            let ranges = self.groups.ranges(self.group);
            let (mut found, mut first, mut rows, mut group) = (false, 0, 0, self.group);
            let mut i = 0;
            // No branch: which of them has the tile is not known before all numbers are there.
            while i < BATCH {
                let tiles = ranges[i].1.div_ceil(R as u32) * columns;
                let has = self.next - self.before < tiles;
                if !found {
                    (first, rows) = ranges[i];
                    group = self.group + i as u32;
                }
                found |= has;
                self.before += if found { 0 } else { tiles };
                i += 1;
            }
            if found {
                let (m, n) = self.groups.place(rows.div_ceil(R as u32), self.next - self.before);
                self.next += grid_x();
                self.group = group;
                let matrix = if apart != 0 { group } else { 0 };
                return Some(GroupTile { group, matrix, first, rows, m, n });
            }
            self.group += BATCH as u32;
        }
        None
    }
}

/// The tiles of a CTA where all groups have as many.
pub struct GroupProducts {
    groups: Groups,
    /// Rows of tiles of a group.
    high: u32,
    /// The number of the next tile, of all groups.
    next: u32,
}

impl Iterator for GroupProducts {
    type Item = GroupTile;

    #[inline(always)]
    fn next(&mut self) -> Option<GroupTile> {
        let Groups { count, columns, apart, .. } = self.groups;
        let tiles = (self.high * columns).max(1);
        let group = self.next / tiles;
        if group >= count {
            return None;
        }
        let (m, n) = self.groups.place(self.high, self.next - group * tiles);
        self.next += grid_x();
        let (first, rows) = self.groups.range(group);
        let matrix = if apart != 0 { group } else { 0 };
        Some(GroupTile { group, matrix, first, rows, m, n })
    }
}
