//! Rows of a length that is known at run time: between tensors and fragments, in accesses none of which waits for another.

use crate::arch::global;
use crate::arch::special::{thread_x, trap};
use crate::layout::{Element, FragmentLayout, Registers, RowMajor};
use crate::tile::fragment::cols::Cols;
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::global::Global;
use crate::tile::memory::global_tile::{GlobalTile, GlobalTileMut};
use crate::tile::memory::row_tiles::RowTile;
use crate::tile::memory::window::Window;

/// Bytes of a vector.
pub(in crate::tile) const VECTOR: usize = 16;

/// Whether a layout's runs are whole vectors.
pub(in crate::tile) const fn in_vectors<T: Element>(run: usize) -> bool {
    (run * T::BYTES).is_multiple_of(VECTOR)
}

/// Elements between the last multiple of 16 bytes before an element and itself.
#[inline(always)]
pub(in crate::tile) fn skew<T: Element>(element: *mut T) -> u32 {
    (element as u64 % VECTOR as u64) as u32 / T::BYTES as u32
}

impl<T: Element, const RANK: usize, const BOX: usize> Global<T, RANK, RowMajor, BOX> {
    /// Whether its rows are whole vectors of 16 bytes and begin at multiples of that: what [`Fragment::load_rows`] and [`Fragment::store_rows`] take where
    /// layouts are of vectors.
    #[inline(always)]
    pub fn has_vectors(&self) -> bool {
        let ragged = !(self.shape[RANK - 1] as usize).is_multiple_of(VECTOR / T::BYTES);
        !(ragged || (self.align as usize) < VECTOR)
    }
}

impl<T: Element, const RANK: usize, const BOX: usize> GlobalTile<T, RANK, RowMajor, BOX> {
    /// The part of the tile from this thread's first element on; traps where vectors are wanted and cannot be had.
    #[inline(always)]
    pub(in crate::tile) fn rows_from<const M: usize, const N: usize>(
        &self,
        (row, col): (u32, u32),
        run: usize,
    ) -> Window<T> {
        if in_vectors::<T>(run) && !self.of.has_vectors() {
            trap();
        }
        self.window(M, N).from(row, col)
    }
}

/// The vector of elements from the `first`-th register on.
#[inline(always)]
pub(in crate::tile) fn vector<T: Element, R: Registers<T>>(regs: &R, first: usize) -> [u32; 4] {
    // SAFETY: the registers are elements one after the other, and the vector's are among them; elements are plain bits.
    unsafe { (&raw const *regs).cast::<T>().add(first).cast::<[u32; 4]>().read_unaligned() }
}

#[inline(always)]
pub(in crate::tile) fn set_vector<T: Element, R: Registers<T>>(regs: &mut R, first: usize, words: [u32; 4]) {
    // SAFETY: as in `vector`.
    unsafe { (&raw mut *regs).cast::<T>().add(first).cast::<[u32; 4]>().write_unaligned(words) }
}

/// Reads the elements at these offsets into registers from `at` on, unless they lie outside.
#[inline(always)]
fn read<T: Element, R: Registers<T>>(
    window: &Window<T>,
    (row, col): (u32, u32),
    (regs, at): (&mut R, usize),
    run: usize,
) {
    let inside = row < window.rows && col < window.cols;
    if in_vectors::<T>(run) {
        let (mut words, from) =
            (vector::<T, R>(regs, at), window.at(row, 0).wrapping_add(col as usize) as u64);
        // Cached, though it is read once: `L1::no_allocate` makes kernels that write as much 4 to 12 % slower on an H200.
        // SAFETY: rows are aligned and whole vectors long, so that one that begins inside ends inside.
        unsafe { global::replace_cached_u32x4(&mut words, 0, from, inside) };
        set_vector::<T, R>(regs, at, words);
    } else {
        let x = window.read(row, col);
        if inside {
            regs.set(at, x);
        }
    }
}

/// Stores the registers from `at` on to the elements at these offsets, unless they lie outside.
#[inline(always)]
fn write<T: Element, R: Registers<T>>(
    window: &Window<T>,
    (row, col): (u32, u32),
    (regs, at): (&R, usize),
    run: usize,
) {
    if in_vectors::<T>(run) {
        let to = window.at(row, 0).wrapping_add(col as usize);
        let inside = row < window.rows && col < window.cols;
        // SAFETY: as in `read`; nobody else has these elements.
        unsafe { global::st_global_u32x4_if(to.cast(), vector::<T, R>(regs, at), inside) };
    } else {
        window.write(row, col, regs.get(at));
    }
}

/// Elements of one access.
const fn step<T: Element>(run: usize) -> usize {
    if in_vectors::<T>(run) { VECTOR / T::BYTES } else { 1 }
}

