//! Tiles in the registers of a CTA's threads.

use core::marker::PhantomData;

use crate::arch::special::{thread_x, trap};
use crate::arch::warp;
use crate::layout::element::{pack, unpack};
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::fragment::held::{Held, Packed};

pub mod anew;
pub mod arithmetic;
pub mod bytes;
pub mod col_reducer;
pub mod col_scanner;
pub mod cols;
pub mod cut;
pub mod each;
pub mod held;
pub mod mask;
pub mod neighbours;
pub mod parking;
pub(in crate::tile) mod passed;
pub mod reduce;
pub mod row_reducer;
pub mod row_scanner;
pub mod row_scratch;
pub mod row_vector;
pub mod scan;
pub mod step_rows;
pub mod transposed;

/// `for i in 0..n`, as a loop that unrolls before arrays are broken up into registers.
macro_rules! unrolled {
    ($i:ident in $n:expr => $body:block) => {
        let mut $i = 0;
        while $i < $n {
            $body
            $i += 1;
        }
    };
}

/// An `M` x `N` tile in registers, laid out over threads by `L`. Leave `L` as `_`: it follows from the gemm.
#[derive(Clone, Copy)]
pub struct Fragment<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> {
    /// This thread's elements: where each lies in the tile, [`FragmentLayout::coord`] says.
    pub regs: L::Regs<T>,
}

/// An `M` x `N` fragment of 16-bit elements packed as the tensor cores take it: a left operand that waits for its gemm.
#[derive(Clone, Copy)]
pub struct Operand<T, const M: usize, const N: usize, L: FragmentLayout<M, N>> {
    /// This thread's elements, in the order of a fragment's.
    pub regs: Packed<L::Regs<[u32; 4]>>,
    element: PhantomData<T>,
}

/// One value for each row of an `M` x `N` fragment, held by the threads that hold the row.
#[derive(Clone, Copy)]
pub struct Rows<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> {
    /// The values of this thread's rows, in the order of [`FragmentLayout::row`].
    pub regs: L::Rows<T>,
}

