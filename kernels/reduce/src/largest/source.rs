//! Where entries come from: a row of the tensor, shared memory, that of a cluster's CTAs.

use tilewright_device::arch::special::{lane, thread_x};
use tilewright_device::arch::{shared, warp};
use tilewright_device::tile::{Collective, Element};

use super::entry::{Entry, Keys};
use crate::elements::{AHEAD, VECTOR, element, value, values, vector};

/// What entries go to. All lanes of a warp call it together, with `valid` false where a lane has none.
pub(super) trait Sink {
    /// Entries that are less may be left out.
    fn least(&self) -> Option<Entry>;
    fn take<const N: usize>(&self, entries: [Entry; N], valid: bool);
}

/// Entries that all threads of a CTA of `P` go through together.
pub(super) trait Source<P> {
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

    /// The columns in front of the first whole vector, and how many vectors there are.
    #[inline(always)]
    fn parts(&self) -> (u32, u32) {
        let all = self.end - self.begin;
        if self.step != 1 {
            return (all, 0);
        }
        let before = (self.address(self.begin).wrapping_neg() % VECTOR as u64) as u32 / T::BYTES as u32;
        let head = if before < all { before } else { all };
        (head, (all - head) / V as u32)
    }

    /// Goes through whole vectors, those that a warp reads at a time: one of each `apart` such. `to` has the place among those in
    /// flight, the words of each thread's, the first column, and whether there is one.
    #[inline(always)]
    fn vectors<P: Collective>(&self, apart: u32, mut to: impl FnMut(usize, [u32; 4], u32, bool)) {
        let (head, vectors) = self.parts();
        let number = |turn: u32| {
            let warps = turn * (P::THREADS / 32) + thread_x() / 32;
            warps * apart * 32 + lane()
        };
        let mut turn = 0;
        while turn * P::THREADS * apart < vectors {
            let mut words = [[0; 4]; AHEAD];
            let mut i = 0;
            while i < AHEAD {
                let own = number(turn + i as u32);
                let column = self.begin + head + own * V as u32;
                // SAFETY: columns of the row, which are contiguous.
                words[i] = unsafe { vector(self.address(column), own < vectors, 0) };
                i += 1;
            }
            let mut i = 0;
            while i < AHEAD {
                let own = number(turn + i as u32);
                to(i, words[i], self.begin + head + own * V as u32, own < vectors);
                i += 1;
            }
            turn += AHEAD as u32;
        }
    }

    /// Goes through the columns that are in no vector, in front of them and behind: the bits of each thread's, the column, and
    /// whether there is one.
    #[inline(always)]
    fn singles<P: Collective>(&self, mut to: impl FnMut(u32, u32, bool)) {
        let (head, vectors) = self.parts();
        let behind = vectors * V as u32;
        let count = self.end - self.begin - behind;
        let mut from = 0;
        while from < count {
            let own = from + thread_x();
            let column = self.begin + own + if own < head { 0 } else { behind };
            // SAFETY: a column of the row, if it is one.
            to(unsafe { element::<T>(self.address(column), own < count) }, column, own < count);
            from += P::THREADS;
        }
    }

    /// The largest of each of [`GROUPS`](Largest::GROUPS) groups of a thread's elements, of one of each `apart` that a warp reads at a time where they are
    /// contiguous.
    #[inline(always)]
    pub(super) fn largest<P: Collective>(&self, apart: u32) -> Largest {
        // NaN counts for nothing: where it comes first others may be the largest, and where it comes last nothing is less.
        let mut largest = [f32::NEG_INFINITY; Largest::GROUPS];
        let signs = self.keys.signs::<T>();
        self.vectors::<P>(apart, |place, words, _, inside| {
            let x = values::<T, V>(words, signs);
            let mut i = 0;
            while i < V {
                let group = (place * V + i) % Largest::GROUPS;
                largest[group] = largest[group].max(if inside { x[i] } else { f32::NEG_INFINITY });
                i += 1;
            }
        });
        self.singles::<P>(|bits, _, inside| {
            let x = if inside { value::<T>(bits, signs) } else { f32::NEG_INFINITY };
            let first = largest[0].max(x);
            let mut i = 1;
            while i < Largest::GROUPS {
                largest[i - 1] = largest[i];
                i += 1;
            }
            largest[Largest::GROUPS - 1] = first;
        });
        Largest(largest.map(|x| match x > f32::NEG_INFINITY {
            true => self.keys.entry::<T>(T::from_f32x2(x, x)[0].bits() ^ signs, 0),
            false => Entry::LEAST,
        }))
    }
}

