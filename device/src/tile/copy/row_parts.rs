//! Rows in shared memory, of which each thread has its own part: read from memory once, however long they are.

use core::marker::PhantomData;

use crate::arch::special::{cluster_rank, thread_x, trap};
use crate::arch::{cp_async, global, shared};
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::copy::rows::{VECTOR, in_vectors, set_vector, vector};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::Collective;
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::global::{Global, GlobalMut};
use crate::tile::memory::row_tiles::{RowOrder, RowTile};
use crate::tile::memory::window::{Window, write_if};

/// The rows that a CTA takes, one after the other, `N` columns at a time: shared memory has the last `PLACES` parts that were loaded, the
/// current row's first, and behind them what it has room for of the next ones.
///
/// With `CTAS` CTAs in a cluster each has every `CTAS`-th part. Parts are copied asynchronously (PTX ISA, "cp.async"), and each thread
/// copies what it reads: nothing waits for other threads.
///
/// `RAGGED` rows may begin anywhere. They are read from the multiple of 16 bytes before their first element on, so that all copies are vectors.
pub struct RowParts<T, L, const N: usize, const CTAS: usize, const PLACES: usize, const RAGGED: bool> {
    from: Global<T, 3>,
    outside: T,
    /// Where this thread's first vector lies.
    address: u32,
    /// Of a row, the number of the first part, and how many parts.
    first: u32,
    count: u32,
    current: RowTile,
    /// What is loaded next: row and part.
    ahead: (RowTile, u32),
    /// The place of the current row's first part.
    oldest: u32,
    layout: PhantomData<L>,
}

/// A part of a row: `N` columns of it, of which the first and the last ones of a row may be outside.
#[derive(Clone, Copy)]
pub struct RowPart {
    number: u32,
    first: u32,
    inside: [u32; 2],
    row: [u32; 3],
    /// Elements between the last multiple of 16 bytes before the row and its first; none where no row is ragged.
    skew: Option<u32>,
}

impl<P: Collective> Cta<P> {
    /// Begins to load this CTA's first row in the order of `order`, and what there is room for of the next ones. `outside` is in place of what lies
    /// outside of a row.
    ///
    /// Rows are aligned to 16 bytes and multiples of that long, and have at most `N` `CTAS` `PLACES` columns. `RAGGED` rows are those of a
    /// contiguous tensor that is aligned to 16 bytes, with 7 columns fewer at most, 3 of f32. The kernel traps at others.
    #[inline(always)]
    pub fn row_parts<T, L, const N: usize, const CTAS: usize, const PLACES: usize, const RAGGED: bool>(
        &mut self,
        from: Global<T, 3>,
        order: RowOrder,
        outside: T,
    ) -> RowParts<T, L, N, CTAS, PLACES, RAGGED>
    where
        T: Element,
        L: FragmentLayout<1, N>,
    {
        const { assert!(L::THREADS == P::CONSUMERS, "the rows lie over as many threads as the program has") };
        const { assert!(in_vectors::<T>(L::RUN), "a thread copies vectors of 16 bytes") };
        const { assert!(PLACES >= 1 && PLACES <= 16, "1 to 16 places") };
        let address = self.reserve((PLACES * N * T::BYTES) as u32, VECTOR as u32);
        let step = const { VECTOR / T::BYTES } as u32;
        let ragged = !from.cols().is_multiple_of(step) || (from.align as usize) < VECTOR;
        let count = (from.cols() + if RAGGED { step - 1 } else { 0 }).div_ceil((N * CTAS) as u32);
        let lies_so = if RAGGED { is_contiguous(&from) } else { !ragged };
        if count > PLACES as u32 || !lies_so {
            trap();
        }
        let address = address + thread_x() * VECTOR as u32;
        let (current, first) =
            (RowTile::first(order, CTAS as u32), if CTAS > 1 { cluster_rank() } else { 0 });
        let (ahead, layout) = ((current, first), PhantomData);
        let mut parts = RowParts { from, outside, address, first, count, current, ahead, oldest: 0, layout };
        let mut place = 0;
        while place < PLACES as u32 {
            parts.load(place);
            place += 1;
        }
        parts
    }
}

