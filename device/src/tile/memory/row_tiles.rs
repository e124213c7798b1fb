//! The tiles of rows that a CTA takes.

use crate::abi::{PassedAsIs, Plain};
use crate::arch::special::{block_x, grid_x};
use crate::tile::memory::division::Division;

/// The order of the tiles of a batch of matrices that are cut into tiles of `rows` rows: an argument of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowOrder {
    total: u32,
    by_matrix: Division,
}

impl RowOrder {
    /// Tiles in all are at most this many.
    pub const MAX_TILES: u32 = 1 << 30;

    /// Of `batch` matrices with `rows` rows each, in tiles of `tile` rows; `None` for more tiles than are counted.
    pub fn new(batch: u32, rows: u32, tile: u32) -> Option<Self> {
        let tiles = rows.div_ceil(tile);
        let total = batch.checked_mul(tiles).filter(|&total| total <= Self::MAX_TILES)?;
        Some(RowOrder { total, by_matrix: Division::by(tiles) })
    }
    /// Tiles over the whole batch.
    pub const fn total(&self) -> u32 {
        self.total
    }
}

impl PassedAsIs for RowOrder {}

// SAFETY: numbers of tiles; a tile that a tensor has not reads as zeros and is not stored.
unsafe impl Plain for RowOrder {}

/// A tile of an order, or none behind the last.
#[derive(Clone, Copy)]
pub struct RowTile {
    order: RowOrder,
    number: u32,
    step: u32,
}

impl RowTile {
    /// The first tile of this CTA, or of its cluster of `ctas` CTAs; the grid's clusters take tiles in turn.
    #[inline(always)]
    pub fn first(order: RowOrder, ctas: u32) -> Self {
        let ctas = if ctas == 0 { 1 } else { ctas };
        RowTile { order, number: block_x() / ctas, step: grid_x() / ctas }
    }
    /// The next one.
    #[inline(always)]
    pub fn next(self) -> Self {
        RowTile { number: self.number + self.step, ..self }
    }
    /// Whether there is such a tile.
    #[inline(always)]
    pub fn exists(&self) -> bool {
        self.number < self.order.total
    }
    /// Matrix, tile of rows and `column`, a tile of columns. Behind the last tile it lies outside of the matrix: nothing is read there, so
    /// that a load ahead needs no branch.
    #[inline(always)]
    pub fn at(&self, column: u32) -> [u32; 3] {
        let (matrix, row) = self.order.by_matrix.of(self.number);
        if self.exists() { [matrix, row, column] } else { [0, self.order.by_matrix.divisor, column] }
    }
}
