//! Results whose elements lie apart in memory: neighbouring results' elements are neighbours, or lie anywhere.

use core::marker::PhantomData;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::sync;
use tilewright_device::kernel;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{Collective, Cta, Element, InBlock, Overlaps, block_x};

use crate::elements::{AHEAD, VECTOR, element, values, vector, word_of};
use crate::exchange::States;
use crate::fold::Fold;
use crate::how::{ForEach, How};
use crate::walk::Walk;

/// Threads of a CTA.
pub const COLUMNS_THREADS: u32 = 256;

/// Accesses that a thread has in flight at most.
const MOST: usize = 2 * AHEAD;

/// Which elements are whose.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ColumnsWork {
    /// The address of the first element.
    pub x: u64,
    /// The address of the first result.
    pub y: u64,
    /// Pieces of as many neighbouring results as a thread has: where their first elements lie, and where they go.
    pub pieces: Walk<2>,
    /// Elements of y between the results of a piece.
    pub step: u64,
    /// The elements of a result.
    pub elements: Walk<1>,
    /// Of a CTA at most.
    pub chunk: u32,
    /// Neighbouring threads with neighbouring pieces: a power of two, as a logarithm. The others of a CTA have their further elements.
    pub across: u32,
    /// By the CTAs that share results: each writes a part, those of all results one behind the other.
    pub by_parts: Division,
    /// Elements of y between parts.
    pub apart: u64,
}

impl PassedAsIs for ColumnsWork {}

/// y = what is made of the elements of each result.
///
/// A thread has `V` neighbouring results: a vector of 16 bytes of each of their elements, or single ones that lie anywhere.
///
/// A thread takes every so-many-th element, in their order; then the halves of a CTA's threads are combined, the halves of those, and so
/// on. So results are the same each time.
#[kernel(program = P, min_ctas = 4)]
pub fn reduce_columns<P, T: Element, const V: usize>(
    mut cta: Cta<P>,
    work: InBlock<ColumnsWork>,
    how: InBlock<How>,
) where
    P: Collective + Overlaps,
{
    const { assert!(P::THREADS == COLUMNS_THREADS, "a CTA has as many threads as the host counts with") };
    let count = COLUMNS_THREADS * V as u32;
    let states = States { address: cta.reserve(8 * count, 16), count };
    let all = work.get();
    let (thread, (group, part)) = (thread_x(), all.by_parts.of(block_x()));
    let piece = (group << all.across) + (thread & ((1 << all.across) - 1));
    let inside = piece < all.pieces.count();
    let [from, _] = all.pieces.at(if inside { piece } else { 0 });
    let from = all.x + from * T::BYTES as u64;
    P::wait_for_preceding_grid();
    how.get().with(Columns::<T, V> { work, how, states, from, piece, part, inside, element: PhantomData });
}

/// What a thread does for its results.
struct Columns<T, const V: usize> {
    work: InBlock<ColumnsWork>,
    how: InBlock<How>,
    states: States,
    /// The address of the first element of the first of them.
    from: u64,
    piece: u32,
    part: u32,
    /// Whether there is such a piece.
    inside: bool,
    element: PhantomData<T>,
}

impl<T: Element, const V: usize> Columns<T, V> {
    /// Elements of each result that a thread has in flight: of single ones more, since they are less.
    const AHEAD: usize = if V == 1 { MOST } else { AHEAD };

    /// An element of each of a thread's results.
    ///
    /// # Safety
    /// If `inside`, they are readable, and no thread writes them meanwhile.
    #[inline(always)]
    unsafe fn load(from: u64, inside: bool, outside: u32) -> [u32; 4] {
        // SAFETY: the caller's.
        unsafe {
            if V * T::BYTES == VECTOR {
                return vector(from, inside, outside);
            }
            let bits = element::<T>(from, inside);
            [if inside { bits } else { outside }, 0, 0, 0]
        }
    }
}

impl<T: Element, const V: usize> ForEach for Columns<T, V> {
    #[inline(always)]
    fn run<F: Fold>(self) {
        let Columns { work, how, states, from, inside, part, .. } = self;
        let all = work.get();
        let (thread, row) = (thread_x(), thread_x() >> all.across);
        let rows = COLUMNS_THREADS >> all.across;
        let begin = part * all.chunk;
        let left = all.elements.count().saturating_sub(begin);
        let end = begin + if left < all.chunk { left } else { all.chunk };
        let signs = how.get().signs::<F, T>();
        let outside = word_of::<T>(F::NEUTRAL) ^ signs;
        let mut own = [F::START; V];
        let mut number = begin + row;
        while number < end && inside {
            let mut words = [[0; 4]; MOST];
            let mut i = 0;
            while i < Self::AHEAD {
                let at = number + i as u32 * rows;
                let [offset] = work.get().elements.at(at);
                let address = from + offset * T::BYTES as u64;
                // SAFETY: an element of each of the results, if there is one of this number.
                words[i] = unsafe { Self::load(address, at < end, outside) };
                i += 1;
            }
            let mut i = 0;
            while i < Self::AHEAD {
                let x = values::<T, V>(words[i], signs);
                let mut v = 0;
                while v < V {
                    own[v] = F::add(own[v], x[v], number + i as u32 * rows);
                    v += 1;
                }
                i += 1;
            }
            number += Self::AHEAD as u32 * rows;
        }

        let mut half = rows / 2;
        while half > 0 {
            // SAFETY: all threads execute it alike; a slot is written by one thread, and read behind a barrier by another one.
            unsafe {
                if row >= half && row < 2 * half {
                    let mut v = 0;
                    while v < V {
                        states.put(v as u32 * COLUMNS_THREADS + thread, own[v]);
                        v += 1;
                    }
                }
                sync::syncthreads();
                if row < half {
                    let other = thread + (half << work.get().across);
                    let mut v = 0;
                    while v < V {
                        own[v] = F::merge(own[v], states.get(v as u32 * COLUMNS_THREADS + other));
                        v += 1;
                    }
                }
            }
            half /= 2;
        }
        if row == 0 && inside {
            let all = work.get();
            let [_, to] = all.pieces.at(self.piece);
            let mut v = 0;
            while v < V {
                let to = to + v as u64 * all.step + part as u64 * all.apart;
                // SAFETY: a result, or a part of one, that no other thread has.
                unsafe { how.get().put::<F>(all.y, to, own[v]) };
                v += 1;
            }
        }
    }
}