/// Whether a tensor begins at a multiple of 16 bytes, and there is nothing between its rows.
#[inline(always)]
fn is_contiguous<T: Element>(x: &Global<T, 3>) -> bool {
    let [batch, rows, cols] = x.shape();
    let [by_matrix, by_row, by_column] = x.strides();
    (x.pointer() as u64).is_multiple_of(VECTOR as u64)
        && by_column == 1
        && (by_row == cols as u64 || rows <= 1)
        && (by_matrix == rows as u64 * cols as u64 || batch <= 1)
}

/// Elements between the last multiple of 16 bytes before an element and itself.
#[inline(always)]
fn skew<T: Element>(element: *mut T) -> u32 {
    (element as u64 % VECTOR as u64) as u32 / T::BYTES as u32
}

#[rustfmt::skip]
impl<T: Element, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize, const PLACES: usize, const RAGGED: bool>
    RowParts<T, L, N, CTAS, PLACES, RAGGED>
{
    /// Elements of a vector.
    const STEP: usize = VECTOR / T::BYTES;

    /// The current row: it does not exist behind the last.
    #[inline(always)]
    pub fn row(&self) -> RowTile {
        self.current
    }

    /// Folds the parts of the current row from left to right.
    #[inline(always)]
    pub fn fold<A>(&self, init: A, mut each: impl FnMut(A, Fragment<T, 1, N, L>, RowPart) -> A) -> A {
        let (mut folded, mut i) = (init, 0);
        while i < self.count {
            let part = self.part(i);
            folded = each(folded, self.read(i, part), part);
            i += 1;
        }
        folded
    }

    /// Takes the parts of the current row from left to right for the last time; then the next row is the current one. The place of each is
    /// loaded again as soon as `each` is done.
    #[inline(always)]
    pub fn take(&mut self, mut each: impl FnMut(Fragment<T, 1, N, L>, RowPart)) {
        let mut i = 0;
        while i < self.count {
            let part = self.part(i);
            each(self.read(0, part), part);
            self.load(self.oldest);
            self.oldest = Self::after(self.oldest, 1);
            i += 1;
        }
        self.current = self.current.next();
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
        self.address + place * (N * T::BYTES) as u32 + (i / Self::STEP * VECTOR) as u32 * L::THREADS
    }

    /// A row from its first element on, and its skew.
    #[inline(always)]
    fn begin(&self, tile: RowTile) -> (Window<T>, u32) {
        let window = self.from.tile(tile.at(0)).window(1, N);
        (window, if RAGGED { skew(window.pointer) } else { 0 })
    }

    /// Begins to load the next part, as a group of copies of its own.
    #[inline(always)]
    fn load(&mut self, place: u32) {
        let (tile, part) = self.ahead;
        let (row, skew) = self.begin(tile);
        let end = if row.rows > 0 { row.cols + skew } else { 0 };
        let first = part * N as u32 + L::coord(thread_x(), 0).1;
        let from = row.pointer.wrapping_sub(skew as usize).wrapping_add(first as usize);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (_, col) = L::offset(i);
            let (to, from) = (self.vector(place, i), from.wrapping_add(col as usize).cast());
            // SAFETY: the vector in shared memory is this thread's own, and what it last held is in registers. Rows are aligned and whole vectors
            // long, so that one that begins inside ends inside; or what lies before a row is the end of the one before, and what lies behind it is
            // not read.
            unsafe {
                if RAGGED {
                    let left = end.saturating_sub(first + col) * T::BYTES as u32;
                    cp_async::copy16(to, from, if left < VECTOR as u32 { left } else { VECTOR as u32 });
                } else {
                    cp_async::copy16_if(to, from, first + col < end);
                }
            }
            i += Self::STEP;
        }
        // SAFETY: closes the group of this thread's copies.
        unsafe { cp_async::commit() };
        let part = part + CTAS as u32;
        let ends = part >= self.first + self.count * CTAS as u32;
        self.ahead = if ends { (tile.next(), self.first) } else { (tile, part) };
    }

    /// The `i`-th part of the current row that this CTA has.
    #[inline(always)]
    fn part(&self, i: u32) -> RowPart {
        let number = self.first + i * CTAS as u32;
        let (row, skew) = self.begin(self.current);
        let before = number * N as u32;
        let to = (row.cols + skew).saturating_sub(before);
        RowPart {
            number,
            first: before.wrapping_sub(skew),
            inside: [skew.saturating_sub(before), if to < N as u32 { to } else { N as u32 }],
            row: self.current.at(0),
            skew: if RAGGED { Some(skew) } else { None },
        }
    }

    /// The part so many behind the oldest.
    #[inline(always)]
    fn read(&self, behind: u32, part: RowPart) -> Fragment<T, 1, N, L> {
        wait_for_all_but(PLACES as u32 - 1 - behind);
        let place = Self::after(self.oldest, behind);
        let mut x = Fragment::<T, 1, N, L>::splat(self.outside);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            // SAFETY: this thread's own vector, whose copy it has waited for.
            let words = unsafe { shared::load_u32x4(self.vector(place, i)) };
            set_vector::<T, _>(&mut x.regs, i, words);
            i += Self::STEP;
        }
        let [from, to] = part.inside;
        if from == 0 && to == N as u32 {
            x
        } else if RAGGED {
            x.fill_outside(&Rows::splat(from as i32), &Rows::splat(to as i32), self.outside)
        } else {
            x.fill_from(to, self.outside)
        }
    }
}

