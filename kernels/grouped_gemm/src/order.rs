//! The order that brings rows into groups: a stable counting sort in one launch.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{global, shared, warp};
use tilewright_device::kernel;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{Collective, Cta, block_x, grid_x};

/// Threads of a CTA.
pub const ORDER_THREADS: u32 = 256;
const WARPS: u32 = ORDER_THREADS / 32;
/// Entries that a lane asks for before it looks at the first.
const AHEAD: u32 = 4;

/// Entries, each with the group that it goes to, and what their order is written to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    /// Address of each entry's group, `i32` in the low bytes of each; groups that there are not take none.
    pub groups: u64,
    /// Address of where each group begins and the last one ends: `i32`, one more than there are groups.
    pub offsets: u64,
    /// Address of the row of each entry in the order of groups: `i32`, as many as entries; -1 behind the last.
    pub rows: u64,
    /// Address of each entry's place in that order: `i32`; -1 where it has no group.
    pub places: u64,
    /// Entries.
    pub count: u32,
    /// The logarithm to base 2 of the bytes from one entry's group to the next.
    pub log2_bytes: u32,
    /// By the entries of a row.
    pub by_row: Division,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl PassedAsIs for Entries {}

impl Entries {
    /// The group of an entry; `u32::MAX` behind the last.
    #[inline(always)]
    fn group(&self, i: u32) -> u32 {
        let at = self.groups + ((i as u64) << self.log2_bytes);
        // SAFETY: read where there is such an entry alone.
        let group = unsafe { global::ld_global_u32_if(at as *const u32, i < self.count) };
        if i < self.count { group } else { u32::MAX }
    }

    /// The groups of a lane's next entries, from its entry `i` on.
    #[inline(always)]
    fn ahead(&self, i: u32) -> [u32; AHEAD as usize] {
        let mut groups = [0; AHEAD as usize];
        let mut turn = 0;
        while turn < AHEAD {
            groups[turn as usize] = self.group(i + 32 * turn);
            turn += 1;
        }
        groups
    }
}

/// Writes the number `i` of a list.
///
/// # Safety
/// The list has the number, which is this thread's alone to write.
#[inline(always)]
unsafe fn put(list: u64, i: u32, number: u32) {
    // SAFETY: the caller's.
    unsafe { global::st_global_u32((list + 4 * i as u64) as *mut u32, number) }
}

/// Puts entries in the order of their groups, those of a group in their own: CTA g counts the entries of the groups before g, which is where g
/// begins, and places g's own.
///
/// Every CTA reads all entries, twice: from L2 that takes less than the launches of a sort in several steps, and no CTA waits for another. The
/// grid has a CTA for each group.
///
/// # Safety
/// The entries' lists are as long as they say, and written by nobody else.
#[kernel(program = P)]
pub unsafe fn order_groups<P: Collective>(mut cta: Cta<P>, entries: Entries) {
    let room = cta.reserve(WARPS * 8, 16);
    let (group, last) = (block_x(), block_x() + 1 == grid_x());
    let (unit, lane) = (thread_x() / 32, thread_x() % 32);
    // Neighbours for each warp, in whole turns of its lanes.
    let each = entries.count.div_ceil(ORDER_THREADS * AHEAD) * 32 * AHEAD;
    let first = unit * each;
    let (mut before, mut own) = (0, 0);
    let mut at = 0;
    while at < each {
        let groups = entries.ahead(first + at + lane);
        let mut i = 0;
        while i < AHEAD {
            before += u32::from(groups[i as usize] < group);
            own += u32::from(groups[i as usize] == group);
            i += 1;
        }
        at += 32 * AHEAD;
    }
    // SAFETY: all lanes execute it; each warp has eight bytes of its own, which all read behind the barrier.
    unsafe {
        (before, own) = (warp::redux_add_u32(before), warp::redux_add_u32(own));
        if lane == 0 {
            shared::store_u32x2(room + 8 * unit, [before, own]);
        }
    }
    cta.barrier();
    let (mut begin, mut place, mut all) = (0, 0, 0);
    let mut other = 0;
    while other < WARPS {
        // SAFETY: as above.
        let [before, own] = unsafe { shared::load_u32x2(room + 8 * other) };
        begin += before;
        place += if other < unit { own } else { 0 };
        all += own;
        other += 1;
    }
    place += begin;
    let end = begin + all;
    if thread_x() == 0 {
        // SAFETY: each CTA writes its group's, and the last one the end.
        unsafe {
            put(entries.offsets, group, begin);
            if last {
                put(entries.offsets, group + 1, end);
            }
        }
    }
    let mut at = 0;
    while at < each {
        let groups = entries.ahead(first + at + lane);
        let mut i = 0;
        while i < AHEAD {
            let (entry, its) = (first + at + 32 * i + lane, groups[i as usize]);
            // SAFETY: all lanes execute the vote; every entry has a place of its own, and those without a group are the last CTA's.
            unsafe {
                let own = warp::vote_ballot(its == group);
                if its == group {
                    let to = place + (own & ((1 << lane) - 1)).count_ones();
                    put(entries.rows, to, entries.by_row.of(entry).0);
                    put(entries.places, entry, to);
                }
                place += own.count_ones();
                if last && entry < entries.count && its > group {
                    put(entries.places, entry, u32::MAX);
                }
            }
            i += 1;
        }
        at += 32 * AHEAD;
    }
    let mut to = end + thread_x();
    while last && to < entries.count {
        // SAFETY: nobody's but the last CTA's.
        unsafe { put(entries.rows, to, u32::MAX) };
        to += ORDER_THREADS;
    }
}
