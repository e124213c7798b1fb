//! Where entries come from: a row of the tensor, shared memory, that of a cluster's CTAs.

use tilewright_device::arch::shared;
use tilewright_device::arch::special::thread_x;
use tilewright_device::tile::Element;

use super::THREADS;
use super::entry::{Entry, Keys};
use crate::elements::{AHEAD, VECTOR, element, vector};

/// What entries go to. All lanes of a warp call it together, with `valid` false where a lane has none.
pub(super) trait Sink {
    fn take<const N: usize>(&self, entries: [Entry; N], valid: bool);
}

/// Entries that all threads of the CTA go through together.
pub(super) trait Source {
    fn each(&self, sink: &impl Sink);
}

/// Some columns of a row.
#[derive(Clone, Copy)]
pub(super) struct Columns<T, const V: usize> {
    /// The address of the row's first element.
    pub(super) at: u64,
    /// Elements from one column to the next.
    pub(super) step: u64,
    pub(super) begin: u32,
    pub(super) end: u32,
    pub(super) keys: Keys,
    pub(super) element: core::marker::PhantomData<T>,
}

impl<T: Element, const V: usize> Columns<T, V> {
    #[inline(always)]
    pub(super) fn address(&self, column: u32) -> u64 {
        self.at + column as u64 * self.step * T::BYTES as u64
    }

    /// A column of each thread, if there is one.
    #[inline(always)]
    fn single(&self, column: u32, valid: bool, sink: &impl Sink) {
        // SAFETY: a column of the row.
        let bits = unsafe { element::<T>(self.address(column), valid) };
        sink.take([self.keys.entry::<T>(bits, column)], valid);
    }

    /// The `vectors` vectors from column `first` on.
    #[inline(always)]
    fn vectors(&self, first: u32, vectors: u32, sink: &impl Sink) {
        let mut from = 0;
        while from < vectors {
            let number = |i: usize| from + i as u32 * THREADS + thread_x();
            let mut words = [[0; 4]; AHEAD];
            let mut i = 0;
            while i < AHEAD {
                let own = number(i);
                // SAFETY: columns of the row, which are contiguous.
                words[i] = unsafe { vector(self.address(first + own * V as u32), own < vectors, 0) };
                i += 1;
            }
            let mut i = 0;
            while i < AHEAD {
                let own = number(i);
                let mut entries = [Entry::LEAST; V];
                let mut e = 0;
                while e < V {
                    let word = words[i][e * T::BYTES / 4];
                    let bits = if T::BYTES == 2 { word >> (e % 2 * 16) & 0xffff } else { word };
                    entries[e] = self.keys.entry::<T>(bits, first + own * V as u32 + e as u32);
                    e += 1;
                }
                sink.take(entries, own < vectors);
                i += 1;
            }
            from += AHEAD as u32 * THREADS;
        }
    }
}

impl<T: Element, const V: usize> Source for Columns<T, V> {
    #[inline(always)]
    fn each(&self, sink: &impl Sink) {
        let (begin, end, thread) = (self.begin, self.end, thread_x());
        let (mut ends, mut vectors, mut head) = (end - begin, 0, end - begin);
        if self.step == 1 {
            let before = (self.address(begin).wrapping_neg() % VECTOR as u64) as u32 / T::BYTES as u32;
            head = if before < end - begin { before } else { end - begin };
            vectors = (end - begin - head) / V as u32;
            ends = end - begin - vectors * V as u32;
        }
        self.vectors(begin + head, vectors, sink);
        // What is in no vector: in front of them and behind.
        let mut from = 0;
        while from < ends {
            let own = from + thread;
            let column = begin + own + if own < head { 0 } else { vectors * V as u32 };
            self.single(column, own < ends, sink);
            from += THREADS;
        }
    }
}

/// Entries in shared memory, one behind the other.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub(super) at: u32,
    pub(super) count: u32,
}

impl Source for Listed {
    #[inline(always)]
    fn each(&self, sink: &impl Sink) {
        let mut from = 0;
        while from < self.count {
            let own = from + thread_x();
            let valid = own < self.count;
            // SAFETY: one of the list, or its first.
            let entry = unsafe { Entry::load(self.at + if valid { own } else { 0 } * Entry::BYTES) };
            sink.take([entry], valid);
            from += THREADS;
        }
    }
}

/// The lists of a cluster's CTAs, each of which has left where its own is and how long.
#[derive(Clone, Copy)]
pub(super) struct OfCluster {
    /// Where that is.
    pub(super) lists: u32,
    pub(super) ctas: u32,
}

impl OfCluster {
    /// The list of a CTA, at an address of the cluster.
    #[inline(always)]
    pub(super) fn list(&self, rank: u32) -> Listed {
        // SAFETY: the CTA runs, and has left it.
        unsafe {
            let at = shared::load_cluster_u32(shared::mapa(self.lists, rank));
            let count = shared::load_cluster_u32(shared::mapa(self.lists + 4, rank));
            Listed { at: shared::mapa(at, rank), count }
        }
    }
}

impl Source for OfCluster {
    #[inline(always)]
    fn each(&self, sink: &impl Sink) {
        let mut rank = 0;
        while rank < self.ctas {
            let list = self.list(rank);
            let mut from = 0;
            while from < list.count {
                let own = from + thread_x();
                let valid = own < list.count;
                let at = list.at + if valid { own } else { 0 } * Entry::BYTES;
                // SAFETY: one of the list, or its first, in a CTA that runs and writes there no more.
                let entry = unsafe {
                    Entry { key: shared::load_cluster_u32(at), behind: shared::load_cluster_u32(at + 4) }
                };
                sink.take([entry], valid);
                from += THREADS;
            }
            rank += 1;
        }
    }
}
