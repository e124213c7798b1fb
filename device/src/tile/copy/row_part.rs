//! A part of a row that may begin anywhere: which columns it has, how it is read, and where its results go.

use crate::arch::global;
use crate::arch::special::{thread_x, trap};
use crate::layout::{Element, FragmentLayout, Registers, RowMajor};
use crate::tile::copy::rows::{VECTOR, in_vectors, set_vector, skew, vector};
use crate::tile::fragment::Fragment;
use crate::tile::memory::global::{Global, GlobalMut};
use crate::tile::memory::row_tiles::RowTile;
use crate::tile::memory::window::{read_if, write_if};

/// A part of a row: `N` columns of it, of which the first and the last ones of a row may be outside.
#[derive(Clone, Copy)]
pub struct RowPart {
    pub(super) number: u32,
    pub(super) first: u32,
    pub(super) inside: [u32; 2],
    pub(super) row: [u32; 3],
    pub(super) ragged: bool,
}

/// Whether a tensor begins at a multiple of 16 bytes, and there is nothing between its rows.
#[inline(always)]
pub(super) fn is_contiguous<T: Element>(x: &Global<T, 3, RowMajor, 0>) -> bool {
    let [batch, rows, cols] = x.shape();
    let [by_matrix, by_row, by_column] = x.strides();
    (x.pointer() as u64).is_multiple_of(VECTOR as u64)
        && by_column == 1
        && (by_row == cols as u64 || rows <= 1)
        && (by_matrix == rows as u64 * cols as u64 || batch <= 1)
}

impl<T: Element> Global<T, 3, RowMajor, 0> {
    /// Part `number` of this thread's row of a tile of `M` rows: `N` columns, counted from the multiple of 16 bytes before the row's first on.
    ///
    /// For layouts of which a thread has one row, and contiguous tensors that are aligned to 16 bytes: the kernel traps at others.
    #[inline(always)]
    pub fn ragged_part<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        tile: RowTile,
        number: u32,
    ) -> RowPart {
        const { assert!(L::Rows::<u32>::LEN == 1, "a thread has one row: use Spread") };
        if !is_contiguous(self) {
            trap();
        }
        let [matrix, rows, _] = tile.at(0);
        let place = [matrix, rows * M as u32 + L::coord(thread_x(), 0).0, 0];
        let row = self.tile(place).window(1, 1);
        let cols = if row.rows > 0 { row.cols } else { 0 };
        RowPart::of::<N>(number, (cols, skew(row.pointer)), place, true)
    }
}

impl RowPart {
    /// Part `number` of `N` columns of a row of `cols` columns, which begins `skew` elements behind a multiple of 16 bytes.
    #[inline(always)]
    pub(super) fn of<const N: usize>(
        number: u32,
        (cols, skew): (u32, u32),
        row: [u32; 3],
        ragged: bool,
    ) -> Self {
        let before = number * N as u32;
        let to = if cols > 0 { (cols + skew).saturating_sub(before) } else { 0 };
        RowPart {
            number,
            first: before.wrapping_sub(skew),
            inside: [skew.saturating_sub(before), if to < N as u32 { to } else { N as u32 }],
            row,
            ragged,
        }
    }

