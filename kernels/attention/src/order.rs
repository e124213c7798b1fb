//! The order in which CTAs take the tiles of queries.

use core::iter;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::{block_x, grid_x, grid_x_volatile};
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{InPlace, TileList};

use crate::sequences::Sequences;

/// A tile of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryTile {
    /// The sequence.
    pub batch: u32,
    /// The head.
    pub head: u32,
    /// The head of keys and values that it shares.
    pub kv_head: u32,
    /// The tile of queries.
    pub m: u32,
}

/// Tiles of queries, heaviest first inside groups of heads whose keys and values fit the L2 cache together.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TileOrder {
    m: u32,
    all_heads: u32,
    total: u32,
    by_group: Division,
    by_size: Division,
    /// By how much a division by the last group's size differs from `by_size`: the choice between two takes another load.
    last_differs: Division,
    by_heads: Division,
    by_shared: Division,
    by_ctas: Division,
    turning: u32,
}

impl TileOrder {
    /// The order over `m` tiles for each of `heads` heads of `batch` sequences, `shared_by` of which share keys and values, in
    /// groups of `group` heads. With `turns` every other wave of `ctas` tiles goes backwards: who has a heavy tile has a light one next.
    ///
    /// `None` when there are 2^31 tiles or more.
    pub fn new([batch, heads, shared_by, m]: [u32; 4], group: u32, ctas: u32, turns: bool) -> Option<Self> {
        let all_heads = batch.checked_mul(heads)?;
        let total = all_heads.checked_mul(m).filter(|&total| total < 1 << 31)?;
        let group = group.clamp(1, all_heads.max(1));
        let last = if all_heads.is_multiple_of(group) { group } else { all_heads % group };
        Some(TileOrder {
            m,
            all_heads,
            total,
            by_group: Division::by(m * group),
            by_size: Division::by(group),
            last_differs: Division::by(last).minus(Division::by(group)),
            by_heads: Division::by(heads),
            by_shared: Division::by(shared_by),
            by_ctas: Division::by(ctas),
            turning: if turns { total / ctas.max(1) } else { 0 },
        })
    }
    /// Tiles in all.
    pub const fn total(&self) -> u32 {
        self.total
    }
    /// The place of tile `t`, which is below [`total`](Self::total).
    #[inline(always)]
    pub const fn tile(&self, t: u32) -> QueryTile {
        let (wave, place) = self.by_ctas.of(t);
        let t =
            if wave % 2 == 1 && wave < self.turning { t + self.by_ctas.divisor - 1 - 2 * place } else { t };
        let (group, t) = self.by_group.of(t);
        let first = group * self.by_size.divisor;
        let last = first + self.by_size.divisor > self.all_heads;
        let size = self.by_size.plus(self.last_differs, last as u32);
        let (heavier, head) = size.of(t);
        let (batch, head) = self.by_heads.of(first + head);
        QueryTile { batch, head, kv_head: self.by_shared.of(head).0, m: self.m - 1 - heavier }
    }
    /// Heads of a sequence.
    pub(crate) const fn heads(&self) -> u32 {
        self.by_heads.divisor
    }
    /// Tile `m` of a sequence's head.
    #[inline(always)]
    pub(crate) const fn query_tile(&self, batch: u32, head: u32, m: u32) -> QueryTile {
        QueryTile { batch, head, kv_head: self.by_shared.of(head).0, m }
    }
}

impl PassedAsIs for TileOrder {}

impl From<[u32; 4]> for QueryTile {
    #[inline(always)]
    fn from([batch, head, kv_head, m]: [u32; 4]) -> Self {
        QueryTile { batch, head, kv_head, m }
    }
}

impl From<QueryTile> for [u32; 4] {
    #[inline(always)]
    fn from(QueryTile { batch, head, kv_head, m }: QueryTile) -> Self {
        [batch, head, kv_head, m]
    }
}

/// The tiles that this CTA takes: every `grid`-th of the order (persistent CTAs).
pub struct QueryTiles {
    order: InPlace<TileOrder>,
    next: u32,
    step: u32,
}

impl QueryTiles {
    /// Shares the tiles of `order` among the CTAs of the grid.
    #[inline(always)]
    pub fn persistent(order: InPlace<TileOrder>) -> Self {
        QueryTiles { order, next: block_x(), step: grid_x() }
    }
    /// The same, or the CTA's first tile over and over where sequences have a [queue](Sequences::queue), which says when it ends.
    #[inline(always)]
    pub fn of<S: Sequences>(order: InPlace<TileOrder>) -> Self {
        QueryTiles { order, next: block_x(), step: if S::QUEUED { 0 } else { grid_x() } }
    }
}

/// The tiles of an order, for a queue that hands them out one by one.
pub struct OrderedTiles(pub InPlace<TileOrder>);

impl TileList for OrderedTiles {
    type Tile = QueryTile;

    #[inline(always)]
    fn tile(&mut self, t: u32) -> Option<QueryTile> {
        let order = self.0.get();
        if t < order.total { Some(order.tile(t)) } else { None }
    }
}

/// The numbers of [these tiles](QueryTiles::persistent) in the order, for kernels that have no registers for more: each finds out anew which tile one is.
#[inline(always)]
pub fn tile_numbers(order: InPlace<TileOrder>) -> impl Iterator<Item = u32> {
    let next = |t: &u32| Some(t + grid_x_volatile());
    iter::successors(Some(block_x()), next).take_while(move |&t| t < order.get().total)
}

impl Iterator for QueryTiles {
    type Item = QueryTile;
    #[inline(always)]
    fn next(&mut self) -> Option<QueryTile> {
        let (t, order) = (self.next, self.order.get());
        if t >= order.total {
            return None;
        }
        self.next = t + self.step;
        Some(order.tile(t))
    }
}
