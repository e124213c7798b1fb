//! One value for each column of a fragment: weights, biases.

use crate::arch::math;
use crate::arch::special::thread_x;
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::fragment::Fragment;
use crate::tile::fragment::row_vector::{RowVector, load};

/// One value for each column of an `M` x `N` fragment, held by the threads that hold the column.
#[derive(Clone, Copy)]
pub struct Cols<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> {
    /// The values of this thread's columns, in the order of [`FragmentLayout::col`].
    pub regs: L::Cols<T>,
}

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Cols<T, M, N, L> {
    /// Every column's value `x`.
    #[inline(always)]
    pub fn splat(x: T) -> Self {
        Cols { regs: L::Cols::splat(x) }
    }
    /// `f` of every column, counted from the tile's left.
    #[inline(always)]
    pub fn indexed(f: impl Fn(u32) -> T) -> Self {
        let thread = thread_x();
        let mut cols = Self::splat(f(L::coord(thread, 0).1));
        let mut i = 1;
        while i < L::Regs::<T>::LEN {
            if L::row(i) == L::row(0) {
                cols.regs.set(L::col(i), f(L::coord(thread, i).1));
            }
            i += 1;
        }
        cols
    }
    /// `f` of every column's value.
    #[inline(always)]
    pub fn map<U: Copy>(self, f: impl Fn(T) -> U) -> Cols<U, M, N, L> {
        let mut out = Cols::<U, M, N, L>::splat(f(self.regs.get(0)));
        let mut c = 1;
        while c < L::Cols::<T>::LEN {
            out.regs.set(c, f(self.regs.get(c)));
            c += 1;
        }
        out
    }
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Cols<f32, M, N, L> {
    /// The vector's value of each column.
    #[inline(always)]
    pub fn from_vector<U: Element>(from: RowVector<'_, U, N>) -> Self {
        Cols::indexed(|col| load(&from, col))
    }
}

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// `f` of every element and its column's value.
    #[inline(always)]
    pub fn zip_cols<U: Copy>(mut self, cols: &Cols<U, M, N, L>, f: impl Fn(T, U) -> T) -> Self {
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            self.regs.set(i, f(self.regs.get(i), cols.regs.get(L::col(i))));
            i += 1;
        }
        self
    }
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<f32, M, N, L> {
    /// x w + b of every element, rounded once, with its column's `w` and `b`.
    #[inline(always)]
    pub fn affine_cols<T: Element>(mut self, w: &Cols<T, M, N, L>, b: &Cols<T, M, N, L>) -> Self {
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let (w, b) = (w.regs.get(L::col(i)), b.regs.get(L::col(i)));
            self.regs.set(i, math::fma(self.regs.get(i), w.to_f32(), b.to_f32()));
            i += 1;
        }
        self
    }
}
