//! Short rows: several for each warp, in registers.

use core::marker::PhantomData;

use tilewright_device::arch::global;
use tilewright_device::arch::special::{lane, thread_x};
use tilewright_device::kernel;
use tilewright_device::tile::{Element, InBlock, Overlaps, block_x};

use super::ranked::{List, Ranked};
use super::{TopKWork, put};
use crate::elements::{AHEAD, VECTOR, element};

/// Threads of a CTA.
pub const SHORT_THREADS: u32 = 256;

/// values = the largest elements of every row, the largest first and of equal ones the first; indices = their columns.
///
/// Neighbouring lanes share a row, as many as `work` says. Each sorts `K` of its elements at a time, of which `V` are a vector, and
/// merges them with the `K` largest that it has found; then the lanes' lists are merged. The row is read once, and the values that
/// are found once more.
#[kernel(program = P, min_ctas = 2)]
pub fn top_k_short<P: Overlaps, T: Element, const V: usize, const K: usize>(work: InBlock<TopKWork>) {
    const {
        assert!(P::THREADS == SHORT_THREADS, "a CTA has as many threads as the host counts with");
        assert!(
            V * T::BYTES == VECTOR && (AHEAD * V).is_multiple_of(K),
            "lists are of parts of what is in flight"
        );
    }
    let call = work.get();
    let log = call.lanes;
    let own = thread_x() & ((1 << log) - 1);
    let row = block_x() * (P::THREADS >> log) + (thread_x() >> log);
    let inside = row < call.rows.count();
    let row = if inside { row } else { 0 };
    let [from, ..] = call.rows.at(row);
    let source = Share::<T, V> {
        at: call.addresses[0] + from * T::BYTES as u64,
        step: call.steps[0],
        own,
        log,
        all: call.columns,
        columns: if inside { call.columns } else { 0 },
        vectors: call.vectors != 0,
        element: PhantomData,
    };
    let flip = if call.least != 0 { u32::MAX } else { 0 };
    P::wait_for_preceding_grid();

    let mut words = source.load(0);
    let mut list = List::<T, K>::sorted(source.elements(&words, 0, 0, flip));
    list = source.merged(list, &words, 0, 1, flip);
    let mut turn = 1;
    while source.first(turn, 0) < call.columns {
        words = source.load(turn);
        list = source.merged(list, &words, turn, 0, flip);
        turn += 1;
    }
    // SAFETY: all lanes execute it: what they go through has as many columns for all rows.
    let list = unsafe { list.shared(lane(), 1 << log) };

    let (call, first) = (work.get(), List::<T, K>::first_of(own));
    let places = K as u32 >> log;
    let places = if places > 1 { places } else { 1 };
    let mut i = 0;
    while i < K {
        if i as u32 >= places {
            break;
        }
        let number = first + i as u32;
        let valid = inside && own < K as u32 && number < call.found;
        let column = list.0[i].column();
        // SAFETY: the places of this result, which no other thread has; the column is one of the row's.
        unsafe {
            let bits = element::<T>(source.address(column), valid);
            put::<T>(&call, row, number, bits, column, valid);
        }
        i += 1;
    }
}

/// A lane's elements of a row.
#[derive(Clone, Copy)]
struct Share<T, const V: usize> {
    /// The address of the row's first element.
    at: u64,
    /// Elements from one column to the next.
    step: u64,
    /// The lane among those of the row, which are two to the power of `log`.
    own: u32,
    log: u32,
    /// Columns of all rows, and of this one: none where there is no such row.
    all: u32,
    columns: u32,
    /// Whether lanes take vectors, rather than single elements, in turns.
    vectors: bool,
    element: PhantomData<T>,
}

impl<T: Element, const V: usize> Share<T, V> {
    #[inline(always)]
    fn address(&self, column: u32) -> u64 {
        self.at + column as u64 * self.step * T::BYTES as u64
    }

    /// The first column of what all lanes' elements from the `i`-th on are, of those in flight in a turn.
    #[inline(always)]
    fn first(&self, turn: u32, i: usize) -> u32 {
        (turn * (AHEAD * V) as u32 + i as u32) << self.log
    }

    /// The column of the `i`-th element in flight in a turn.
    #[inline(always)]
    fn column(&self, turn: u32, i: usize) -> u32 {
        let vector = self.first(turn, i / V * V);
        let i = (i % V) as u32;
        vector + if self.vectors { self.own * V as u32 + i } else { self.own + (i << self.log) }
    }

    /// The bits of what is in flight in a turn; zeros behind the row.
    #[inline(always)]
    fn load(&self, turn: u32) -> [[u32; 4]; AHEAD] {
        let mut words = [[0; 4]; AHEAD];
        let mut i = 0;
        if self.vectors {
            while i < AHEAD {
                let column = self.column(turn, i * V);
                let (from, inside) = (self.address(column), column < self.columns);
                // SAFETY: a vector of the row, which the host has found aligned. What is found is read again, from the cache.
                unsafe { global::replace_cached_u32x4(&mut words[i], 0, from, inside) };
                i += 1;
            }
            return words;
        }
        while i < AHEAD * V {
            let column = self.column(turn, i);
            // SAFETY: a column of the row, if it is one.
            let bits = unsafe { element::<T>(self.address(column), column < self.columns) };
            words[i / V][i % V * T::BYTES / 4] |= bits << (i * T::BYTES % 4 * 8);
            i += 1;
        }
        words
    }

    /// The `part`-th `K` of them.
    #[inline(always)]
    fn elements<const K: usize>(
        &self,
        words: &[[u32; 4]; AHEAD],
        turn: u32,
        part: usize,
        flip: u32,
    ) -> [Ranked<T>; K] {
        let mut elements = [Ranked::NONE; K];
        let mut i = 0;
        while i < K {
            let number = part * K + i;
            let word = words[number / V][number % V * T::BYTES / 4];
            let x = match T::BYTES {
                2 => T::pair_to_f32(word)[number % 2],
                _ => T::from_bits(word).to_f32(),
            };
            elements[i] = Ranked::new(x, flip, self.column(turn, number));
            i += 1;
        }
        // Seldom: rows are as long as their lanes' lists, or end here.
        if self.first(turn, part * K + K) > self.columns {
            let mut i = 0;
            while i < K {
                if self.column(turn, part * K + i) >= self.columns {
                    elements[i] = Ranked::NONE;
                }
                i += 1;
            }
        }
        elements
    }

    /// The largest of a list and of what is in flight, from a part on.
    #[inline(always)]
    fn merged<const K: usize>(
        &self,
        mut list: List<T, K>,
        words: &[[u32; 4]; AHEAD],
        turn: u32,
        mut part: usize,
        flip: u32,
    ) -> List<T, K> {
        while part < AHEAD * V / K {
            if self.first(turn, part * K) < self.all {
                list = list.with(List::sorted(self.elements(words, turn, part, flip)));
            }
            part += 1;
        }
        list
    }
}
