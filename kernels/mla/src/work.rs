//! Which blocks of keys each CTA takes: a list that the host makes from the sequences' lengths.

use super::{B, Causal, Cell};
use tilewright_device::arch::special::{block_y, same_number, thread_x};
use tilewright_device::tile::{InBlock, List, block_x_volatile};

/// The list of work: items of eight numbers ([`Item::words`]). That of each group of CTAs begins with the item of the group's
/// number; the CTAs of one group do the same for different tiles of rows.
pub type Work = List;

/// Blocks `begin` to `end` of a sequence's keys, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The sequence.
    pub sequence: u32,
    /// The first block.
    pub begin: u32,
    /// The block behind the last.
    pub end: u32,
    /// Keys of the sequence.
    pub length: u32,
    /// How many items of its group come before.
    pub turn: u32,
    /// The number of the group's next item; [`NONE`](Self::NONE) after the last.
    pub next: u32,
    /// Where the result goes: [`WHOLE`](Self::WHOLE), or the first tile of its part, which has one for each of the group's CTAs.
    pub slot: u32,
    /// The first tile of the sequence's rows, below 2^24; in the highest byte how many positions its rows lack of as many as others have.
    pub rows: u32,
}

impl Item {
    /// The item is all of its sequence.
    pub const WHOLE: u32 = u32::MAX;

    /// No item: one beyond the end of the list.
    pub const NONE: u32 = u32::MAX;
    /// What a group without work has, and what the numbers beyond the end are.
    pub const END: Self = Item {
        sequence: u32::MAX,
        begin: u32::MAX,
        end: u32::MAX,
        length: u32::MAX,
        turn: u32::MAX,
        next: u32::MAX,
        slot: u32::MAX,
        rows: u32::MAX,
    };

    /// The bits of `rows` that are the first tile.
    pub const TILE: u32 = (1 << 24) - 1;

    /// [`rows`](Self::rows) of these: below 2^24, and below 2^8.
    pub const fn rows_from(tile: u32, missing: u32) -> u32 {
        tile | missing << Self::TILE.count_ones()
    }

    /// The number of this CTA's tile of the sequence's rows.
    #[inline(always)]
    pub fn tile(&self) -> u32 {
        (self.rows & Self::TILE) + block_x_volatile()
    }
    /// The sequence's keys as [`Causal`] counts them: with as many more as positions are missing.
    #[inline(always)]
    pub fn counted(&self) -> u32 {
        self.length + (self.rows >> Self::TILE.count_ones())
    }

    /// The item as the list has it.
    pub const fn words(&self) -> [u32; 8] {
        [self.sequence, self.begin, self.end, self.length, self.turn, self.next, self.slot, self.rows]
    }
}

/// The place of an item in the list: what is needed of it is read where it is needed, so that it is in no register over
/// the loop.
#[derive(Clone, Copy)]
pub struct ItemAt {
    work: InBlock<Work>,
    index: u32,
}

impl ItemAt {
    /// The item.
    #[inline(always)]
    pub fn get(&self) -> Item {
        let (items, index) = (self.work.get(), same_number(self.index));
        let at = if index < Item::NONE / 2 { 2 * index } else { Item::NONE - 1 };
        let [sequence, begin, end, length] = items.get4(at);
        let [turn, next, slot, rows] = items.get4(at + 1);
        Item { sequence, begin, end, length, turn, next, slot, rows }
    }
}

impl ItemAt {
    /// The first item of `block_y`'s group.
    #[inline(always)]
    pub fn first(work: InBlock<Work>) -> Self {
        ItemAt { work, index: block_y() }
    }
    /// How many blocks it has.
    #[inline(always)]
    pub fn blocks(&self) -> u32 {
        let Item { begin, end, .. } = self.get();
        end - begin
    }
    /// Whether there is an item.
    #[inline(always)]
    pub fn is_some(&self) -> bool {
        self.get().sequence != Item::END.sequence
    }
    /// The group's next item.
    #[inline(always)]
    pub fn next(&self) -> Self {
        ItemAt { work: self.work, index: self.get().next }
    }
    /// The loads of this item and those behind it, in order: for each the queries, then the blocks of keys. `at` keeps which
    /// is next.
    ///
    /// `place(sequence, block)` says where a block lies; queries lie at \[sequence, [`QUERIES`](Loads::QUERIES) and the item's rows\].
    #[inline(always)]
    pub fn loads<F: Fn(u32, u32) -> [u32; 2]>(self, at: Cell, place: F) -> Loads<F> {
        if thread_x() == 0 {
            at.set([self.index, Item::WHOLE]);
        }
        Loads { work: self.work, at, place }
    }
}

