//! Radix select: a digit of the last entry that is wanted at a time, from the upper end, by a histogram in shared memory.

use tilewright_device::arch::special::{lane, thread_x};
use tilewright_device::arch::{atomic, shared, sync, warp};
use tilewright_device::tile::Element;

use super::THREADS;
use super::entry::Entry;
use super::source::{Sink, Source};

/// Numbers of a digit at most: four for each thread.
const BINS: u32 = 4 * THREADS;

/// What a selection needs of shared memory.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) at: u32,
}

impl Room {
    /// Histogram, sums of warps, what was found, a counter.
    pub(super) const BYTES: u32 = 4 * BINS + 64 + 16 + 16;

    fn warps(self) -> u32 {
        self.at + 4 * BINS
    }
    fn found(self) -> u32 {
        self.warps() + 64
    }
    fn counter(self) -> u32 {
        self.found() + 16
    }
}

/// A digit of entries: of the key first, then of the columns behind.
#[derive(Clone, Copy)]
struct Digit {
    of_key: bool,
    shift: u32,
    bits: u32,
}

impl Digit {
    /// The `number`-th one.
    #[inline(always)]
    fn new<T: Element>(number: u32) -> Self {
        const { assert!(super::MAX_COLUMNS == 1 << 18, "columns have two digits of 9 bits") }
        let of_key = |shift, bits| Digit { of_key: true, shift, bits };
        let keys = if T::BYTES == 2 { 2 } else { 3 };
        match number {
            0 => of_key(21, 11),
            1 if T::BYTES == 2 => of_key(16, 5),
            1 => of_key(10, 11),
            2 if T::BYTES == 4 => of_key(0, 10),
            _ => Digit { of_key: false, shift: if number == keys { 9 } else { 0 }, bits: 9 },
        }
    }
    #[inline(always)]
    fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }
}

/// How far the search for the last entry that is wanted has come. All threads know it.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// Its digits that are known, zeros behind them; and which bits these are.
    least: Entry,
    known: Entry,
    digits: u32,
    /// Entries that are wanted, and how many of those that begin with these digits.
    wanted: u32,
    left: u32,
    /// Entries that are not less.
    pub(super) candidates: u32,
}

impl Search {
    /// For `wanted` of `all` entries.
    #[inline(always)]
    pub(super) fn new(wanted: u32, all: u32) -> Self {
        Search { least: Entry::LEAST, known: Entry::LEAST, digits: 0, wanted, left: wanted, candidates: all }
    }

    /// Finds digits until no more than `most` entries, which are at least as many as are wanted, are not less.
    #[inline(always)]
    pub(super) fn narrow<T: Element>(&mut self, room: Room, most: u32, source: &impl Source) {
        while self.candidates > most {
            let digit = Digit::new::<T>(self.digits);
            // SAFETY: all threads execute it alike; barriers are between those who write and those who read.
            unsafe {
                shared::store_u32x4(room.at + thread_x() * 16, [0; 4]);
                sync::syncthreads();
                source.each(&Histogram { search: *self, digit, at: room.at });
                sync::syncthreads();
                self.find(room, digit);
            }
        }
    }

    /// The number of the digit with which the last entry lies: those with greater numbers are all wanted.
    ///
    /// # Safety
    /// All threads execute it, behind a barrier behind the histogram's last change.
    #[inline(always)]
    unsafe fn find(&mut self, room: Room, digit: Digit) {
        let (thread, lane) = (thread_x(), lane());
        // The greatest numbers are the first thread's.
        let first = BINS - 4 - 4 * thread;
        // SAFETY: the caller's.
        unsafe {
            let counts = shared::load_u32x4(room.at + 4 * first);
            let own = counts[0] + counts[1] + counts[2] + counts[3];
            let mut up_to = own;
            let mut by = 1;
            while by < 32 {
                let other = warp::shfl_up_u32(up_to, by);
                up_to += if lane >= by { other } else { 0 };
                by *= 2;
            }
            if lane == 31 {
                shared::store_u32(room.warps() + thread / 32 * 4, up_to);
            }
            sync::syncthreads();
            let mut before = 0;
            while before < thread / 32 {
                up_to += shared::load_u32(room.warps() + before * 4);
                before += 1;
            }
            let mut above = up_to - own;
            if above < self.left && self.left <= up_to {
                let mut i = 3;
                while i > 0 && above + counts[i] < self.left {
                    above += counts[i];
                    i -= 1;
                }
                shared::store_u32x4(room.found(), [first + i as u32, above, counts[i], 0]);
            }
            sync::syncthreads();
            let [number, above, count, _] = shared::load_u32x4(room.found());
            self.left -= above;
            self.candidates = self.wanted - self.left + count;
            let (bits, mask) = (number << digit.shift, digit.mask() << digit.shift);
            let (least, known) = (&mut self.least, &mut self.known);
            match digit.of_key {
                true => (least.key, known.key) = (least.key | bits, known.key | mask),
                false => (least.behind, known.behind) = (least.behind | bits, known.behind | mask),
            }
            self.digits += 1;
        }
    }