    /// Its number: the tile of columns that it is, of rows that are not ragged.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.number
    }
    /// Where it lies in a tensor of the same shape: a tile of one row, of rows that are not ragged.
    #[inline(always)]
    pub fn tile(&self) -> [u32; 3] {
        let [matrix, row, _] = self.row;
        [matrix, row, self.number]
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

    /// The part of a [ragged](Global::ragged_part) row of `from`, with `outside` in place of what is not the row's.
    ///
    /// In whole vectors, which hold the ends of the rows before and behind too; nothing behind the tensor is read.
    #[inline(always)]
    pub fn load<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        from: &Global<T, 3, RowMajor, 0>,
        outside: T,
    ) -> Fragment<T, M, N, L> {
        const { assert!(in_vectors::<T>(L::RUN), "a thread reads vectors of 16 bytes") };
        let (first, step, [begin, end]) =
            (L::coord(thread_x(), 0).1, const { VECTOR / T::BYTES }, self.inside);
        let [matrix, row, _] = self.row;
        let line = from.tile(self.row).window(1, 1).pointer;
        let line = line.wrapping_offset((self.first as i32).wrapping_add(first as i32) as isize);
        // The vector that the tensor's end cuts: fewer elements come behind the row than it has.
        let [batch, rows, cols] = from.shape();
        let rows_behind = u64::from(batch - 1 - matrix) * u64::from(rows) + u64::from(rows - 1 - row);
        let over = end % step as u32;
        let is_cut = over > 0 && rows_behind * u64::from(cols) < u64::from(step as u32 - over);
        let cut = if is_cut { end - over } else { N as u32 };
        let mut tail = [0; 4];
        if cut < end {
            let mut e = 0;
            while e < step {
                let (at, inside) = (cut + e as u32, cut + (e as u32) < end && cut + e as u32 >= begin);
                // SAFETY: an element of the row.
                let bits =
                    unsafe { read_if(line.wrapping_offset(at.wrapping_sub(first) as i32 as isize), inside) };
                tail[e * T::BYTES / 4] |= bits << (e * T::BYTES * 8 % 32);
                e += 1;
            }
        }
        let mut x = Fragment::splat(outside);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (offset, mut words) = (L::offset(i).1, vector::<T, _>(&x.regs, i));
            let col = first + offset;
            let at = line.wrapping_add(offset as usize) as u64;
            // SAFETY: a whole vector of the tensor, which is aligned.
            unsafe {
                global::replace_cached_u32x4(
                    &mut words,
                    0,
                    at,
                    col < end && col + step as u32 > begin && col != cut,
                );
            }
            set_vector::<T, _>(&mut x.regs, i, words);
            i += step;
        }
        // Behind all loads, since branches wait for them. Only the first and the last vectors of rows are cut: most warps pass by.
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let col = first + L::offset(i).1;
            if col < begin || (col < end && col + step as u32 > end) {
                let words = if col == cut && cut < end { tail } else { vector::<T, _>(&x.regs, i) };
                set_vector::<T, _>(&mut x.regs, i, only_inside::<T>(words, col, self.inside, outside));
            }
            i += step;
        }
        x
    }

    /// Folds what this thread has of the part's inside, from left to right.
    #[inline(always)]
    pub fn fold<U: Copy, A: Copy, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        x: &Fragment<U, M, N, L>,
        init: A,
        f: impl Fn(A, U) -> A,
    ) -> A {
        let (first, run, [begin, end]) = (L::coord(thread_x(), 0).1, L::RUN, self.inside);
        let (mut all, mut i) = (init, 0);
        while i < L::Regs::<U>::LEN {
            let col = first + L::offset(i).1;
            if col >= begin && col + run as u32 <= end {
                let mut e = 0;
                while e < run {
                    all = f(all, x.regs.get(i + e));
                    e += 1;
                }
            } else {
                let mut e = 0;
                while e < run {
                    if col + e as u32 >= begin && col + (e as u32) < end {
                        all = f(all, x.regs.get(i + e));
                    }
                    e += 1;
                }
            }
            i += run;
        }
        all
    }

    /// Stores what lies inside of the row and of the tensor that has `to`.
    #[inline(always)]
    pub fn store<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        x: &Fragment<T, M, N, L>,
        to: &mut RowMut<T>,
    ) {
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            self.store_vector(x, i, to);
            i += const { VECTOR / T::BYTES };
        }
    }

    /// Of it the vector of elements from the `i`-th register on.
    #[inline(always)]
    pub(super) fn store_vector<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        x: &Fragment<T, M, N, L>,
        i: usize,
        to: &mut RowMut<T>,
    ) {
        let first = L::coord(thread_x(), 0).1;
        let line = to.line.wrapping_offset((self.first as i32).wrapping_add(first as i32) as isize);
        let (step, offset) = (const { VECTOR / T::BYTES }, L::offset(i).1);
        let at = line.wrapping_add(offset as usize);
        if !self.ragged {
            let left = to.cols.saturating_sub(self.first + first);
            // SAFETY: elements of the row, which nobody else has: rows are aligned and whole vectors long.
            unsafe { global::st_global_u32x4_if(at.cast(), vector::<T, _>(&x.regs, i), offset < left) };
            return;
        }
        let [from, until] = self.inside;
        // The tensor may have fewer columns.
        let end = (to.cols + to.skew).saturating_sub(self.first.wrapping_add(to.skew));
        let until = if to.cols == 0 { 0 } else { until.min(end) };
        let col = first + offset;
        let whole = col >= from && col + step as u32 <= until;
        // SAFETY: elements of the row, which nobody else has; whole vectors of it lie at multiples of 16 bytes.
        unsafe {
            global::st_global_u32x4_if(at.cast(), vector::<T, _>(&x.regs, i), whole);
            if !whole && col < until && col + step as u32 > from {
                let mut e = 0;
                while e < step {
                    let inside = col + e as u32 >= from && col + (e as u32) < until;
                    write_if(at.wrapping_add(e), x.regs.get(i + e), inside);
                    e += 1;
                }
            }
        }
    }

    /// The row of a tensor of the same shape, for results. It begins there as the one that was read; the kernel traps at others.
    #[inline(always)]
    pub fn row_of<T: Element>(&self, to: &mut GlobalMut<T, 3, RowMajor, 0>) -> RowMut<T> {
        let skew = self.first.wrapping_neg() % const { (VECTOR / T::BYTES) as u32 };
        RowMut::of(to, self.row, self.ragged.then_some(skew))
    }
}

