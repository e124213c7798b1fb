//! The largest elements of rows, or the least, with their columns.

mod entry;
mod ranked;
mod select;
mod short;
mod sort;
mod source;

use core::marker::PhantomData;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::{cluster_rank, thread_x};
use tilewright_device::arch::{global, shared, sync};
use tilewright_device::kernel;
use tilewright_device::tile::{Collective, Cta, Element, InBlock, Overlaps, block_x};

use entry::{Entry, Keys};
use select::{Room, Search};
use sort::sort;
use source::{Columns, Largest, Listed, OfCluster};

pub use entry::MAX_COLUMNS;
pub use ranked::MAX_SHORT;
pub use short::{SHORT_THREADS, TopKShortArgs, top_k_short};

use crate::elements::element;
use crate::walk::Walk;

/// The most elements of a row that are found: by the kernels of the most threads.
pub const MAX_FOUND: u32 = most_found(512);

/// The most elements of a row that a CTA of so many threads finds.
pub const fn most_found(threads: u32) -> u32 {
    4 * threads
}

/// Entries that are sorted at least, rather than found one by one.
const SORTED: u32 = 128;

/// Which elements are sought, and where they go.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TopKWork {
    /// The addresses of the first element, of the first value and of the first index.
    pub addresses: [u64; 3],
    /// The rows of these three.
    pub rows: Walk<3>,
    /// Elements of each from one column to the next.
    pub steps: [u64; 3],
    /// Columns of a row: at least as many as are found, and at most [`MAX_COLUMNS`].
    pub columns: u32,
    /// Columns of a CTA of a cluster.
    pub share: u32,
    /// How many are found: 1 to four for each thread of a CTA.
    pub found: u32,
    /// Whether the least are wanted: 0 or 1.
    pub least: u32,
    /// Bytes of an index: 4 or 8.
    pub index_bytes: u32,
    /// Lanes that share a short row, a power of two up to 32, as a logarithm.
    pub lanes: u32,
    /// Whether these take vectors: rows begin and end with one. 0 or 1.
    pub vectors: u32,
}

impl PassedAsIs for TopKWork {}

/// values = the largest elements of every row, the largest first and of equal ones the first; indices = their columns.
///
/// A CTA takes a row, or the `CTAS` of a cluster do. Its first pass finds the largest of some groups of elements: what is less than as many of
/// these as are wanted is none of the largest. The second one lists all others in shared memory. Where there is no room for them, digits of the
/// last element that is wanted are found until there is, in as many passes over the row, and another one lists what is left. Further digits are found in the list;
/// the rest is sorted. A cluster's CTAs do that with a share of the row each, but for the sorting, and the first one with what they have
/// found.
///
/// Lists are in any order, but no two entries are equal: results are the same each time.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = 1024 / P::THREADS)]
pub fn top_k<P, T: Element, const V: usize, const CTAS: usize>(mut cta: Cta<P>, work: InBlock<TopKWork>)
where
    P: Collective + Overlaps,
{
    let listed = const {
        assert!(P::THREADS.is_multiple_of(32 * CTAS as u32), "each CTA's list has as many warps");
        8 * P::THREADS
    };
    let room = Room::<P>::new(cta.reserve(Room::<P>::BYTES, 16));
    let all = cta.reserve(listed * Entry::BYTES, 16);
    let fewer = cta.reserve(most_found(P::THREADS) * Entry::BYTES, 16);
    let lists = cta.reserve(8, 8);
    let call = work.get();
    let row = block_x() / CTAS as u32;
    let [from, ..] = call.rows.at(row);
    let rank = if CTAS > 1 { cluster_rank() } else { 0 };
    let (begin, columns, found) = (rank * call.share, call.columns, call.found);
    let begin = if begin < columns { begin } else { columns };
    let end = if columns - begin < call.share { columns } else { begin + call.share };
    let source = Columns::<T, V> {
        at: call.addresses[0] + from * T::BYTES as u64,
        step: call.steps[0],
        begin,
        end,
        keys: Keys::new::<T>(call.least != 0),
        element: PhantomData,
    };
    P::wait_for_preceding_grid();

    let most = found.next_power_of_two();
    let most = if most < SORTED { SORTED } else { most };
    let columns = end - begin;
    let own = if found < columns { found } else { columns };
    let mut list = Listed { at: all, count: 0 };
    if columns > most {
        // Of each thread's elements the largest of a few groups are a sample whose own last one that is wanted bounds the row's.
        let mut apart = 1;
        while apart < 8 && 8 * apart * own <= listed && columns >= 4 * apart * listed {
            apart *= 2;
        }
        let mut search = Search::new(own, P::THREADS * Largest::GROUPS as u32);
        search.narrow_by_keys::<P, T>(room, own + own / 4, &source.largest::<P>(apart));
        list.count = search.collect(room, all, listed, &source);
    }
    let mut search = Search::new(own, columns);
    if columns <= most || list.count > listed {
        search.narrow::<P, T>(room, listed, &source);
        list.count = search.collect(room, all, listed, &source);
    }
    if list.count > most {
        search.candidates = list.count;
        search.narrow::<P, T>(room, most, &list);
        list = Listed { at: fewer, count: search.collect(room, fewer, most, &list) };
    }

    if CTAS > 1 {
        // SAFETY: all threads of the cluster execute it; no CTA ends before the first one has read the others' lists.
        unsafe {
            if thread_x() == 0 {
                shared::store_u32(lists, list.at);
                shared::store_u32(lists + 4, list.count);
            }
            sync::cluster_arrive_release();
            sync::cluster_wait();
            if rank == 0 {
                let source = OfCluster { lists, ctas: CTAS as u32 };
                let mut search = Search::new(found, source.count());
                search.narrow::<P, T>(room, most, &source);
                let to = if list.at == all { fewer } else { all };
                list = Listed { at: to, count: search.collect(room, to, most, &source) };
            }
            sync::cluster_arrive_release();
            sync::cluster_wait();
        }
        if rank > 0 {
            return;
        }
    }

    // SAFETY: all threads execute it alike, behind the barrier of the list's collection.
    unsafe { sort::<P>(list.at, list.count) };
    let call = work.get();
    let mut i = thread_x();
    while i < found {
        // SAFETY: the places of this result, which no other thread has; the column is one of the row's.
        unsafe {
            let column = Entry::load(list.at + i * Entry::BYTES).column();
            let bits = element::<T>(source.address(column), true);
            put::<T>(&call, row, i, bits, column, true);
        }
        i += P::THREADS;
    }
}

/// Stores the bits of a row's `number`-th value and its index, if they are `valid`.
///
/// # Safety
/// Both places are there, and no other thread uses them.
#[inline(always)]
unsafe fn put<T: Element>(call: &TopKWork, row: u32, number: u32, bits: u32, column: u32, valid: bool) {
    let [_, value, index] = call.rows.at(row);
    let place = |first, step| first + number as u64 * step;
    let value = call.addresses[1] + place(value, call.steps[1]) * T::BYTES as u64;
    let index = call.addresses[2] + place(index, call.steps[2]) * call.index_bytes as u64;
    // SAFETY: the caller's.
    unsafe {
        if T::BYTES == 2 {
            global::st_global_u16_if(value as *mut u16, bits as u16, valid);
        } else {
            global::st_global_u32_if(value as *mut u32, bits, valid);
        }
        if call.index_bytes == 4 {
            global::st_global_u32_if(index as *mut u32, column, valid);
        } else if valid {
            global::st_global_u32x2(index as *mut [u32; 2], [column, 0]);
        }
    }
}