    /// Writes the entries that are not less to a list at `to`, in any order.
    #[inline(always)]
    pub(super) fn collect(&self, room: Room, to: u32, source: &impl Source) {
        // SAFETY: all threads execute it alike.
        unsafe {
            if thread_x() == 0 {
                shared::store_u32(room.counter(), 0);
            }
            sync::syncthreads();
            source.each(&Collector { least: self.least, counter: room.counter(), to });
            sync::syncthreads();
        }
    }
}

/// Counts the entries with the known digits by the next one.
struct Histogram {
    search: Search,
    digit: Digit,
    at: u32,
}

impl Sink for Histogram {
    #[inline(always)]
    fn take<const N: usize>(&self, entries: [Entry; N], valid: bool) {
        const NONE: u32 = u32::MAX;
        let Search { least, known, .. } = self.search;
        let mut numbers = [NONE; N];
        let mut i = 0;
        while i < N {
            let Entry { key, behind } = entries[i];
            let other = (key ^ least.key) & known.key | (behind ^ least.behind) & known.behind;
            let digits = if self.digit.of_key { key } else { behind };
            if valid && other == 0 {
                numbers[i] = digits >> self.digit.shift & self.digit.mask();
            }
            i += 1;
        }
        // SAFETY: all lanes call it; the counters lie in shared memory.
        unsafe {
            let first = warp::shfl_idx_u32(numbers[0], 0);
            let (mut same, mut i) = (true, 0);
            while i < N {
                same = same && numbers[i] == first;
                i += 1;
            }
            // Long runs of one value would go through one counter one by one.
            if warp::vote_all(same) {
                if first != NONE && lane() == 0 {
                    atomic::red_shared_add_u32(self.at + first * 4, 32 * N as u32);
                }
            } else {
                let mut i = 0;
                while i < N {
                    if numbers[i] != NONE {
                        atomic::red_shared_add_u32(self.at + numbers[i] * 4, 1);
                    }
                    i += 1;
                }
            }
        }
    }
}

/// Writes those that are not less than an entry to a list.
struct Collector {
    least: Entry,
    counter: u32,
    to: u32,
}

impl Sink for Collector {
    #[inline(always)]
    fn take<const N: usize>(&self, entries: [Entry; N], valid: bool) {
        let wanted = |i: usize| valid && entries[i].is_at_least(self.least);
        let (mut own, mut i) = (0, 0);
        while i < N {
            own += u32::from(wanted(i));
            i += 1;
        }
        // SAFETY: all lanes call it; the list has room for as many as the search has counted.
        unsafe {
            // Seldom, in a long row.
            if !warp::vote_any(own > 0) {
                return;
            }
            let lane = lane();
            let mut up_to = own;
            let mut by = 1;
            while by < 32 {
                let other = warp::shfl_up_u32(up_to, by);
                up_to += if lane >= by { other } else { 0 };
                by *= 2;
            }
            // One counter for all warps: one of each changes it.
            let first = if lane == 31 { atomic::atom_shared_add_u32(self.counter, up_to) } else { 0 };
            let mut place = warp::shfl_idx_u32(first, 31) + up_to - own;
            let mut i = 0;
            while i < N {
                if wanted(i) {
                    entries[i].store(self.to + place * Entry::BYTES);
                    place += 1;
                }
                i += 1;
            }
        }
    }
}
