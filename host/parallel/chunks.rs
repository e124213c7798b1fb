//! Rows in chunks, and which of them a rank has.

use std::ops::Range;

use crate::{Error, Result};

/// Chunks are whole rows of tiles, of 128 rows or twice as many.
const TILE: usize = 128;

/// Rows that are multiplied and communicated in chunks, one after the other.
///
/// Where each rank has a part of the rows (reduce-scatter, all-gather), it has as many of each chunk: those of [`of_rank`](Self::of_rank). So layers
/// that hand such parts to each other have the same chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    rows: usize,
    /// Rows of each but the last.
    each: usize,
}

impl Chunks {
    /// All rows at once.
    pub fn one(rows: usize) -> Self {
        Chunks { rows, each: rows.max(1) }
    }

    /// About `count` chunks, of multiples of 128 rows and of `ranks` rows.
    ///
    /// # Errors
    /// If `count` or `ranks` is 0.
    pub fn new(rows: usize, count: usize, ranks: usize) -> Result<Self> {
        for (name, value) in [("count", count), ("ranks", ranks)] {
            if value == 0 {
                return Err(Error::argument(name, "0", "1 or more"));
            }
        }
        let whole = TILE.saturating_mul(ranks / gcd(TILE, ranks));
        let each = rows.div_ceil(count).checked_next_multiple_of(whole).unwrap_or(rows);
        Ok(Chunks { rows, each: each.clamp(1, rows.max(1)) })
    }

    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// How many chunks there are: one if there are no rows.
    pub fn count(&self) -> usize {
        self.rows.div_ceil(self.each).max(1)
    }
    /// The rows of each chunk.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let Chunks { rows, each } = *self;
        (0..self.count()).map(move |i| i * each..((i + 1) * each).min(rows))
    }
    /// The rows that a rank has where each has a part: so many of each chunk.
    ///
    /// # Errors
    /// If a chunk's rows are no multiple of `ranks`, or `rank` is not below `ranks`.
    pub fn of_rank(&self, rank: usize, ranks: usize) -> Result<Vec<Range<usize>>> {
        if rank >= ranks {
            return Err(Error::argument("rank", rank.to_string(), format!("below {ranks}")));
        }
        let part = |chunk: Range<usize>| {
            if !chunk.len().is_multiple_of(ranks) {
                let was = format!("with a chunk of {} rows", chunk.len());
                return Err(Error::argument("chunks", was, format!("of multiples of {ranks} rows")));
            }
            let each = chunk.len() / ranks;
            Ok(chunk.start + rank * each..chunk.start + (rank + 1) * each)
        };
        self.ranges().map(part).collect()
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_tiles_and_cover_all_rows() {
        for (rows, count, ranks) in
            [(4096, 4, 2), (1000, 3, 4), (1, 4, 1), (0, 2, 2), (130, 2, 2), (6144, 5, 3)]
        {
            let chunks = Chunks::new(rows, count, ranks).unwrap();
            let ranges: Vec<_> = chunks.ranges().collect();
            assert_eq!(ranges.iter().map(ExactSizeIterator::len).sum::<usize>(), rows);
            assert!(
                ranges.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len() == chunks.each)
            );
            assert!(ranges.len() <= count.max(1) && ranges.len() == chunks.count(), "{ranges:?}");
            let inner = &ranges[..ranges.len() - 1];
            assert!(inner.iter().all(|rows| rows.len() % 128 == 0 && rows.len() % ranks == 0), "{ranges:?}");
        }
    }

    #[test]
    fn each_rank_has_as_many_rows_of_each_chunk() {
        let chunks = Chunks::new(640, 2, 4).unwrap();
        assert_eq!(chunks.of_rank(1, 4).unwrap(), [96..192, 448..512]);
        let mut all: Vec<_> = (0..4).flat_map(|rank| chunks.of_rank(rank, 4).unwrap()).flatten().collect();
        all.sort_unstable();
        assert_eq!(all, Vec::from_iter(0..640));
    }

    #[test]
    fn what_cannot_be_divided_is_named() {
        let text = |result: Result<Chunks>| result.unwrap_err().to_string();
        assert_eq!(text(Chunks::new(8, 0, 2)), "`count` was 0; it must be 1 or more");
        assert_eq!(text(Chunks::new(8, 2, 0)), "`ranks` was 0; it must be 1 or more");
        let odd = Chunks::one(7);
        let error = odd.of_rank(0, 2).unwrap_err().to_string();
        assert_eq!(error, "`chunks` was with a chunk of 7 rows; it must be of multiples of 2 rows");
        assert_eq!(odd.of_rank(2, 2).unwrap_err().to_string(), "`rank` was 2; it must be below 2");
    }
}