impl RowPart {
    /// Its number: the tile of columns that it is, of rows that are not ragged.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.number
    }
    /// The number of its first column. Of a ragged row up to 7 lie before the first one; theirs has wrapped.
    #[inline(always)]
    pub fn first(&self) -> u32 {
        self.first
    }
    /// The columns that are the row's, counted from the part's first: from the one to below the other.
    #[inline(always)]
    pub fn inside(&self) -> [u32; 2] {
        self.inside
    }

    /// Stores what lies inside of the row and of a tensor of the same shape. Ragged rows begin there as those that were read; the kernel
    /// traps at others.
    #[inline(always)]
    pub fn store<T: Element, L: FragmentLayout<1, N>, const N: usize>(
        &self,
        x: &Fragment<T, 1, N, L>,
        to: &mut GlobalMut<T, 3>,
    ) {
        let Some(own) = self.skew else {
            let [matrix, row, _] = self.row;
            x.store_rows(to.tile([matrix, row, self.number]));
            return;
        };
        let row = to.tile(self.row).0.window(1, N);
        if row.rows == 0 || row.cols == 0 {
            return;
        }
        if skew(row.pointer) != own || row.col_stride != 1 {
            trap();
        }
        let [from, to] = self.inside;
        // The tensor may have fewer columns.
        let end = (row.cols + own).saturating_sub(self.first.wrapping_add(own));
        let to = if to < end { to } else { end };
        let first = L::coord(thread_x(), 0).1;
        let line = row.pointer.wrapping_offset(self.first as i32 as isize);
        let step = const { VECTOR / T::BYTES };
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let col = first + L::offset(i).1;
            let at = line.wrapping_add(col as usize);
            let whole = col >= from && col + step as u32 <= to;
            // SAFETY: elements of the row, which nobody else has; whole vectors of it lie at multiples of 16 bytes.
            unsafe {
                global::st_global_u32x4_if(at.cast(), vector::<T, _>(&x.regs, i), whole);
                if !whole && col < to && col + step as u32 > from {
                    let mut e = 0;
                    while e < step {
                        let inside = col + e as u32 >= from && col + (e as u32) < to;
                        write_if(at.wrapping_add(e), x.regs.get(i + e), inside);
                        e += 1;
                    }
                }
            }
            i += step;
        }
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
