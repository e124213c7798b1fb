//! Results whose elements lie one behind the other in memory, in one line or several.

use core::marker::PhantomData;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::{cluster_rank, thread_x};
use tilewright_device::arch::sync;
use tilewright_device::kernel;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{Collective, Cta, Element, InBlock, Overlaps, block_x};

use crate::elements::{AHEAD, VECTOR, element, value, values, vector, word_of};
use crate::exchange::{States, across_lanes};
use crate::fold::Fold;
use crate::how::{ForEach, How};
use crate::walk::Walk;

/// Threads of a CTA.
pub const ROWS_THREADS: u32 = 256;

/// Which elements are whose.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowsWork {
    /// The address of the first element.
    pub x: u64,
    /// The address of the first result.
    pub y: u64,
    /// The results: where the elements of each begin, and where it goes.
    pub results: Walk<2>,
    /// The lines of a result.
    pub lines: Walk<1>,
    /// Elements of a line, which are contiguous.
    pub length: u32,
    /// A line is cut into pieces of so many elements, but for the last.
    pub cut: u32,
    /// By the pieces of a line.
    pub by_line: Division,
    /// Pieces of a result: those of all its lines.
    pub pieces: u32,
    /// Threads of a result, and of one of its pieces at a time: powers of two, as logarithms.
    pub threads: u32,
    /// See `threads`.
    pub lanes: u32,
    /// By the CTAs, or clusters, that share a result: each writes a part, the parts one behind the other.
    pub by_parts: Division,
}

impl PassedAsIs for RowsWork {}

/// y = what is made of the elements of each result.
///
/// Lines begin at any element: their ends are read one by one, what is between in vectors of 16 bytes. `V` are the elements of one.
///
/// A thread adds up its vectors in their order, each halved until one value is left, and then what it has of lines' ends; then
/// neighbouring lanes, pairs of those, and so on; then warps in their order, then the cluster's `CTAS` in theirs. So results are the same
/// each time.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = 4)]
pub fn reduce_rows<P, T: Element, const V: usize, const CTAS: usize>(
    mut cta: Cta<P>,
    work: InBlock<RowsWork>,
    how: InBlock<How>,
) where
    P: Collective + Overlaps,
{
    const { assert!(P::THREADS == ROWS_THREADS, "a CTA has as many threads as the host counts with") };
    if CTAS > 1 {
        // SAFETY: all threads of the cluster execute it, and wait before they arrive again.
        unsafe { sync::cluster_arrive_relaxed() };
    }
    let warps = States { address: cta.reserve(8 * 8, 16), count: 8 };
    let ctas =
        States { address: cta.reserve(if CTAS > 1 { 8 * CTAS as u32 } else { 0 }, 16), count: CTAS as u32 };
    let all = work.get();
    let (thread, number) = (thread_x(), all.by_parts.of(block_x() / CTAS as u32));
    let result = (number.0 << (8 - all.threads)) + (thread >> all.threads);
    let own = thread & ((1 << all.threads) - 1);
    let inside = result < all.results.count();
    let [from, _] = all.results.at(if inside { result } else { 0 });
    let from = all.x + from * T::BYTES as u64;
    P::wait_for_preceding_grid();
    how.get().with(Rows::<T, V, CTAS> {
        work,
        how,
        warps,
        ctas,
        from,
        result,
        part: number.1,
        own,
        inside,
        element: PhantomData,
    });
}

/// What a thread does for its result.
struct Rows<T, const V: usize, const CTAS: usize> {
    work: InBlock<RowsWork>,
    how: InBlock<How>,
    /// Where warps leave their states, and the CTAs of a cluster theirs.
    warps: States,
    ctas: States,
    /// The address of the first element.
    from: u64,
    result: u32,
    part: u32,
    /// The thread among those of the result.
    own: u32,
    /// Whether there is such a result.
    inside: bool,
    element: PhantomData<T>,
}

