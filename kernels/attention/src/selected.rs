//! Selected attention: lists say which blocks of keys each query sees.

use core::ops::Range;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::tile::InPlace;
use tilewright_device::tile::division::Division;

use crate::cache::{Cache, KeyPart, SplitOrder};
use crate::keys::{Blocks, Keys};
use crate::part_keys::{PartBlocks, PartKeys};

/// Sequences each of whose queries sees the blocks of keys that a list names, one for the heads that share a KV head (the selection branch of native sparse
/// attention; Yuan et al. 2025, section 3.3).
///
/// To [`SplitOrder`] each query is a sequence of its own, whose keys end with the last that it sees: sequence b · queries + i is query i of sequence b of the
/// cache. So a block's keys behind that query are as good as none.
///
/// Lists \[batch, KV heads, queries, most\], `i32` in the low bytes of each number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Selected {
    /// Where keys and values lie, and which of those that are listed queries see.
    pub cache: Cache,
    /// Address of the lists.
    pub lists: u64,
    /// Bytes from one of the lists' numbers to the next, along each dimension; 0 where all share them.
    pub of_lists: [u64; 4],
    /// Numbers of a list; as many blocks have fewer than 2^31 keys.
    pub most: u32,
    /// Blocks of keys: a list's other numbers name none. One more than these has fewer than 2^31 keys.
    pub key_blocks: u32,
    /// By the queries of a sequence of the cache.
    pub by_queries: Division,
    /// By the keys of a listed block, a multiple of those of a part's block.
    pub key_block: Division,
}

impl PartKeys for Selected {
    const SELECTED: bool = true;

    #[inline(always)]
    fn cache(self) -> Cache {
        self.cache
    }

    #[inline(always)]
    fn place(of: InPlace<Self>, sequence: u32) -> [u32; 2] {
        let (sequence, query) = of.get().by_queries.of(sequence);
        [sequence, query]
    }

    #[inline(always)]
    fn keys(&self, sequence: u32) -> Keys {
        let (sequence, query) = self.by_queries.of(sequence);
        let (of, query) = (self.cache.keys_of(sequence), query as i32);
        let high = of.high.saturating_add(query);
        Keys {
            count: of.count.min(high.saturating_add(1)).max(0),
            low: of.low.saturating_add(query),
            high,
            own: of.own + query,
        }
    }

    type Blocks<const BN: usize> = SelectedBlocks<BN>;

    #[inline(always)]
    fn blocks<const BM: usize, const BN: usize>(
        of: InPlace<Self>,
        order: &SplitOrder,
        keys: &Keys,
        part: KeyPart,
    ) -> SelectedBlocks<BN> {
        let Selected { lists, of_lists, most, by_queries, key_block, .. } = of.get();
        let (sequence, query) = by_queries.of(part.batch);
        let [of_sequences, of_heads, of_queries, _] = of_lists;
        let list =
            sequence as u64 * of_sequences + part.kv_head as u64 * of_heads + query as u64 * of_queries;
        let places = if keys.count <= 0 { 0 } else { most * (key_block.divisor / BN as u32) };
        let places = Blocks::first(places).part(part.split, order.splits());
        SelectedBlocks { of, places, list: lists + list, keys: *keys }
    }
}

impl PassedAsIs for Selected {}

/// The blocks of `BN` keys of a part of a query's list. What is the same for all queries is read of the argument where it is needed: it would take registers.
#[derive(Clone, Copy)]
pub struct SelectedBlocks<const BN: usize> {
    of: InPlace<Selected>,
    places: Blocks,
    /// Address of the list.
    list: u64,
    /// Those that the query would see without a list.
    keys: Keys,
}

impl<const BN: usize> PartBlocks for SelectedBlocks<BN> {
    #[inline(always)]
    fn all(&self) -> Range<u32> {
        self.places.all()
    }

    #[inline(always)]
    fn none(&self) -> bool {
        self.places.none()
    }

    #[inline(always)]
    fn last(&self) -> u32 {
        self.places.last()
    }

    /// One behind the keys of all sequences, which is zeros and masked, where the list names none that the query sees.
    #[inline(always)]
    fn block(&self, place: u32) -> u32 {
        let Selected { key_blocks, key_block, of_lists: [.., step], .. } = self.of.get();
        let (at, first) = key_block.of(place * BN as u32);
        // SAFETY: places are below those of the list's numbers.
        let block = unsafe { global::ld_global_u32((self.list + at as u64 * step) as *const u32) };
        let key = (block.min(key_blocks) * key_block.divisor + first) as i32;
        let seen = key < self.keys.count && key + BN as i32 > self.keys.low;
        (if seen { key as u32 } else { key_blocks * key_block.divisor }) / BN as u32
    }

    #[inline(always)]
    fn is_whole(&self, block: u32) -> bool {
        let key = (block * BN as u32) as i32;
        key >= self.keys.low && key + BN as i32 <= self.keys.count
    }
}
