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
    /// Elements between the last multiple of 16 bytes before the row and its first; none where no row is ragged.
    pub(super) skew: Option<u32>,
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

    /// Stores what lies inside of the row and of a tensor of the same shape. Ragged rows begin there as those that were read; the kernel
    /// traps at others.
    #[inline(always)]
    pub fn store<T: Element, L: FragmentLayout<1, N>, const N: usize>(
        &self,
        x: &Fragment<T, 1, N, L>,
        to: &mut GlobalMut<T, 3>,
    ) {
        let Some(own) = self.skew else {
            x.store_rows(to.tile(self.tile()));
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