impl<T: Element, const V: usize, const CTAS: usize> ForEach for Rows<T, V, CTAS> {
    #[inline(always)]
    fn run<F: Fold>(self) {
        let Rows { work, how, warps, ctas, own, inside, part, .. } = self;
        let rank = if CTAS > 1 { cluster_rank() } else { 0 };
        let mut state = if inside { self.lines::<F>(part * CTAS as u32 + rank) } else { F::START };
        let (thread, log) = (thread_x(), work.get().threads);
        let threads = 1 << log;
        // SAFETY: all threads execute it alike; slots are written by one thread each, and read behind the barrier.
        unsafe {
            state = across_lanes::<F>(state, if threads < 32 { threads } else { 32 });
            if threads > 32 {
                if thread % 32 == 0 {
                    warps.put(thread / 32, state);
                }
                sync::syncthreads();
                // The other warps' states are not used.
                if own < 32 {
                    state = warps.merged::<F>(thread >> log << (log - 5), threads / 32);
                }
            }
        }
        if CTAS > 1 {
            // SAFETY: all CTAs of the cluster run, since all have arrived, and none ends before it has arrived again.
            unsafe {
                sync::cluster_wait();
                if thread == 0 {
                    ctas.put_in(0, rank, state);
                }
                sync::cluster_arrive_release();
                sync::cluster_wait();
            }
            if rank > 0 {
                return;
            }
            // SAFETY: every CTA has left its state here.
            state = unsafe { ctas.merged::<F>(0, CTAS as u32) };
        }
        if own == 0 && inside {
            let [_, to] = work.get().results.at(self.result);
            // SAFETY: a result, or a part of one, that no other thread has.
            unsafe { how.get().put::<F>(work.get().y, to + part as u64, state) };
        }
    }
}

impl<T: Element, const V: usize, const CTAS: usize> Rows<T, V, CTAS> {
    /// What is made of this thread's elements in a share of the result's lines.
    #[inline(always)]
    fn lines<F: Fold>(&self, share: u32) -> F::State {
        let all = self.work.get();
        let (lane, first) = (self.own & ((1 << all.lanes) - 1), self.own >> all.lanes);
        let at_a_time = 1 << (all.threads - all.lanes);
        let mut state = F::START;
        let mut piece = share * at_a_time + first;
        while piece < self.work.get().pieces {
            let all = self.work.get();
            let (line, cut) = all.by_line.of(piece);
            let begin = cut * all.cut;
            let left = all.length - begin;
            let length = if left < all.cut { left } else { all.cut };
            let [line] = all.lines.at(line);
            let at = self.from + (line + begin as u64) * T::BYTES as u64;
            let signs = self.how.get().signs::<F, T>();
            let line = Line { at, length, place: begin };
            // SAFETY: the elements of a line are there, and contiguous.
            state = unsafe { line.fold::<F, T, V>(state, lane, 1 << all.lanes, signs) };
            piece += (all.by_parts.divisor * CTAS as u32) << (all.threads - all.lanes);
        }
        state
    }
}

/// Elements one behind the other.
#[derive(Clone, Copy)]
struct Line {
    at: u64,
    length: u32,
    /// The place of the first one.
    place: u32,
}

impl Line {
    /// What is made of every `lanes`-th vector from the `lane`-th on, and of as many elements at the ends.
    ///
    /// # Safety
    /// The elements are readable, and no thread writes them meanwhile.
    #[inline(always)]
    unsafe fn fold<F: Fold, T: Element, const V: usize>(
        self,
        mut state: F::State,
        lane: u32,
        lanes: u32,
        signs: u32,
    ) -> F::State {
        let Line { at, length, place } = self;
        let before = (at.wrapping_neg() % VECTOR as u64) as u32 / T::BYTES as u32;
        let head = if before < length { before } else { length };
        let vectors = (length - head) / V as u32;
        let address = |element: u32| at + element as u64 * T::BYTES as u64;
        let outside = word_of::<T>(F::NEUTRAL) ^ signs;
        let tail = (length - head) % V as u32;
        let end = |i: u32| if i < head { i } else { length - tail + (i - head) };
        // SAFETY: an element of the line, if it is one.
        let load_end = |i: u32| unsafe { element::<T>(address(end(i)), i < head + tail) };
        // The first one is under way with the vectors.
        let mut bits = load_end(lane);
        let mut number = lane;
        while number < vectors {
            let mut words = [[0; 4]; AHEAD];
            let mut i = 0;
            while i < AHEAD {
                let own = number + i as u32 * lanes;
                // SAFETY: the vector is one of the line's, if it is one.
                words[i] = unsafe { vector(address(head + own * V as u32), own < vectors, outside) };
                i += 1;
            }
            let places = [place + head + number * V as u32, lanes * V as u32];
            state = F::add_pieces(state, words, |words| values::<T, V>(words, signs), places);
            number += AHEAD as u32 * lanes;
        }
        let (mut ends, mut i) = (F::START, lane);
        while i < head + tail {
            ends = F::add(ends, value::<T>(bits, signs), place + end(i));
            i += lanes;
            bits = load_end(i);
        }
        if head + tail > 0 { F::merge(state, ends) } else { state }
    }
}
