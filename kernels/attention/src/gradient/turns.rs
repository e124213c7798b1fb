//! Which tiles of keys a CTA takes, and the order in which they add to the gradients of queries.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::arch::special::{block_x, block_y, block_z, thread_x, trap};
use tilewright_device::tile::{HandsOut, SumTurn, TileList, TileNumbers, TileQueue, TileSlots};

use super::HeadOrder;
use super::ranges::Range;
use super::stats::LINE;

/// Queries of a counter.
const QUERIES: u32 = 64;
/// Counters in front of those of queries: the first one counts CTAs.
const FRONT: u32 = 4;

/// The order of additions: that of tiles' numbers, so that sums are the same bits each time, or any. And how CTAs take tiles.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// Address of the [counters](Self::len), aligned to 16 bytes, as [`query_stats`](fn@super::query_stats) leaves them; 0 without queries, of which there are no statistics.
    pub counters: u64,
    /// 1 where additions have an order.
    pub ordered: u32,
    /// Heads of queries of a matrix.
    pub heads: u32,
    /// Lines of a head's statistics.
    pub lines: u32,
    /// Heads of keys, or parts of such, of each of so many sequences.
    pub of_keys: [u32; 2],
}

impl Turns {
    /// Of tiles that add nothing.
    pub const NONE: Self = Turns { counters: 0, ordered: 0, heads: 0, lines: 0, of_keys: [0; 2] };
    /// Counters of 4 bytes where additions have no order.
    pub const UNORDERED: usize = FRONT as usize;

    /// The same where they have: for so many matrices of `heads` heads of `lines` lines of statistics.
    pub const fn len(matrices: usize, heads: usize, lines: usize) -> usize {
        let of_queries = (lines * LINE as usize).div_ceil(QUERIES as usize);
        FRONT as usize + matrices.saturating_mul(heads).saturating_mul(of_queries)
    }

    #[inline(always)]
    fn counter(&self, number: u32) -> *mut u32 {
        (self.counters + number as u64 * 4) as *mut u32
    }

    /// The counter of a sequence's head's queries from `query` on.
    #[inline(always)]
    fn of_queries(&self, of: &Range, head: u32, query: u32) -> *mut u32 {
        let of_head = self.lines * LINE / QUERIES;
        let query = of.first_line * LINE + query;
        self.counter(FRONT + (of.matrix * self.heads + head) * of_head + query / QUERIES)
    }

    /// When the `number`-th tile of keys of those that meet block `j` of `BN` queries adds to it.
    #[inline(always)]
    pub(crate) fn turn<const BN: usize>(&self, of: &Range, head: u32, j: u32, number: u32) -> SumTurn {
        const { assert!((BN as u32).is_multiple_of(QUERIES), "two blocks of queries would share a counter") };
        // SAFETY: the block's counter, which `query_stats` has set to 0. CTAs take their tiles as `place` says, each head's lowest first, so that who is
        // waited for has begun, and waits for lower ones alone.
        unsafe { SumTurn::new(self.of_queries(of, head, j * BN as u32), number) }
    }

    /// The tiles of this CTA, which takes the next one in `order` whenever it is done with one. Where additions are ordered the first one too is the next of all: CTAs begin
    /// in any order.
    #[inline(always)]
    pub(crate) fn tiles<P: HandsOut>(&self, slots: TileSlots<P>, order: HeadOrder) -> TileQueue<P, Places> {
        // SAFETY: `query_stats` has set it to 0, and this grid alone uses it.
        let numbers = unsafe {
            match (self.counters, self.ordered) {
                (0, _) => TileNumbers::in_turn(),
                (_, 0) => TileNumbers::counted(self.counter(0)),
                _ => TileNumbers::in_order(self.counter(0)),
            }
        };
        slots.queue(numbers, Places { order, of_keys: self.of_keys })
    }

    /// Sets the counters in front to 0, in one CTA of a grid.
    #[inline(always)]
    pub(crate) fn clear_front(&self) {
        if self.counters != 0 && block_x() == 0 && block_y() == 0 && block_z() == 0 && thread_x() < FRONT {
            // SAFETY: the host gives as many counters as `len` says, which nobody uses meanwhile.
            unsafe { global::st_global_u32(self.counter(thread_x()), 0) };
        }
    }

    /// Sets the counter of a head's queries from `query` on to 0, where they have one.
    #[inline(always)]
    pub(crate) fn clear(&self, of: &Range, head: u32, query: u32) {
        if self.ordered != 0 && query.is_multiple_of(QUERIES) && thread_x() == 0 {
            // SAFETY: as above.
            unsafe { global::st_global_u32(self.of_queries(of, head, query), 0) };
        }
    }
}

impl PassedAsIs for Turns {}

/// The tiles of all heads of all sequences, in groups of [`together`](HeadOrder::together) heads: of each head of a group its first tile, then of each the next one.
pub struct Places {
    order: HeadOrder,
    of_keys: [u32; 2],
}

/// A tile, its head or part of a head, and, with its part of the columns, its sequence.
#[derive(Clone, Copy)]
pub struct Place(pub [u32; 3]);

impl From<[u32; 4]> for Place {
    fn from([tile, head, sequence, _]: [u32; 4]) -> Self {
        Place([tile, head, sequence])
    }
}

impl From<Place> for [u32; 4] {
    fn from(Place([tile, head, sequence]): Place) -> Self {
        [tile, head, sequence, 0]
    }
}

impl TileList for Places {
    type Tile = Place;

    #[inline(always)]
    fn tile(&mut self, number: u32) -> Option<Place> {
        let Places { order: HeadOrder { together, tiles }, of_keys: [heads, sequences] } = *self;
        let group = together * tiles;
        // The host sees to it that there are no more than 2^32, of which numbers behind the last are as many as CTAs.
        if number >= tiles * heads * sequences {
            return None;
        }
        // A division by what may be 0 would call a panic.
        if group == 0 || heads == 0 {
            trap();
        }
        let first = number / group * together;
        let left = heads * sequences - first;
        let beside = if left < together { left } else { together };
        if beside == 0 {
            trap();
        }
        let (tile, head) = (number % group / beside, first + number % group % beside);
        Some(Place([tile, head % heads, head / heads]))
    }
}
