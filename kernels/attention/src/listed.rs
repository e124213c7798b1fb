//! Block-sparse attention: lists say which blocks of keys each block of queries sees.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{HandsOut, InPlace, TileQueue, TileSlots};

use crate::keys::{Blocks, Keys};
use crate::order::{OrderedTiles, QueryTile, TileOrder};
use crate::queue::SequenceList;
use crate::sequences::{AnySequences, Equal, Sequence, Sequences};
use crate::walk::Walk;

/// Sequences of one length, whose blocks of queries see the blocks of keys that lists name (Dao et al. 2022, section 3.3; the form of
/// the lists is that of FlexAttention's `BlockMask`, Dong et al. 2024).
///
/// Lists \[batch, heads, blocks of queries, most\] and their lengths \[batch, heads, blocks of queries\], `i32` in the low bytes of each number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Which keys queries see of those that are listed.
    pub keys: Keys,
    /// Address of the lists.
    pub lists: u64,
    /// Address of their lengths.
    pub counts: u64,
    /// Bytes from one of the lists' numbers to the next, along each dimension; 0 where all share them.
    pub of_lists: [u64; 4],
    /// The same of the lengths.
    pub of_counts: [u64; 3],
    /// Numbers that a list has room for, which lengths are cut off at; as many blocks have fewer than 2^31 keys.
    pub most: u32,
    /// Blocks of keys: a list's other numbers name none. One more than these has fewer than 2^31 keys.
    pub key_blocks: u32,
    /// By the queries of a block, a multiple of a tile's.
    pub query_block: Division,
    /// By the keys of a listed block, a multiple of those of a block of the walk.
    pub key_block: Division,
}

/// The blocks of `BN` keys that a tile of queries walks over, the end of its list first.
#[derive(Clone, Copy)]
pub struct ListedBlocks<const BN: usize> {
    /// Address of the list.
    list: u64,
    /// Bytes from one number to the next.
    step: u64,
    /// Blocks of `BN` keys in those that are listed.
    places: u32,
    key_blocks: u32,
    key_block: Division,
    /// The blocks that the tile would see without a list.
    seen: Blocks,
}

impl<const BN: usize> ListedBlocks<BN> {
    /// The block at a place of the walk, below `places`; one behind the keys, whose scores are all masked, where the list names none.
    #[inline(always)]
    fn block(&self, place: u32) -> u32 {
        let (at, first) = self.key_block.of(place * BN as u32);
        // SAFETY: below the list's length, which is cut off at the numbers that there are.
        let block = unsafe { global::ld_global_u32((self.list + at as u64 * self.step) as *const u32) };
        (block.min(self.key_blocks) * self.key_block.divisor + first) / BN as u32
    }
}

impl<const BN: usize> Walk for ListedBlocks<BN> {
    #[inline(always)]
    fn none(&self) -> bool {
        self.places == 0
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        self.block(self.places - 1)
    }

    #[inline(always)]
    fn steps(self) -> impl Iterator<Item = u32> {
        (0..self.places).rev().map(
            #[inline(always)]
            move |place| self.block(place),
        )
    }

    #[inline(always)]
    fn is_whole(&self, j: u32) -> bool {
        self.seen.whole(j)
    }

    #[inline(always)]
    fn fold<S>(&self, mut state: S, mut step: impl FnMut(S, u32, bool) -> S) -> S {
        let mut place = self.places - 1;
        while place > 0 {
            place -= 1;
            let j = self.block(place);
            state = if self.is_whole(j) { step(state, j, false) } else { step(state, j, true) };
        }
        state
    }
}

impl Sequences for Listed {
    const PACKED: bool = false;
    const QUEUED: bool = true;
    const LISTED: bool = true;

    fn of(sequences: AnySequences) -> Option<Self> {
        match sequences {
            AnySequences::Listed(listed) => Some(listed),
            _ => None,
        }
    }

    type Queue<P: HandsOut> = TileQueue<P, OrderedTiles>;

    #[inline(always)]
    fn queue<P: HandsOut>(
        slots: TileSlots<P>,
        order: InPlace<TileOrder>,
        list: InPlace<SequenceList>,
    ) -> TileQueue<P, OrderedTiles> {
        slots.queue(list.get().numbers(), OrderedTiles(order))
    }

    #[inline(always)]
    fn get(&self, i: u32) -> Sequence {
        Equal(self.keys).get(i)
    }

    type Walk<const BN: usize> = ListedBlocks<BN>;

    #[inline(always)]
    fn walk<const BM: usize, const BN: usize>(&self, tile: QueryTile, seen: Blocks) -> ListedBlocks<BN> {
        let QueryTile { batch, head, m, .. } = tile;
        let &Listed { lists, counts, of_lists, of_counts, most, key_blocks, query_block, key_block, .. } =
            self;
        let row = query_block.of(m * BM as u32).0;
        let at = |of_batch: u64, of_heads: u64, of_rows: u64| {
            batch as u64 * of_batch + head as u64 * of_heads + row as u64 * of_rows
        };
        let count = counts + at(of_counts[0], of_counts[1], of_counts[2]);
        // SAFETY: the host passes a length for each block of queries of each head and sequence, or steps of 0 where they share it.
        let count = unsafe { global::ld_global_u32(count as *const u32) }.cast_signed();
        let count = if seen.none() { 0 } else { count.max(0).cast_unsigned().min(most) };
        ListedBlocks {
            list: lists + at(of_lists[0], of_lists[1], of_lists[2]),
            step: of_lists[3],
            places: count * (key_block.divisor / BN as u32),
            key_blocks,
            key_block,
            seen,
        }
    }
}

impl PassedAsIs for Listed {}