impl<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// The tile, with `outside` in place of what lies outside of its tensor.
    ///
    /// Where the layout's runs are multiples of 16 bytes it reads vectors of 16, and takes tensors whose rows are aligned to that and
    /// whole vectors long: the kernel traps at others. Where they are not, it reads element by element, any strides and lengths; with
    /// runs of 1 neighbouring threads read neighbouring elements. [`load`](Self::load) takes anything with any layout, and zeros.
    #[inline(always)]
    pub fn load_rows<const RANK: usize, const BOX: usize>(
        from: GlobalTile<T, RANK, RowMajor, BOX>,
        outside: T,
    ) -> Self {
        let window = from.rows_from::<M, N>(L::coord(thread_x(), 0), L::RUN);
        let mut x = Self::splat(outside);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            read(&window, L::offset(i), (&mut x.regs, i), L::RUN);
            i += const { step::<T>(L::RUN) };
        }
        x
    }

    /// Stores what lies inside of the tensor, in the same accesses as [`load_rows`](Self::load_rows) reads it.
    #[inline(always)]
    pub fn store_rows<const RANK: usize, const BOX: usize>(&self, to: GlobalTileMut<T, RANK, RowMajor, BOX>) {
        let window = to.0.rows_from::<M, N>(L::coord(thread_x(), 0), L::RUN);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            write(&window, L::offset(i), (&self.regs, i), L::RUN);
            i += const { step::<T>(L::RUN) };
        }
    }
}

impl<X: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<X, M, N, L> {
    /// Stores `f(element, its row's value, its column's values)`, rounded, where that lies inside of the tensor, in the accesses of
    /// [`store_rows`](Self::store_rows).
    ///
    /// The values of columns are the first rows of `cols`, or `outside` where a tensor has no such column. They are loaded access by
    /// access, one ahead, so that registers hold few of them at a time.
    #[inline(always)]
    pub fn store_rows_with_cols<T: Element, U: Copy, const K: usize, const RANK: usize, const BOX: usize>(
        &self,
        to: GlobalTileMut<T, RANK, RowMajor, BOX>,
        rows: &Rows<U, M, N, L>,
        (cols, outside): ([GlobalTile<T, RANK, RowMajor, BOX>; K], [T; K]),
        f: impl Fn(f32, U, [T; K]) -> f32,
    ) {
        let start = L::coord(thread_x(), 0);
        let window = to.0.rows_from::<M, N>(start, L::RUN);
        let cols = cols.map(|from| from.rows_from::<1, N>((0, start.1), L::RUN));
        let load = |i: usize| {
            let (mut values, mut k) = (outside.map(L::Regs::<T>::splat), 0);
            while k < K {
                read(&cols[k], (0, L::offset(i).1), (&mut values[k], i), L::RUN);
                k += 1;
            }
            values
        };
        let mut results = L::Regs::<T>::splat(T::ZERO);
        let (mut ahead, mut i) = (load(0), 0);
        while i < L::Regs::<T>::LEN {
            let (values, next) = (ahead, i + const { step::<T>(L::RUN) });
            if next < L::Regs::<T>::LEN {
                ahead = load(next);
            }
            let result = |j: usize| {
                f(
                    self.regs.get(j).to_f32(),
                    rows.regs.get(L::row(j)),
                    core::array::from_fn(|k| values[k].get(j)),
                )
            };
            let step = const { step::<T>(L::RUN) };
            // Rounded in pairs, as one instruction does.
            let mut j = i;
            while j < i + step {
                let [low, high] = T::from_f32x2(result(j), if step > 1 { result(j + 1) } else { 0.0 });
                results.set(j, low);
                if step > 1 {
                    results.set(j + 1, high);
                }
                j += 2;
            }
            write(&window, L::offset(i), (&results, i), L::RUN);
            i += step;
        }
    }
}

impl<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Cols<T, M, N, L> {
    /// The first row of a tile with `N` columns: each column's element, or `outside` where the tensor has no such column; in the same
    /// accesses as [`Fragment::load_rows`].
    #[inline(always)]
    pub fn load<const RANK: usize, const BOX: usize>(
        from: GlobalTile<T, RANK, RowMajor, BOX>,
        outside: T,
    ) -> Self {
        let col = L::coord(thread_x(), 0).1;
        let window = from.rows_from::<1, N>((0, col), L::RUN);
        let mut cols = Self::splat(outside);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            if L::row(i) == L::row(0) {
                let to = (&mut cols.regs, L::col(i));
                read(&window, (0, L::offset(i).1), to, L::RUN);
            }
            i += const { step::<T>(L::RUN) };
        }
        cols
    }
}

impl<T: Element, const BOX: usize> Global<T, 3, RowMajor, BOX> {
    /// Folds the rows of a tile from left to right, `N` columns at a time: rows of any length.
    ///
    /// `each(folded, part, number)` gets the parts as [`Fragment::load_rows`] reads them, and their numbers: tiles of columns.
    #[inline(always)]
    pub fn fold_row_parts<const M: usize, const N: usize, L: FragmentLayout<M, N>, A>(
        self,
        tile: RowTile,
        outside: T,
        init: A,
        mut each: impl FnMut(A, Fragment<T, M, N, L>, u32) -> A,
    ) -> A {
        let (mut folded, mut part) = (init, 0);
        while part < self.cols().div_ceil(N as u32) {
            folded = each(folded, Fragment::load_rows(self.tile(tile.at(part)), outside), part);
            part += 1;
        }
        folded
    }
}
