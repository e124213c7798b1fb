//! A row's elements from any column on, in vectors: the weights of rows that begin anywhere.

use crate::arch::global;
use crate::arch::special::{thread_x, trap};
use crate::layout::{Element, FragmentLayout, Registers, RowMajor};
use crate::tile::copy::rows::{VECTOR, in_vectors, set_vector};
use crate::tile::fragment::cols::Cols;
use crate::tile::memory::global::GlobalTile;

/// A row that is aligned to 16 bytes, of which columns are read from any one on: [`load`](Self::load).
#[derive(Clone, Copy)]
pub struct ColumnsFrom<T> {
    pointer: *const T,
    /// Elements in whole vectors.
    whole: u32,
    /// The vector behind them: the last elements, and `outside`.
    last: [u32; 4],
    outside: T,
    none: bool,
}

impl<T: Element> ColumnsFrom<T> {
    /// Elements of a vector.
    const STEP: u32 = (VECTOR / T::BYTES) as u32;

    /// Of the first row of a tile at its matrix's left. `outside` is what a row without elements has in all columns.
    ///
    /// The row is contiguous and aligned to 16 bytes: the kernel traps at others.
    #[inline(always)]
    pub fn new<const RANK: usize, const BOX: usize>(
        of: GlobalTile<T, RANK, RowMajor, BOX>,
        outside: T,
    ) -> Self {
        let row = of.window(1, 1);
        let cols = if row.rows > 0 { row.cols } else { 0 };
        if cols > 0 && (row.col_stride != 1 || !(row.pointer as usize).is_multiple_of(VECTOR)) {
            trap();
        }
        let whole = cols / Self::STEP * Self::STEP;
        let mut last = [0; 4];
        let mut e = 0;
        while e < Self::STEP {
            let bits = row.read(0, whole + e).bits();
            last[e as usize * T::BYTES / 4] |= bits << (e * T::BYTES as u32 * 8 % 32);
            e += 1;
        }
        ColumnsFrom { pointer: row.pointer, whole, last, outside, none: cols == 0 }
    }

    /// Those from column `first` on; for columns before the row's first it has wrapped. What a row that has elements has not is anything.
    ///
    /// Read in vectors of 16 bytes, two for each of this thread's, wherever the first column lies. The layout's runs are whole vectors.
    #[inline(always)]
    pub fn load<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        &self,
        first: u32,
    ) -> Cols<T, M, N, L> {
        const { assert!(in_vectors::<T>(L::RUN), "a thread reads vectors of 16 bytes") };
        let mut cols = Cols::splat(self.outside);
        if self.none {
            return cols;
        }
        let skew = first % Self::STEP;
        let first = (first - skew).wrapping_add(L::coord(thread_x(), 0).1);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            if L::row(i) == L::row(0) {
                let col = first.wrapping_add(L::offset(i).1);
                let (low, high) = (self.vector(col), self.vector(col.wrapping_add(Self::STEP)));
                set_vector(&mut cols.regs, L::col(i), shifted(low, high, skew * T::BYTES as u32));
            }
            i += const { VECTOR / T::BYTES };
        }
        cols
    }

    /// The vector that begins at a column that is a multiple of its elements.
    #[inline(always)]
    fn vector(&self, col: u32) -> [u32; 4] {
        let mut words = self.last;
        let at = self.pointer.wrapping_offset(col as i32 as isize) as u64;
        // SAFETY: a whole vector of the row, which is aligned.
        unsafe { global::replace_cached_u32x4(&mut words, 0, at, col < self.whole) };
        words
    }
}

/// The 16 bytes that begin so many behind the first of 32.
#[inline(always)]
fn shifted(low: [u32; 4], high: [u32; 4], bytes: u32) -> [u32; 4] {
    let ([a, b, c, d], [e, f, g, h]) = (low, high);
    let [a, b, c, d, e, f] = if bytes & 8 != 0 { [c, d, e, f, g, h] } else { [a, b, c, d, e, f] };
    let [a, b, c, d, e] = if bytes & 4 != 0 { [b, c, d, e, f] } else { [a, b, c, d, e] };
    let half = |low: u32, high: u32| ((u64::from(high) << 32 | u64::from(low)) >> (bytes % 4 * 8)) as u32;
    [half(a, b), half(b, c), half(c, d), half(d, e)]
}
