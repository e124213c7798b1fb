//! Radix select: a digit of the last entry that is wanted at a time, from the upper end, by a histogram in shared memory.

use core::marker::PhantomData;

use tilewright_device::arch::special::{lane, thread_x};
use tilewright_device::arch::{atomic, shared, sync, warp};
use tilewright_device::tile::{Collective, Element};

use super::entry::Entry;
use super::source::{Sink, Source};

/// What a selection by a CTA of `P` needs of shared memory.
pub(super) struct Room<P> {
    at: u32,
    program: PhantomData<P>,
}

impl<P> Clone for Room<P> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Room<P> {}

impl<P: Collective> Room<P> {
    /// Numbers of a digit at most, a power of two: four for each thread.
    const BINS: u32 = 4 * P::THREADS;
    /// Histogram, sums of warps, what was found, a counter.
    pub(super) const BYTES: u32 = 4 * Self::BINS + 64 + 16 + 16;

    #[inline(always)]
    pub(super) fn new(at: u32) -> Self {
        Room { at, program: PhantomData }
    }
    fn warps(self) -> u32 {
        self.at + 4 * Self::BINS
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
    mask: u32,
}

impl Digit {
    /// How many digits of up to `bits` bits the keys of `T` have.
    const fn of_keys<T: Element>(bits: u32) -> u32 {
        (8 * T::BYTES as u32).div_ceil(bits)
    }

    /// The `number`-th one, of up to `bits` bits.
    #[inline(always)]
    fn new<T: Element>(number: u32, bits: u32) -> Self {
        const COLUMNS: u32 = super::MAX_COLUMNS.ilog2();
        let keys = Self::of_keys::<T>(bits);
        let of_key = number < keys;
        let (all, end, before) = match of_key {
            true => (8 * T::BYTES as u32, u32::BITS, number * bits),
            false => (COLUMNS, COLUMNS, (number - keys) * bits),
        };
        let own = if all - before < bits { all - before } else { bits };
        Digit { of_key, shift: end - before - own, mask: (1 << own) - 1 }
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
    pub(super) fn narrow<P: Collective, T: Element>(
        &mut self,
        room: Room<P>,
        most: u32,
        source: &impl Source<P>,
    ) {
        self.narrow_by::<P, T>(room, most, u32::MAX, source);
    }

    /// The same by keys alone: more may be left where many have the key of the last one that is wanted.
    #[inline(always)]
    pub(super) fn narrow_by_keys<P: Collective, T: Element>(
        &mut self,
        room: Room<P>,
        most: u32,
        source: &impl Source<P>,
    ) {
        self.narrow_by::<P, T>(room, most, Digit::of_keys::<T>(Room::<P>::BINS.ilog2()), source);
    }

    #[inline(always)]
    fn narrow_by<P: Collective, T: Element>(
        &mut self,
        room: Room<P>,
        most: u32,
        digits: u32,
        source: &impl Source<P>,
    ) {
        while self.candidates > most && self.digits < digits {
            let digit = Digit::new::<T>(self.digits, Room::<P>::BINS.ilog2());
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
    unsafe fn find<P: Collective>(&mut self, room: Room<P>, digit: Digit) {
        let (thread, lane) = (thread_x(), lane());
        // The greatest numbers are the first thread's.
        let first = Room::<P>::BINS - 4 - 4 * thread;
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
            let before = if lane < thread / 32 { shared::load_u32(room.warps() + lane * 4) } else { 0 };
            up_to += warp::redux_add_u32(before);
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
            let (bits, mask) = (number << digit.shift, digit.mask << digit.shift);
            let (least, known) = (&mut self.least, &mut self.known);
            match digit.of_key {
                true => (least.key, known.key) = (least.key | bits, known.key | mask),
                false => (least.behind, known.behind) = (least.behind | bits, known.behind | mask),
            }
            self.digits += 1;
        }
    }

    /// Writes the entries that are not less to a list at `to`, in any order, and gives how many there are. Those beyond the `most` are
    /// not written.
    #[inline(always)]
    pub(super) fn collect<P: Collective>(
        &self,
        room: Room<P>,
        to: u32,
        most: u32,
        source: &impl Source<P>,
    ) -> u32 {
        // SAFETY: all threads execute it alike; barriers are between those who write and those who read.
        unsafe {
            if thread_x() == 0 {
                shared::store_u32(room.counter(), 0);
            }
            sync::syncthreads();
            source.each(&Collector { least: self.least, counter: room.counter(), to, most });
            sync::syncthreads();
            shared::load_u32(room.counter())
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
    fn least(&self) -> Option<Entry> {
        None
    }
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
                numbers[i] = digits >> self.digit.shift & self.digit.mask;
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
    most: u32,
}

impl Sink for Collector {
    #[inline(always)]
    fn least(&self) -> Option<Entry> {
        Some(self.least)
    }
    #[inline(always)]
    fn take<const N: usize>(&self, entries: [Entry; N], valid: bool) {
        let wanted = |i: usize| valid && entries[i].is_at_least(self.least);
        let (mut own, mut i) = (0, 0);
        while i < N {
            own += u32::from(wanted(i));
            i += 1;
        }
        if own > 0 {
            // SAFETY: the counter is in shared memory, and so is the list, with room for `most`.
            unsafe {
                let mut place = atomic::atom_shared_add_u32(self.counter, own);
                let mut i = 0;
                while i < N {
                    if wanted(i) {
                        if place < self.most {
                            entries[i].store(self.to + place * Entry::BYTES);
                        }
                        place += 1;
                    }
                    i += 1;
                }
            }
        }
    }
}
