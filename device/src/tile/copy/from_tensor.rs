//! Fragments of what tensors hold.

use crate::arch::special::{thread_x, thread_x_volatile};
use crate::layout::{Element, FragmentLayout, Major, Registers};
use crate::tile::cta::collective::expect_computing;
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::copy_to::{CopyTo, copy};
use crate::tile::memory::global_tile::GlobalTile;

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<f32, M, N, L> {
    /// Combines every element with the tensor's element at the same place of `tile`, as `f32`.
    ///
    /// Reads as the fragment's threads need it, element by element or in pairs; elements outside the tensor give
    /// `f` a zero. Strides may be zero: a row, column or scalar that is broadcast.
    #[inline(always)]
    pub fn zip_global<T, O, const RANK: usize, const BOX: usize>(
        self,
        tile: GlobalTile<T, RANK, O, BOX>,
        f: impl Fn(f32, f32) -> f32,
    ) -> Self
    where
        T: Element,
        O: Major,
    {
        expect_computing(L::THREADS);
        if thread_x() >= L::THREADS {
            return self;
        }
        // The thread's number is read anew, so that no address is held in registers over the main loop.
        let (row, col) = L::coord(thread_x_volatile(), 0);
        let window = tile.window(M, N).from(row, col);
        let mut out = self;
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let (row, col) = L::offset(i);
            out.regs.set(i, f(self.regs.get(i), window.read(row, col).to_f32()));
            i += 1;
        }
        out
    }
}

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// The tile's elements, from global memory or from shared memory; zeros where the tile reaches outside of its tensor.
    ///
    /// The same as [`copy`] into a fragment that is there already.
    #[inline(always)]
    pub fn load<S>(from: S) -> Self
    where
        T: Element,
        S: for<'f> CopyTo<&'f mut Self>,
    {
        let mut loaded = Self::splat(T::ZERO);
        copy(from, &mut loaded);
        loaded
    }
}

impl<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>> Rows<T, M, N, L> {
    /// The first column of a tile with `M` rows: each row's element, or `outside` where the tensor has no such row.
    #[inline(always)]
    pub fn load<O: Major, const RANK: usize, const BOX: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        outside: T,
    ) -> Self {
        Self::load_or(from, Some(outside))
    }

    /// The same, zero where the tensor has no such row or column: nothing is done to what is loaded, so that it may come as late as it is used.
    #[inline(always)]
    pub fn load_or_zero<O: Major, const RANK: usize, const BOX: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
    ) -> Self {
        Self::load_or(from, None)
    }

    #[inline(always)]
    fn load_or<O: Major, const RANK: usize, const BOX: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        outside: Option<T>,
    ) -> Self {
        let (thread, window) = (thread_x_volatile(), from.window(M, 1));
        let mut rows = Self::splat(outside.unwrap_or(T::ZERO));
        let (mut r, mut i) = (0, 0);
        while r < L::Rows::<T>::LEN {
            while L::row(i) != r {
                i += 1;
            }
            let (row, _) = L::coord(thread, i);
            let x = window.read(row, 0);
            if outside.is_none() || row < window.rows {
                rows.regs.set(r, x);
            }
            r += 1;
        }
        rows
    }
}