/// Blocks of keys of an item and those behind it, in order. The item is held in registers: it is read once.
#[derive(Clone, Copy)]
pub struct KeyBlocks {
    work: InBlock<Work>,
    item: Item,
    /// The next one of the item.
    block: u32,
}

impl KeyBlocks {
    /// Those from this item on.
    #[inline(always)]
    pub fn from(at: ItemAt) -> Self {
        let item = at.get();
        KeyBlocks { work: at.work, item, block: item.begin }
    }
}

/// The sequence, its keys, and the first key of the block.
impl Iterator for KeyBlocks {
    type Item = [u32; 3];
    #[inline(always)]
    fn next(&mut self) -> Option<[u32; 3]> {
        let (Item { sequence, end, length, next, .. }, block) = (self.item, self.block);
        if sequence == Item::END.sequence {
            return None;
        }
        self.block = block + 1;
        if self.block == end {
            *self = KeyBlocks::from(ItemAt { work: self.work, index: next });
        }
        Some([sequence, length, block * B as u32])
    }
}

/// The blocks of an item, one after the other.
pub struct Blocks {
    /// The next block, and [`FIRST`](Self::FIRST) if it is the first: a register in all.
    next: u32,
    end: u32,
    /// The first block with keys that some row does not see.
    partial: u32,
}

/// A block of keys.
#[derive(Clone, Copy)]
pub struct Block {
    /// Its number in the sequence.
    pub index: u32,
    /// Whether the item begins with it.
    pub first: bool,
    /// Whether there are keys in it that some row does not see.
    pub partial: bool,
}

impl Block {
    /// How many of a sequence's `length` keys there are from the first one of this block of `BN` on.
    #[inline(always)]
    pub fn keys_left<const BN: usize>(&self, length: u32) -> u32 {
        length.saturating_sub(self.index * BN as u32)
    }
}

impl Blocks {
    const FIRST: u32 = 1 << 31;

    /// Those of the item.
    #[inline(always)]
    pub fn of(item: &Item, causal: &Causal) -> Self {
        let partial = causal.seen_by_all(item.counted()) / B as u32;
        Blocks { next: item.begin | Self::FIRST, end: item.end, partial }
    }
}

impl Iterator for Blocks {
    type Item = Block;
    #[inline(always)]
    fn next(&mut self) -> Option<Block> {
        let index = self.next & !Self::FIRST;
        let block = Block { index, first: self.next != index, partial: index >= self.partial };
        self.next = index + 1;
        (index < self.end).then_some(block)
    }
}

/// See [`ItemAt::loads`].
pub struct Loads<F> {
    work: InBlock<Work>,
    /// The item, and the block to load next: `WHOLE` where the queries come first.
    at: Cell,
    place: F,
}

impl Loads<()> {
    /// In the place of a row, of which there are fewer: the queries.
    pub const QUERIES: u32 = 1 << 31;

    /// The tile of queries that lies there, if queries do.
    #[inline(always)]
    pub fn queries([sequence, row]: [u32; 2]) -> Option<[u32; 3]> {
        (row >= Self::QUERIES).then(|| [sequence, (row & Item::TILE) + block_x_volatile(), 0])
    }
}

impl<F: Fn(u32, u32) -> [u32; 2]> Iterator for Loads<F> {
    type Item = [u32; 2];
    #[inline(always)]
    fn next(&mut self) -> Option<[u32; 2]> {
        let [index, block] = self.at.get();
        let Item { sequence, begin, end, next: behind, rows, .. } = ItemAt { work: self.work, index }.get();
        let (last, queries) = (block.wrapping_add(1) == end, block == Item::WHOLE);
        let next = if last { Item::WHOLE } else { block.wrapping_add(1) };
        self.at.set([if last & !queries { behind } else { index }, if queries { begin } else { next }]);
        // What follows the last item begins with its queries, and stays there: `relay::NONE`.
        Some(if queries { [sequence, Loads::QUERIES | rows] } else { (self.place)(sequence, block) })
    }
}