impl<P: Collective, T: Element, const V: usize> Source<P> for Columns<T, V> {
    #[inline(always)]
    fn each(&self, sink: &impl Sink) {
        let signs = self.keys.signs::<T>();
        let least = sink.least().map(|entry| self.keys.value::<T>(entry));
        self.vectors::<P>(1, |_, words, column, inside| {
            if let Some(least) = least {
                // Seldom, in a long row. What cannot be compared is taken.
                let (x, mut some, mut i) = (values::<T, V>(words, signs), false, 0);
                while i < V {
                    some |= !is_less(x[i], least);
                    i += 1;
                }
                // SAFETY: all lanes execute it.
                if !unsafe { warp::vote_any(some && inside) } {
                    return;
                }
            }
            let mut entries = [Entry::LEAST; V];
            let mut i = 0;
            while i < V {
                let word = words[i * T::BYTES / 4];
                let bits = if T::BYTES == 2 { word >> (i % 2 * 16) & 0xffff } else { word };
                entries[i] = self.keys.entry::<T>(bits, column + i as u32);
                i += 1;
            }
            sink.take(entries, inside);
        });
        self.singles::<P>(|bits, column, inside| sink.take([self.keys.entry::<T>(bits, column)], inside));
    }
}

/// Whether both can be compared, and the one is less.
#[inline(always)]
fn is_less(x: f32, least: f32) -> bool {
    x < least
}

/// The largest of some of a thread's elements. Where as many of all threads' are at least as great as a number, so many elements are.
pub(super) struct Largest([Entry; Largest::GROUPS]);

impl Largest {
    /// Of each thread.
    pub(super) const GROUPS: usize = 8;
}

impl<P> Source<P> for Largest {
    #[inline(always)]
    fn each(&self, sink: &impl Sink) {
        sink.take(self.0, true);
    }
}

/// Entries in shared memory, one behind the other.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub(super) at: u32,
    pub(super) count: u32,
}

impl<P: Collective> Source<P> for Listed {
    #[inline(always)]
    fn each(&self, sink: &impl Sink) {
        let mut from = 0;
        while from < self.count {
            let own = from + thread_x();
            let valid = own < self.count;
            // SAFETY: one of the list, or its first.
            let entry = unsafe { Entry::load(self.at + if valid { own } else { 0 } * Entry::BYTES) };
            sink.take([entry], valid);
            from += P::THREADS;
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
    /// How many entries they have.
    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        let own = if lane() < self.ctas { self.list(lane()).count } else { 0 };
        // SAFETY: all lanes execute it.
        unsafe { warp::redux_add_u32(own) }
    }

    /// The list of a CTA, at an address of the cluster.
    #[inline(always)]
    fn list(&self, rank: u32) -> Listed {
        // SAFETY: the CTA runs, and has left it.
        unsafe {
            let at = shared::load_cluster_u32(shared::mapa(self.lists, rank));
            let count = shared::load_cluster_u32(shared::mapa(self.lists + 4, rank));
            Listed { at: shared::mapa(at, rank), count }
        }
    }
}

impl<P: Collective> Source<P> for OfCluster {
    #[inline(always)]
    fn each(&self, sink: &impl Sink) {
        // Warps take different lists, so that none waits for another CTA's memory more than once.
        let warp = thread_x() / 32;
        let list = self.list(warp % self.ctas);
        let mut from = warp / self.ctas * 32;
        while from < list.count {
            let own = from + lane();
            let valid = own < list.count;
            let at = list.at + if valid { own } else { 0 } * Entry::BYTES;
            // SAFETY: one of the list, or its first, in a CTA that runs and writes there no more.
            let entry = unsafe {
                Entry { key: shared::load_cluster_u32(at), behind: shared::load_cluster_u32(at + 4) }
            };
            sink.take([entry], valid);
            from += P::THREADS / self.ctas;
        }
    }
}
