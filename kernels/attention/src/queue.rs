//! Packed sequences whose tiles CTAs take from a queue: the list of sequences that a kernel makes on the device before.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::tile::{InPlace, TileList, TileNumbers};

use crate::order::{QueryTile, TileOrder};

/// Numbers of an [entry](SequenceList::entries).
pub const ENTRY: u32 = 4;

/// Packed sequences in the order in which their tiles are taken, those with the most keys first: CTAs take the tiles of a [`TileOrder`] in
/// turn where there is no list.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SequenceList {
    /// Address of the number of tiles that have been taken, beside each CTA's first; 0 if there is no list.
    pub counter: u64,
    /// Address of four numbers for each sequence: which it is, its first tile, its tiles along the queries, and heads of which
    /// tiles are taken together.
    pub entries: u64,
    /// Address of the number behind each sequence's last tile, with `u32::MAX` up to a multiple of four; aligned to 16 bytes.
    pub ends: u64,
    /// Sequences.
    pub count: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl SequenceList {
    /// No list.
    pub const NONE: Self = SequenceList { counter: 0, entries: 0, ends: 0, count: 0, padding: 0 };

    /// Numbers of 4 bytes that a list of so many sequences takes, with so many counters: see [`at`](Self::at).
    pub const fn len(count: usize, counters: usize) -> usize {
        counters
            .next_multiple_of(4)
            .saturating_add(count.saturating_mul(ENTRY as usize))
            .saturating_add(count.saturating_add(3) & !3)
    }

    /// The list of `count` sequences in memory at `address`, aligned to 16 bytes, with the `counter`-th of so many counters: each
    /// grid has its own.
    pub const fn at(address: u64, count: u32, (counter, counters): (u32, u32)) -> Self {
        let entries = address + counters.next_multiple_of(4) as u64 * 4;
        let ends = entries + count as u64 * (ENTRY * 4) as u64;
        SequenceList { counter: address + counter as u64 * 4, entries, ends, count, padding: 0 }
    }

    /// What numbers the tiles that CTAs take.
    #[inline(always)]
    pub(crate) fn numbers(&self) -> TileNumbers {
        if self.counter == 0 {
            TileNumbers::in_turn()
        } else {
            // SAFETY: the kernel that makes the list sets the counter to 0, and one grid alone uses it.
            unsafe { TileNumbers::counted(self.counter as *mut u32) }
        }
    }

    /// The `i`-th four ends; `u32::MAX` behind the last.
    #[inline(always)]
    fn ends4(&self, i: u32) -> [u32; 4] {
        if 4 * i >= self.count {
            return [u32::MAX; 4];
        }
        // SAFETY: there are ends up to a multiple of four, aligned to 16 bytes; nobody writes them while the kernel runs.
        unsafe { global::ld_global_u32x4((self.ends + i as u64 * 16) as *const [u32; 4]) }
    }

    /// The place of the sequence that tile `t` is of, not before place `from`; `count` or more behind the last.
    #[inline(always)]
    fn find(&self, t: u32, from: u32) -> u32 {
        let before = |ends: [u32; 4]| ends.iter().map(|&end| (end <= t) as u32).sum::<u32>();
        let first = from / 4;
        // Both are on their way together. Who comes often comes to a neighbour.
        let (these, those) = (self.ends4(first), self.ends4(first + 1));
        let passed = before(these) + before(those);
        let (mut low, mut high) = (4 * first + passed, self.count);
        while passed == 8 && low < high {
            let middle = low + (high - low) / 2;
            // SAFETY: a sequence's end, which nobody writes while the kernel runs.
            let end = unsafe { global::ld_global_u32((self.ends + middle as u64 * 4) as *const u32) };
            if end <= t {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The tiles of packed sequences, by number.
pub struct PackedTiles {
    order: InPlace<TileOrder>,
    list: InPlace<SequenceList>,
    /// The place of the last tile's sequence.
    place: u32,
}

impl PackedTiles {
    /// Those of the list, or of the order where there is none.
    #[inline(always)]
    pub fn new(order: InPlace<TileOrder>, list: InPlace<SequenceList>) -> Self {
        PackedTiles { order, list, place: 0 }
    }
}

impl TileList for PackedTiles {
    type Tile = QueryTile;

    #[inline(always)]
    fn tile(&mut self, t: u32) -> Option<QueryTile> {
        let (list, order) = (self.list.get(), self.order.get());
        if list.counter == 0 {
            return if t < order.total() { Some(order.tile(t)) } else { None };
        }
        self.place = list.find(t, self.place);
        if self.place >= list.count {
            return None;
        }
        let entry = list.entries + self.place as u64 * (ENTRY * 4) as u64;
        // SAFETY: one of the entries, aligned to 16 bytes; nobody writes them while the kernel runs.
        let [batch, first, m, together] = unsafe { global::ld_global_u32x4(entry as *const [u32; 4]) };
        // The heaviest tiles first, of heads whose keys fit the L2 cache together.
        let (group, t) = divided(t - first, m * together);
        let (begin, left) = (group * together, order.heads() - group * together);
        let (heavier, head) = divided(t, if left < together { left } else { together });
        Some(order.query_tile(batch, begin + head, m - 1 - heavier))
    }
}

/// Quotient and remainder.
#[inline(always)]
fn divided(x: u32, by: u32) -> (u32, u32) {
    let by = if by == 0 { 1 } else { by };
    (x / by, x % by)
}

impl PassedAsIs for SequenceList {}