impl<T, const M: usize, const N: usize, L: FragmentLayout<M, N>> Operand<T, M, N, L> {
    /// An operand of these registers.
    #[inline(always)]
    pub fn new(regs: Packed<L::Regs<[u32; 4]>>) -> Self {
        Operand { regs, element: PhantomData }
    }
    /// The elements, as a fragment.
    #[inline(always)]
    pub fn unpacked(&self) -> Fragment<T, M, N, L>
    where
        T: Element,
    {
        let mut out = Fragment::<T, M, N, L>::splat(T::ZERO);
        unrolled!(i in L::Regs::<T>::LEN / 2 => {
            let [low, high] = unpack::<T>(self.regs.0.get(i / 4)[i % 4]);
            out.regs.set(2 * i, low);
            out.regs.set(2 * i + 1, high);
        });
        out
    }
    /// Passes the registers through empty instructions: they are computed before what follows.
    #[inline(always)]
    pub fn touch(&mut self) {
        // SAFETY: no gemm has read them yet.
        unsafe { self.regs.keep() }
    }
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<f32, M, N, L> {
    /// All zeros: where an accumulation begins.
    #[inline(always)]
    pub fn zero() -> Self {
        Self::splat(0.0)
    }

    /// Adds `factors` times `other`, row by row.
    #[inline(always)]
    pub fn add_scaled(self, other: &Self, factors: &Rows<f32, M, N, L>) -> Self {
        self.add_scaled_block(0, other, factors)
    }

    /// Adds `factors` times `other`, row by row, to the `block`-th block of `R` rows: to what the `block`-th part of each thread's
    /// registers holds.
    #[inline(always)]
    pub fn add_scaled_block<const R: usize, B: FragmentLayout<R, N>>(
        mut self,
        block: usize,
        other: &Fragment<f32, R, N, B>,
        factors: &Rows<f32, R, N, B>,
    ) -> Self {
        const { assert!(L::Regs::<f32>::LEN * R == B::Regs::<f32>::LEN * M, "as many threads hold a block") };
        unrolled!(i in B::Regs::<f32>::LEN => {
            let (at, factor) = (block * B::Regs::<f32>::LEN + i, factors.regs.get(B::row(i)));
            self.regs.set(at, self.regs.get(at) + factor * other.regs.get(i));
        });
        self
    }

    /// Every value rounded to `U`, to nearest even.
    #[inline(always)]
    pub fn cast<U: Element>(self) -> Fragment<U, M, N, L> {
        let mut out = Fragment::<U, M, N, L>::splat(U::ZERO);
        unrolled!(pair in L::Regs::<f32>::LEN / 2 => {
            let [lo, hi] = U::from_f32x2(self.regs.get(2 * pair), self.regs.get(2 * pair + 1));
            out.regs.set(2 * pair, lo);
            out.regs.set(2 * pair + 1, hi);
        });
        out
    }
}

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// The fragment as a left operand, in half as many registers: for one that a loop carries.
    #[inline(always)]
    pub fn operand(self) -> Operand<T, M, N, L>
    where
        T: Element,
    {
        let mut packed = Packed::<L::Regs<[u32; 4]>>::none();
        unrolled!(i in L::Regs::<T>::LEN / 8 => {
            let at = |j: usize| pack([self.regs.get(i * 8 + j), self.regs.get(i * 8 + j + 1)]);
            packed.0.set(i, [at(0), at(2), at(4), at(6)]);
        });
        Operand { regs: packed, element: PhantomData }
    }
    /// Every element as `f32`, exact: by one instruction for an element of 16 bits or for two.
    #[inline(always)]
    pub fn to_f32(self) -> Fragment<f32, M, N, L>
    where
        T: Element,
    {
        self.map(T::to_f32)
    }
    /// Every element `x`.
    #[inline(always)]
    pub fn splat(x: T) -> Self {
        Fragment { regs: L::Regs::splat(x) }
    }
    /// Makes every element `x`.
    #[inline(always)]
    pub fn fill(&mut self, x: T) {
        *self = Self::splat(x)
    }
    /// `f` of every element.
    #[inline(always)]
    pub fn map<U: Copy>(self, f: impl Fn(T) -> U) -> Fragment<U, M, N, L> {
        let mut out = Fragment::<U, M, N, L>::splat(f(self.regs.get(0)));
        unrolled!(i in L::Regs::<T>::LEN => {
            out.regs.set(i, f(self.regs.get(i)));
        });
        out
    }
    /// `f(row, column, element)` of every element, the place counted from the tile's corner.
    #[inline(always)]
    pub fn map_indexed<U: Copy>(self, f: impl Fn(u32, u32, T) -> U) -> Fragment<U, M, N, L> {
        let thread = thread_x();
        let (row, col) = L::coord(thread, 0);
        let mut out = Fragment::<U, M, N, L>::splat(f(row, col, self.regs.get(0)));
        unrolled!(i in L::Regs::<T>::LEN => {
            let (row, col) = L::coord(thread, i);
            out.regs.set(i, f(row, col, self.regs.get(i)));
        });
        out
    }
    /// `x` in place of the elements in columns before `from` or from `to` on, of their row.
    ///
    /// A bit for each of a row's elements says whether it stays: half the instructions of comparing each one's column.
    #[inline(always)]
    pub fn fill_outside(mut self, from: &Rows<i32, M, N, L>, to: &Rows<i32, M, N, L>, x: T) -> Self {
        let first = L::coord(thread_x(), 0).1 as i32;
        // Of a row a thread has runs of columns, with those of the row's other lanes between them.
        let period = L::RUN as u32 * L::ROW_LANES * L::ROW_WARPS;
        let before = |column: i32| {
            let columns = column.saturating_sub(first).max(0) as u32;
            columns / period * L::RUN as u32 + (columns % period).min(L::RUN as u32)
        };
        let below = |n: u32| if n < 32 { (1 << n) - 1 } else { u32::MAX };
        let (mut stays, mut at) = (L::Rows::<u32>::splat(0), L::Rows::<u32>::splat(0));
        unrolled!(i in L::Regs::<T>::LEN => {
            let row = L::row(i);
            let k = at.get(row);
            if k % 32 == 0 {
                let bits = |column| below(before(column).saturating_sub(k));
                stays.set(row, bits(to.regs.get(row)) & !bits(from.regs.get(row)));
            }
            if stays.get(row) & 1 << (k % 32) == 0 {
                self.regs.set(i, x);
            }
            at.set(row, k + 1);
        });
        self
    }
    /// `f` of every element and the other fragment's element at the same place.
    #[inline(always)]
    pub fn zip<U: Copy>(mut self, other: &Fragment<U, M, N, L>, f: impl Fn(T, U) -> T) -> Self {
        unrolled!(i in L::Regs::<T>::LEN => {
            self.regs.set(i, f(self.regs.get(i), other.regs.get(i)));
        });
        self
    }
    /// Combines the values of every row by an associative and commutative `f`, beginning with `init`: sums, maxima, pairs, places.
    ///
    /// Each row must lie in one warp: in `Striped`, or a FullRow policy. [`RowReducer`](crate::tile::RowReducer) takes others.
    #[inline(always)]
    pub fn reduce_rows(&self, init: T, f: impl Fn(T, T) -> T) -> Rows<T, M, N, L> {
        const {
            assert!(
                L::Regs::<f32>::LEN / L::Rows::<f32>::LEN * L::ROW_LANES as usize == N,
                "rows are reduced where a warp or warpgroup holds them whole: use Striped, a FullRow policy or a RowReducer"
            )
        };
        self.fold_rows(init, &f).across_lanes(f)
    }
    /// Combines what this thread holds of every row, beginning with `init`.
    #[inline(always)]
    pub fn fold_rows<A: Copy>(&self, init: A, f: impl Fn(A, T) -> A) -> Rows<A, M, N, L> {
        let mut rows = L::Rows::<A>::splat(init);
        unrolled!(i in L::Regs::<T>::LEN => {
            let r = L::row(i);
            rows.set(r, f(rows.get(r), self.regs.get(i)));
        });
        Rows { regs: rows }
    }
    /// As [`fold_rows`](Self::fold_rows), of the columns before `end`, counted from the tile's left.
    ///
    /// Each of the layout's runs is asked once: the kernel traps where one is cut.
    #[inline(always)]
    pub fn fold_rows_before<A: Copy>(&self, end: u32, init: A, f: impl Fn(A, T) -> A) -> Rows<A, M, N, L> {
        expect_whole_runs::<L, M, N>(end);
        let (mut rows, mut folded) = (L::Rows::<A>::splat(init), init);
        let first = L::coord(thread_x(), 0).1;
        unrolled!(i in L::Regs::<T>::LEN => {
            let r = L::row(i);
            if i % L::RUN == 0 {
                folded = rows.get(r);
            }
            folded = f(folded, self.regs.get(i));
            if i % L::RUN == L::RUN - 1 && first + L::offset(i - i % L::RUN).1 < end {
                rows.set(r, folded);
            }
        });
        Rows { regs: rows }
    }
    /// `x` in place of the elements in columns from `end` on, counted from the tile's left.
    ///
    /// Each of the layout's runs is asked once: the kernel traps where one is cut.
    #[inline(always)]
    pub fn fill_from(mut self, end: u32, x: T) -> Self {
        expect_whole_runs::<L, M, N>(end);
        let first = L::coord(thread_x(), 0).1;
        unrolled!(i in L::Regs::<T>::LEN => {
            if first + L::offset(i - i % L::RUN).1 >= end {
                self.regs.set(i, x);
            }
        });
        self
    }
    /// `f(element, value)` of one element of each row, by the row's (column, value): the column counted from the tile's left, and none where the
    /// tile has no such column. Each of the layout's runs is asked once.
    #[inline(always)]
    pub fn map_in_rows<U: Copy>(mut self, at: &Rows<(u32, U), M, N, L>, f: impl Fn(T, U) -> T) -> Self {
        let first = L::coord(thread_x(), 0).1;
        unrolled!(i in L::Regs::<T>::LEN / L::RUN => {
            let i = i * L::RUN;
            let (col, value) = at.regs.get(L::row(i));
            let place = col.wrapping_sub(first + L::offset(i).1);
            if (place as usize) < L::RUN {
                unrolled!(e in L::RUN => {
                    if place as usize == e {
                        self.regs.set(i + e, f(self.regs.get(i + e), value));
                    }
                });
            }
        });
        self
    }
    /// `f` of every element and its row's value.
    #[inline(always)]
    pub fn zip_rows<U: Copy>(mut self, rows: &Rows<U, M, N, L>, f: impl Fn(T, U) -> T) -> Self {
        unrolled!(i in L::Regs::<T>::LEN => {
            self.regs.set(i, f(self.regs.get(i), rows.regs.get(L::row(i))));
        });
        self
    }
}

