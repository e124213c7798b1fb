//! Rows in shared memory, of which each thread has its own part: read from memory once, however long they are.

use core::marker::PhantomData;

use crate::arch::special::{thread_x, trap};
use crate::arch::{cp_async, shared};
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::copy::rows::{VECTOR, in_vectors, set_vector};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::Collective;
use crate::tile::fragment::Fragment;
use crate::tile::memory::global::Global;
use crate::tile::memory::row_tiles::RowTile;

/// The rows that a CTA takes, one tile after the other, `N` columns at a time: shared memory has the last `PLACES` parts that were
/// loaded, the current tile's first, and behind them what it has room for of the next ones.
///
/// With `CTAS` CTAs in a cluster each has every `CTAS`-th part. Parts are copied asynchronously (PTX ISA, "cp.async"), and each thread
/// copies what it reads: nothing waits for other threads.
pub struct RowParts<T, L, const M: usize, const N: usize, const CTAS: usize, const PLACES: usize> {
    from: Global<T, 3>,
    outside: T,
    /// Where this thread's first vector lies.
    address: u32,
    /// Of a tile, the first part, and how many.
    first: u32,
    count: u32,
    /// What is loaded next: tile and part.
    ahead: (RowTile, u32),
    /// The place of the current tile's first part.
    oldest: u32,
    layout: PhantomData<L>,
}

impl<P: Collective> Cta<P> {
    /// Begins to load parts of `tile` and of those behind it, for the CTA with this number in its cluster; `outside` is in place of what lies
    /// outside of the tensor.
    ///
    /// The tensor's rows are aligned to 16 bytes and multiples of that long, and have at most `N` `CTAS` `PLACES` columns: the kernel
    /// traps at others.
    #[inline(always)]
    pub fn row_parts<
        T: Element,
        L: FragmentLayout<M, N>,
        const M: usize,
        const N: usize,
        const CTAS: usize,
        const PLACES: usize,
    >(
        &mut self,
        from: Global<T, 3>,
        (tile, rank): (RowTile, u32),
        outside: T,
    ) -> RowParts<T, L, M, N, CTAS, PLACES> {
        const { assert!(L::THREADS == P::CONSUMERS, "the rows lie over as many threads as the program has") };
        const { assert!(in_vectors::<T>(L::RUN), "a thread copies vectors of 16 bytes") };
        const { assert!(PLACES >= 1 && PLACES <= 16, "1 to 16 places") };
        let address = self.reserve((PLACES * M * N * T::BYTES) as u32, VECTOR as u32);
        let count = from.cols().div_ceil((N * CTAS) as u32);
        if count > PLACES as u32 {
            trap();
        }
        let address = address + thread_x() * VECTOR as u32;
        let ahead = (tile, rank);
        let mut parts =
            RowParts { from, outside, address, first: rank, count, ahead, oldest: 0, layout: PhantomData };
        let mut place = 0;
        while place < PLACES as u32 {
            parts.load(place);
            place += 1;
        }
        parts
    }
}

impl<
    T: Element,
    L: FragmentLayout<M, N>,
    const M: usize,
    const N: usize,
    const CTAS: usize,
    const PLACES: usize,
> RowParts<T, L, M, N, CTAS, PLACES>
{
    /// Elements of a vector.
    const STEP: usize = VECTOR / T::BYTES;

    /// Folds the parts of the current tile from left to right: `each(folded, part, number)` gets them and their numbers, tiles of columns.
    #[inline(always)]
    pub fn fold<A>(&self, init: A, mut each: impl FnMut(A, Fragment<T, M, N, L>, u32) -> A) -> A {
        let (mut folded, mut i) = (init, 0);
        while i < self.count {
            folded = each(folded, self.part(i, i), self.first + i * CTAS as u32);
            i += 1;
        }
        folded
    }

    /// Takes the parts of the current tile from left to right for the last time; then the next tile is the current one. The place of each is
    /// loaded again as soon as `each` is done.
    #[inline(always)]
    pub fn take(&mut self, mut each: impl FnMut(Fragment<T, M, N, L>, u32)) {
        let mut i = 0;
        while i < self.count {
            each(self.part(0, i), self.first + i * CTAS as u32);
            self.load(self.oldest);
            self.oldest = Self::after(self.oldest, 1);
            i += 1;
        }
    }

    /// The place so many behind this one.
    #[inline(always)]
    fn after(place: u32, by: u32) -> u32 {
        let place = place + by;
        if place >= PLACES as u32 { place - PLACES as u32 } else { place }
    }

    /// Where this thread's vector of the registers from `i` on lies.
    #[inline(always)]
    fn vector(&self, place: u32, i: usize) -> u32 {
        self.address + place * (M * N * T::BYTES) as u32 + (i / Self::STEP * VECTOR) as u32 * L::THREADS
    }

    /// Begins to load the next part, as a group of copies of its own.
    #[inline(always)]
    fn load(&mut self, place: u32) {
        let (tile, part) = self.ahead;
        let window = self.from.tile(tile.at(part)).rows_from::<M, N>(L::coord(thread_x(), 0), L::RUN);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (row, col) = L::offset(i);
            let from = window.at(row, 0).wrapping_add(col as usize);
            let inside = row < window.rows && col < window.cols;
            // SAFETY: rows are aligned and whole vectors long, so that one that begins inside ends inside. The vector in shared memory is this
            // thread's own, and what it last held is in registers.
            unsafe { cp_async::copy16_if(self.vector(place, i), from.cast(), inside) };
            i += Self::STEP;
        }
        // SAFETY: closes the group of this thread's copies.
        unsafe { cp_async::commit() };
        let part = part + CTAS as u32;
        let ends = part >= self.first + self.count * CTAS as u32;
        self.ahead = if ends { (tile.next(), self.first) } else { (tile, part) };
    }

    /// The part so many behind the oldest, which is the `number`-th of the current tile.
    #[inline(always)]
    fn part(&self, behind: u32, number: u32) -> Fragment<T, M, N, L> {
        wait_for_all_but(PLACES as u32 - 1 - behind);
        let place = Self::after(self.oldest, behind);
        let mut x = Fragment::<T, M, N, L>::splat(self.outside);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            // SAFETY: this thread's own vector, whose copy it has waited for.
            let words = unsafe { shared::load_u32x4(self.vector(place, i)) };
            set_vector::<T, _>(&mut x.regs, i, words);
            i += Self::STEP;
        }
        let before = (self.first + number * CTAS as u32) * N as u32;
        let end = self.from.cols().saturating_sub(before);
        if end < N as u32 { x.fill_from(end, self.outside) } else { x }
    }
}

/// Waits for all of this thread's groups of copies but the last so many, fewer than 16.
#[inline(always)]
fn wait_for_all_but(groups: u32) {
    macro_rules! wait {
        ($($n:literal)*) => {
            // SAFETY: waits for this thread's groups alone.
            unsafe {
                match groups {
                    $($n => cp_async::wait::<$n>(),)*
                    _ => cp_async::wait::<0>(),
                }
            }
        };
    }
    wait!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}
