//! Positions of a sequence: all together, or so many at a time.

use super::plan::Rows;
use super::table::ROWS;

/// The most positions that are taken together: few of the keys are masked.
const MOST: usize = 64;

/// How many positions a sequence has, and how they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Positions {
    all: u32,
    /// So many at a time: their rows fill tiles, but for the last ones.
    pub(super) each: u32,
    /// Each sees the keys up to its own alone.
    pub(super) causal: bool,
}

impl Positions {
    /// Of so many heads.
    pub(super) fn new(all: usize, heads: usize, causal: bool) -> Self {
        // With as many, rows are a multiple of a tile's: of 64.
        let filling = ROWS >> heads.trailing_zeros().min(ROWS.ilog2());
        // Positions and heads were checked.
        let all = all as u32;
        Positions { all, each: if all as usize <= MOST { all } else { filling }, causal }
    }

    /// How often some are taken.
    pub(super) fn times(self) -> usize {
        self.all.div_ceil(self.each.max(1)) as usize
    }

    /// The rows that are taken together, of a sequence of `length` keys: as many `tiles` each.
    pub(super) fn rows(self, sequence: u32, length: u32, tiles: u32) -> impl Iterator<Item = Rows> {
        let (Positions { all, each, causal }, times) = (self, self.times() as u32);
        (0..times).map(move |i| {
            // Keys that the last one sees, if there is one.
            let end = i64::from(i + 1) * i64::from(each);
            let counted = if causal { i64::from(length) + end - i64::from(all) } else { i64::from(length) };
            let seen = counted.clamp(0, i64::from(length));
            // Fewer than `each`.
            let missing = (counted - seen).max(0);
            Rows { sequence, tile: i * tiles, length: seen as u32, missing: missing as u32 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_many_are_taken_by_tiles() {
        for (heads, each) in [(1, 64), (5, 64), (16, 4), (64, 1), (128, 1), (96, 2), (20, 16)] {
            assert_eq!(Positions::new(65, heads, true).each, each, "{heads} heads");
            assert_eq!(Positions::new(64, heads, true).each, 64);
        }
        let rows: Vec<_> = Positions::new(70, 16, true).rows(3, 68, 1).collect();
        assert_eq!(rows.len(), 18);
        assert_eq!(rows[0], Rows { sequence: 3, tile: 0, length: 2, missing: 0 });
        assert_eq!(rows[16], Rows { sequence: 3, tile: 16, length: 66, missing: 0 });
        assert_eq!(rows[17], Rows { sequence: 3, tile: 17, length: 68, missing: 2 });
        let none: Vec<_> = Positions::new(70, 16, true).rows(0, 10, 1).map(|rows| rows.length).collect();
        assert_eq!(none, [vec![0; 15], vec![4, 8, 10]].concat());
        assert!(
            Positions::new(70, 16, false).rows(0, 10, 1).all(|rows| (rows.length, rows.missing) == (10, 0))
        );
    }
}