/// Traps where `end` is inside a run of the tile's columns.
#[inline(always)]
fn expect_whole_runs<L: FragmentLayout<M, N>, const M: usize, const N: usize>(end: u32) {
    if !end.is_multiple_of(L::RUN as u32) && end < N as u32 {
        trap();
    }
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Rows<f32, M, N, L> {
    /// The values of the same rows of a fragment with `C` columns.
    #[inline(always)]
    pub fn along<const C: usize>(self) -> Rows<f32, M, C, L>
    where
        L: FragmentLayout<M, C, Rows<f32> = <L as FragmentLayout<M, N>>::Rows<f32>>,
    {
        Rows { regs: self.regs }
    }
    /// Passes the registers through an empty instruction: they are computed before what follows.
    #[inline(always)]
    pub fn touch(&mut self) {
        unrolled!(r in L::Rows::<f32>::LEN => {
            self.regs.set(r, warp::touch(self.regs.get(r)));
        });
    }
}

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Rows<T, M, N, L> {
    /// Combines the values that the lanes of a row have, by an associative and commutative `f`: values of any type of up to 32 bytes.
    #[inline(always)]
    pub fn across_lanes(mut self, f: impl Fn(T, T) -> T) -> Self {
        if thread_x() < L::THREADS {
            let mut lane = 1;
            while lane < L::ROW_LANES {
                unrolled!(r in L::Rows::<T>::LEN => {
                    let x = self.regs.get(r);
                    // SAFETY: all lanes of the warps that hold the fragment execute it.
                    self.regs.set(r, f(x, unsafe { passed::of_lane(x, lane) }));
                });
                lane *= 2;
            }
        }
        self
    }
    /// Every row's value `x`.
    #[inline(always)]
    pub fn splat(x: T) -> Self {
        Rows { regs: L::Rows::splat(x) }
    }
    /// `f` of every row, counted from the tile's top.
    #[inline(always)]
    pub fn indexed(f: impl Fn(u32) -> T) -> Self {
        let thread = thread_x();
        let mut out = L::Rows::splat(f(L::coord(thread, 0).0));
        unrolled!(i in L::Regs::<T>::LEN => {
            if L::row(i) > 0 && L::row(i) != L::row(i - 1) {
                out.set(L::row(i), f(L::coord(thread, i).0));
            }
        });
        Rows { regs: out }
    }
    /// The value of a row of this thread's, counted from the tile's top: in the function of a [gather](crate::tile::Global::gather) to a
    /// fragment with the same rows. The kernel traps where the thread has no such row.
    #[inline(always)]
    pub fn at(&self, row: u32) -> T {
        let thread = thread_x();
        let (mut value, mut found) = (self.regs.get(0), false);
        unrolled!(r in L::Rows::<T>::LEN => {
            // Read in any case: of reads in branches the compiler makes one at an address that it chooses, from local memory.
            let of_row = self.regs.get(r);
            if L::coord(thread, L::first(r)).0 == row {
                (value, found) = (of_row, true);
            }
        });
        if !found {
            trap()
        }
        value
    }
    /// `f` of every row's value.
    #[inline(always)]
    pub fn map<U: Copy>(self, f: impl Fn(T) -> U) -> Rows<U, M, N, L> {
        let mut out = L::Rows::splat(f(self.regs.get(0)));
        unrolled!(r in L::Rows::<T>::LEN => {
            out.set(r, f(self.regs.get(r)));
        });
        Rows { regs: out }
    }
    /// `f` of every row's value and the other's.
    #[inline(always)]
    pub fn zip<U: Copy>(mut self, other: &Rows<U, M, N, L>, f: impl Fn(T, U) -> T) -> Self {
        unrolled!(r in L::Rows::<T>::LEN => {
            self.regs.set(r, f(self.regs.get(r), other.regs.get(r)));
        });
        self
    }
}
