//! A row's elements from any column on, in vectors: the weights of rows that begin anywhere.

use crate::arch::global;
use crate::arch::special::{thread_x, trap};
use crate::layout::{Element, FragmentLayout, Registers, RowMajor};
use crate::tile::copy::row_part::{RowMut, RowPart};
use crate::tile::copy::rows::{VECTOR, in_vectors, set_vector};
use crate::tile::fragment::Fragment;
use crate::tile::fragment::cols::Cols;
use crate::tile::memory::global_tile::GlobalTile;

/// A row that is aligned to 16 bytes, of which columns are read from any one on: [`load`](Self::load).
#[derive(Clone, Copy)]
pub struct ColumnsFrom<T> {
    pointer: *const T,
    /// Elements in whole vectors.
    whole: u32,
    /// The vector behind them: the last elements.
    last: [u32; 4],
    /// What a row without elements has in all columns.
    outside: Option<T>,
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
        Self::reading(of, outside, |_| true)
    }

    /// As [`new`](Self::new), to be read for what this thread has of one part of a row.
    #[inline(always)]
    pub fn for_part<
        L: FragmentLayout<M, N>,
        const M: usize,
        const N: usize,
        const RANK: usize,
        const BOX: usize,
    >(
        of: GlobalTile<T, RANK, RowMajor, BOX>,
        outside: T,
        part: &RowPart,
    ) -> Self {
        Self::reading(of, outside, |whole| {
            // Each vector of the part is made of two of the row's.
            let second = whole.wrapping_sub(part.first() - part.first() % Self::STEP);
            let row = L::coord(thread_x(), 0).0;
            let reads = |col: u32| col < N as u32 && L::owner(row, col).0 == thread_x();
            reads(second) || reads(second.wrapping_sub(Self::STEP))
        })
    }

    /// `reads_last` says of the number of elements in whole vectors whether this thread reads what is behind them.
    #[inline(always)]
    fn reading<const RANK: usize, const BOX: usize>(
        of: GlobalTile<T, RANK, RowMajor, BOX>,
        outside: T,
        reads_last: impl Fn(u32) -> bool,
    ) -> Self {
        let row = of.window(1, 1);
        let cols = if row.rows > 0 { row.cols } else { 0 };
        if cols > 0 && (row.col_stride != 1 || !(row.pointer as usize).is_multiple_of(VECTOR)) {
            trap();
        }
        let whole = cols / Self::STEP * Self::STEP;
        let mut last = [0; 4];
        if whole < cols && reads_last(whole) {
            let mut e = 0;
            while e < Self::STEP {
                let bits = row.read(0, whole + e).bits();
                last[e as usize * T::BYTES / 4] |= bits << (e * T::BYTES as u32 * 8 % 32);
                e += 1;
            }
        }
        ColumnsFrom { pointer: row.pointer, whole, last, outside: (cols == 0).then_some(outside) }
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
        let mut cols = Cols::splat(T::ZERO);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            if L::row(i) == L::row(0) {
                let words = self.vector_from(first.wrapping_add(L::coord(thread_x(), i).1));
                set_vector(&mut cols.regs, L::col(i), words);
            }
            i += const { VECTOR / T::BYTES };
        }
        cols
    }

    /// A vector of those from any column on.
    #[inline(always)]
    pub(super) fn vector_from(&self, col: u32) -> [u32; 4] {
        if let Some(outside) = self.outside {
            return [outside.bits() * if T::BYTES == 2 { 0x1_0001 } else { 1 }; 4];
        }
        let skew = col % Self::STEP;
        let (low, high) = (self.vector(col - skew), self.vector((col - skew).wrapping_add(Self::STEP)));
        shifted(low, high, skew * T::BYTES as u32)
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

impl RowPart {
    /// Stores `f(element, its column's values)`, rounded, as [`store`](Self::store). The values of columns are read access by access.
    #[inline(always)]
    pub fn store_with_cols<
        U: Element,
        T: Element,
        L: FragmentLayout<M, N>,
        const M: usize,
        const N: usize,
        const K: usize,
    >(
        &self,
        x: &Fragment<U, M, N, L>,
        to: &mut RowMut<T>,
        cols: &[ColumnsFrom<T>; K],
        f: impl Fn(f32, [T; K]) -> f32,
    ) {
        const { assert!(in_vectors::<T>(L::RUN), "a thread reads vectors of 16 bytes") };
        let (step, mut results) = (const { VECTOR / T::BYTES }, Fragment::<T, M, N, L>::splat(T::ZERO));
        let load = |i: usize| {
            let (mut values, mut k) = ([L::Regs::<T>::splat(T::ZERO); K], 0);
            while k < K {
                set_vector::<T, _>(
                    &mut values[k],
                    i,
                    cols[k].vector_from(self.first.wrapping_add(L::coord(thread_x(), i).1)),
                );
                k += 1;
            }
            values
        };
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            // Not ahead: with fewer registers an SM holds more CTAs.
            let values = load(i);
            let result = |j: usize| f(x.regs.get(j).to_f32(), core::array::from_fn(|k| values[k].get(j)));
            let mut j = i;
            while j < i + step {
                let [low, high] = T::from_f32x2(result(j), result(j + 1));
                results.regs.set(j, low);
                results.regs.set(j + 1, high);
                j += 2;
            }
            self.store_vector(&results, i, to);
            i += step;
        }
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
