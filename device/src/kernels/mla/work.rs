//! Which blocks of keys each CTA takes: a list that the host makes from the sequences' lengths.

use crate::abi::KernelArg;
use crate::arch::special::{block_y, same, thread_x};
use crate::tile::{Cell, InPlace, List, ListAbi};

/// The list of work as the host passes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WorkAbi {
    /// For each group of CTAs its first item.
    pub starts: ListAbi,
    /// The items, eight numbers each ([`Item::words`]), every group's followed by [`Item::END`].
    pub items: ListAbi,
}

/// The items of every group of CTAs. CTAs of one group do the same for different tiles of rows.
#[derive(Clone, Copy)]
pub struct Work {
    starts: List,
    items: List,
}

impl KernelArg for Work {
    type Abi = WorkAbi;
    #[inline(always)]
    unsafe fn load(at: *const WorkAbi) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe {
            Work {
                starts: KernelArg::load(&raw const (*at).starts),
                items: KernelArg::load(&raw const (*at).items),
            }
        }
    }
}

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
    /// Where the result goes: [`WHOLE`](Self::WHOLE), or the first of the partial results' tiles, one for each of the group's CTAs.
    pub slot: u32,
}

impl Item {
    /// The item is all of its sequence.
    pub const WHOLE: u32 = u32::MAX;

    /// What follows the last item of a group: not an item.
    pub const END: Self = Item { sequence: u32::MAX, begin: u32::MAX, end: 0, length: 0, turn: 0, slot: 0 };

    /// The item as the list has it.
    pub const fn words(&self) -> [u32; 8] {
        [self.sequence, self.begin, self.end, self.length, self.turn, self.slot, 0, 0]
    }
}

/// The place of an item in the list: what is needed of it is read where it is needed, so that it is in no register over
/// the loop.
#[derive(Clone, Copy)]
pub struct ItemAt {
    work: InPlace<Work>,
    index: u32,
}

impl ItemAt {
    /// The item.
    #[inline(always)]
    pub fn get(&self) -> Item {
        let (items, index) = (self.work.get().items, same(self.index));
        let [sequence, begin, end, length] = items.get4(2 * index);
        let [turn, slot, ..] = items.get4(2 * index + 1);
        Item { sequence, begin, end, length, turn, slot }
    }
}

/// The items of this CTA's group, behind the one that it holds.
#[derive(Clone, Copy)]
pub struct Items(ItemAt);

impl Items {
    /// Those of `block_y`.
    #[inline(always)]
    pub fn of(work: InPlace<Work>) -> Self {
        Items(ItemAt { work, index: work.get().starts.get(block_y()).wrapping_sub(1) })
    }
    /// The loads of these items, in order: for each the queries, then the blocks of keys. `at` keeps which is next.
    ///
    /// `place(sequence, block)` says where a block lies; queries lie at \[sequence, [`QUERIES`](Loads::QUERIES)\].
    #[inline(always)]
    pub fn loads<F: Fn(u32, u32) -> [u32; 2]>(self, at: Cell, place: F) -> Loads<F> {
        if thread_x() == 0 {
            at.set([self.0.index.wrapping_add(1), Item::WHOLE]);
        }
        Loads { work: self.0.work, at, place }
    }
}

impl Iterator for Items {
    type Item = ItemAt;
    #[inline(always)]
    fn next(&mut self) -> Option<ItemAt> {
        // One number over the loop: which item it is.
        self.0.index = same(self.0.index).wrapping_add(1);
        let item = self.0;
        (item.get().sequence != Item::END.sequence).then_some(item)
    }
}

/// See [`Items::loads`].
pub struct Loads<F> {
    work: InPlace<Work>,
    /// The item, and the block to load next: `WHOLE` where the queries come first.
    at: Cell,
    place: F,
}

impl Loads<()> {
    /// In the place of a row: the queries.
    pub const QUERIES: u32 = u32::MAX;
}

impl<F: Fn(u32, u32) -> [u32; 2]> Iterator for Loads<F> {
    type Item = [u32; 2];
    #[inline(always)]
    fn next(&mut self) -> Option<[u32; 2]> {
        let [index, block] = self.at.get();
        let Item { sequence, begin, end, .. } = ItemAt { work: self.work, index }.get();
        let (last, queries) = (block.wrapping_add(1) == end, block == Item::WHOLE);
        let next = if last { Item::WHOLE } else { block.wrapping_add(1) };
        self.at.set([index + (last & !queries) as u32, if queries { begin } else { next }]);
        // What follows the last item begins with its queries, and stays there: `relay::NONE`.
        Some(if queries { [sequence, Loads::QUERIES] } else { (self.place)(sequence, block) })
    }
}
