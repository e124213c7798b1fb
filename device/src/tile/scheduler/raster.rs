//! The order in which CTAs take the tiles of an output.

use crate::abi::{PassedAsIs, Plain};
use crate::arch::special::{block_x, cluster_rank, grid_x};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::Collective;
use crate::tile::memory::division::Division;

/// A tile's place: batch, row of tiles, column of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileIndex {
    /// The matrix of the batch.
    pub batch: u32,
    /// The row of tiles.
    pub m: u32,
    /// The column of tiles.
    pub n: u32,
}

/// The tiles of an output and the order in which they are taken: columns of tiles within panels of
/// `panel` rows of tiles, so that CTAs which run together share operands in L2.
///
/// Made by the host, which also prepares the divisions. `panel` equal to `m` is column by column, 1 is row by row.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RasterOrder {
    /// Rows of tiles.
    m: u32,
    /// Columns of tiles.
    n: u32,
    /// Tiles over the whole batch.
    total: u32,
    /// Rows of tiles in a panel; the last panel may have fewer.
    panel: u32,
    by_matrix: Division,
    by_panel: Division,
    by_rows: Division,
    by_last_rows: Division,
}

impl RasterOrder {
    /// The largest number of tiles that an order can describe.
    pub const MAX_TILES: u32 = 1 << 31;

    /// The order over `batch` matrices of `m` x `n` tiles, in panels of `panel` rows of tiles.
    ///
    /// `None` when there are more than [`MAX_TILES`](Self::MAX_TILES).
    pub fn new(batch: u32, m: u32, n: u32, panel: u32) -> Option<Self> {
        let matrix = m.checked_mul(n)?;
        let total = matrix.checked_mul(batch)?;
        if total > Self::MAX_TILES {
            return None;
        }
        let panel = panel.clamp(1, m.max(1));
        let last = if m.is_multiple_of(panel) { panel } else { m % panel };
        Some(RasterOrder {
            m,
            n,
            total,
            panel,
            by_matrix: Division::by(matrix),
            by_panel: Division::by(panel * n),
            by_rows: Division::by(panel),
            by_last_rows: Division::by(last),
        })
    }

    /// Tiles over the whole batch.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// The place of tile `t`, which is below [`total`](Self::total).
    #[inline(always)]
    pub const fn tile(&self, t: u32) -> TileIndex {
        let (batch, t) = self.by_matrix.of(t);
        let (panel, t) = self.by_panel.of(t);
        let first = panel * self.panel;
        let rows = if first + self.panel > self.m { self.by_last_rows } else { self.by_rows };
        let (n, m) = rows.of(t);
        TileIndex { batch, m: first + m, n }
    }
}

impl PassedAsIs for RasterOrder {}

// SAFETY: numbers of tiles; a tile that a tensor has not reads as zeros and is not stored.
unsafe impl Plain for RasterOrder {}

/// The tiles that this CTA takes: every `grid`-th of the order (persistent CTAs).
pub struct Raster {
    order: RasterOrder,
    next: u32,
    step: u32,
}

impl Raster {
    /// Shares the tiles of `order` among the CTAs of the grid, or among its clusters of `cluster` CTAs.
    #[inline(always)]
    pub fn persistent(order: RasterOrder, cluster: u32) -> Self {
        let cluster = if cluster == 0 { 1 } else { cluster };
        Raster { order, next: block_x() / cluster, step: grid_x() / cluster }
    }
}

impl TileIndex {
    /// This CTA's share of a tile that the CTAs of its cluster take together: they lie along M.
    #[inline(always)]
    pub(in crate::tile) fn own<P: Collective>(self) -> Self {
        if P::CLUSTER == 1 {
            return self;
        }
        TileIndex { m: self.m * P::CLUSTER + cluster_rank(), ..self }
    }
}

impl<P: Collective> Cta<P> {
    /// The tiles of `order` that this CTA takes, where `split` CTAs divide the depth of each.
    ///
    /// The CTAs of a cluster of `P` take neighbours along M together, which count as one in `order`.
    #[inline(always)]
    pub fn tiles(&self, order: RasterOrder, split: u32) -> impl Iterator<Item = TileIndex> + use<P> {
        Raster::persistent(order, split * P::CLUSTER).map(TileIndex::own::<P>)
    }
}

impl Iterator for Raster {
    type Item = TileIndex;
    #[inline(always)]
    fn next(&mut self) -> Option<TileIndex> {
        let t = self.next;
        if t >= self.order.total {
            return None;
        }
        self.next = t + self.step;
        Some(self.order.tile(t))
    }
}
