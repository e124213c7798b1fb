//! A part of a row that lies in shared memory: which columns it has, and where its results go.

use crate::arch::global;
use crate::arch::special::{thread_x, trap};
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::copy::rows::{VECTOR, skew, vector};
use crate::tile::fragment::Fragment;
use crate::tile::memory::global::GlobalMut;
use crate::tile::memory::window::write_if;

/// A part of a row: `N` columns of it, of which the first and the last ones of a row may be outside.
#[derive(Clone, Copy)]
pub struct RowPart {
    pub(super) number: u32,
    pub(super) first: u32,
    pub(super) inside: [u32; 2],
    pub(super) row: [u32; 3],
    pub(super) ragged: bool,
}

impl RowPart {
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

    /// Stores what lies inside of the row and of the tensor that has `to`.
    #[inline(always)]
    pub fn store<T: Element, L: FragmentLayout<1, N>, const N: usize>(
        &self,
        x: &Fragment<T, 1, N, L>,
        to: &mut RowMut<T>,
    ) {
        let first = L::coord(thread_x(), 0).1;
        let line = to.line.wrapping_offset((self.first as i32).wrapping_add(first as i32) as isize);
        let step = const { VECTOR / T::BYTES };
        let mut i = 0;
        if !self.ragged {
            let left = to.cols.saturating_sub(self.first + first);
            while i < L::Regs::<T>::LEN {
                let col = L::offset(i).1;
                // SAFETY: elements of the row, which nobody else has: rows are aligned and whole vectors long.
                unsafe {
                    let at = line.wrapping_add(col as usize);
                    global::st_global_u32x4_if(at.cast(), vector::<T, _>(&x.regs, i), col < left);
                }
                i += step;
            }
            return;
        }
        if to.cols == 0 {
            return;
        }
        let [from, until] = self.inside;
        // The tensor may have fewer columns.
        let end = (to.cols + to.skew).saturating_sub(self.first.wrapping_add(to.skew));
        let until = if until < end { until } else { end };
        while i < L::Regs::<T>::LEN {
            let (offset, at) = (L::offset(i).1, line.wrapping_add(L::offset(i).1 as usize));
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
            i += step;
        }
    }
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
    pub(super) fn of(to: &mut GlobalMut<T, 3>, at: [u32; 3], ragged: Option<u32>) -> Self {
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