/// A vector whose first element is column `col`, with `outside` in place of what is not from the one column to below the other.
#[inline(always)]
fn only_inside<T: Element>(mut words: [u32; 4], col: u32, [from, to]: [u32; 2], outside: T) -> [u32; 4] {
    let mut e = 0;
    while e < const { VECTOR / T::BYTES } as u32 {
        let (word, shift) = ((e as usize * T::BYTES) / 4, e * T::BYTES as u32 * 8 % 32);
        let bits = if T::BYTES == 2 { 0xffff << shift } else { u32::MAX };
        if col + e < from || col + e >= to {
            words[word] = words[word] & !bits | outside.bits() << shift;
        }
        e += 1;
    }
    words
}

/// A row of a tensor, to which results of another tensor's row of the same length go, part by part.
pub struct RowMut<T> {
    line: *mut T,
    /// None if the tensor has no such row.
    cols: u32,
    /// Of ragged rows, the elements between the last multiple of 16 bytes before the row and its first.
    skew: u32,
}

impl<T: Element> RowMut<T> {
    /// Row `at` of a tensor. Ragged rows begin as those that were read, others at multiples of 16 bytes, and are whole vectors long; the kernel traps
    /// where they do not.
    #[inline(always)]
    pub(super) fn of(to: &mut GlobalMut<T, 3, RowMajor, 0>, at: [u32; 3], ragged: Option<u32>) -> Self {
        let tile = to.tile(at);
        let row =
            if ragged.is_some() { tile.0.window(1, 1) } else { tile.0.rows_from::<1, 1>((0, 0), VECTOR) };
        let cols = if row.rows == 0 { 0 } else { tile.0.of.shape[2] };
        if cols > 0 && ragged.is_some_and(|own| skew(row.pointer) != own || row.col_stride != 1) {
            trap();
        }
        RowMut { line: row.pointer, cols, skew: ragged.unwrap_or(0) }
    }
}
