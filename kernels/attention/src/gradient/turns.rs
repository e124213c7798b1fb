//! The order in which tiles of keys add to the gradients of queries.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::arch::special::{block_x, block_y, block_z, thread_x, trap};
use tilewright_device::tile::{HandsOut, SumTurn, TileList, TileNumbers, TileSlots};

use super::HeadOrder;
use super::ranges::Range;
use super::stats::LINE;

/// Queries of a counter.
const QUERIES: u32 = 64;
/// Counters in front of those of queries: the first one counts CTAs.
const FRONT: u32 = 4;

/// The order of additions: that of tiles' numbers, so that sums are the same bits each time. Or any order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// Address of the [counters](Self::len), aligned to 16 bytes, as [`query_stats`](fn@super::query_stats) leaves them; 0 where any order will do.
    pub counters: u64,
    /// Heads of queries of a matrix.
    pub heads: u32,
    /// Lines of a head's statistics.
    pub lines: u32,
    /// Heads of keys, of each of so many sequences.
    pub of_keys: [u32; 2],
}

impl Turns {
    /// Any order.
    pub const NONE: Self = Turns { counters: 0, heads: 0, lines: 0, of_keys: [0; 2] };

    /// Counters of 4 bytes for so many matrices of `heads` heads of `lines` lines of statistics.
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

    /// The tile, the head and the sequence of this CTA, which takes the next one in `order` of all CTAs that begin.
    #[inline(always)]
    pub(crate) fn place<P: HandsOut>(&self, slots: TileSlots<P>, order: HeadOrder) -> [u32; 3] {
        // SAFETY: `query_stats` has set it to 0, and this grid alone uses it.
        let numbers = unsafe { TileNumbers::in_order(self.counter(0)) };
        let places = Places { order, of_keys: self.of_keys };
        slots.queue(numbers, places).next().map_or([0; 3], |Place(place)| place)
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
        if self.counters != 0 && query.is_multiple_of(QUERIES) && thread_x() == 0 {
            // SAFETY: as above.
            unsafe { global::st_global_u32(self.of_queries(of, head, query), 0) };
        }
    }
}

impl PassedAsIs for Turns {}

/// The tiles of all heads of all sequences, in groups of [`together`](HeadOrder::together) heads: of each head of a group its first tile, then of each the next one.
struct Places {
    order: HeadOrder,
    of_keys: [u32; 2],
}

/// A tile, its head and its sequence.
struct Place([u32; 3]);

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
