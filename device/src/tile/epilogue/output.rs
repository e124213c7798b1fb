//! From registers to global memory, through staging buffers in shared memory.

pub mod columns;
mod rows;
pub mod staging;
mod threads;
mod warpgroups;
mod warps;

use core::marker::PhantomData;

use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::tma::Coords;
use crate::layout::{Element, FragmentLayout, Major, Registers};
use crate::tile::copy::bytes::store_bytes;
use crate::tile::cta::collective::{Collective, expect_policy};
use crate::tile::cta::{Cta, TILE_ALIGN};
use crate::tile::fragment::Fragment;
use crate::tile::memory::global_tile::GlobalTileMut;
use crate::tile::memory::window::Window;
use crate::tile::mma::accumulates::Accumulates;

/// The staging buffers through which fragments of `T` are stored.
pub struct Output<T, const M: usize, const N: usize, L: OutputLayout<M, N>> {
    base: u32,
    kind: PhantomData<(T, L)>,
}

/// A fragment layout that knows how to be stored.
pub trait OutputLayout<const M: usize, const N: usize>: FragmentLayout<M, N> {
    /// Bytes of shared memory for staging.
    const STAGING_BYTES: u32;

    /// Stores a fragment whose tile is row-major.
    ///
    /// # Safety
    /// `staging` is `STAGING_BYTES` of shared memory that only `store` uses; the threads that hold the
    /// fragment execute it converged.
    #[doc(hidden)]
    unsafe fn store<T, O, const RANK: usize, const BOX: usize>(
        staging: u32,
        regs: &Self::Regs<T>,
        tile: &GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        [u32; RANK]: Coords;

    /// Stores a fragment whose tile is column-major.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn store_columns<T, O, const RANK: usize, const BOX: usize>(
        _staging: u32,
        regs: &Self::Regs<T>,
        tile: &GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        [u32; RANK]: Coords,
    {
        store_directly::<T, Self, M, N>(regs, &tile.0.window(M, N))
    }

    /// Stores `each` of a fragment's elements.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn store_cast<T, O, const RANK: usize, const BOX: usize>(
        staging: u32,
        regs: &Self::Regs<f32>,
        each: impl Fn(f32) -> f32,
        tile: &GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        [u32; RANK]: Coords,
    {
        let cast = Fragment::<f32, M, N, Self> { regs: *regs }.map(each).cast::<T>();
        // SAFETY: passed on.
        unsafe { store_fragment(staging, cast, tile) }
    }

    /// Stores what `finish` makes of the accumulator of the tile at `place`, to the tile that `to` gives for it.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn store_finished<T, O, F, const RANK: usize, const BOX: usize>(
        staging: u32,
        acc: Fragment<f32, M, N, Self>,
        finish: F,
        place: [u32; RANK],
        mut to: impl FnMut([u32; RANK]) -> GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        F: Finish<T, RANK>,
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe { store_fragment(staging, finish.finish(acc, place), &to(place)) }
    }

    /// Waits until nothing reads the staging buffers any more.
    ///
    /// # Safety
    /// The threads that hold fragments execute it.
    #[doc(hidden)]
    unsafe fn finish();
}

impl<T: Element, const M: usize, const N: usize, L: OutputLayout<M, N>> Output<T, M, N, L> {
    #[inline(always)]
    pub(in crate::tile) fn new(base: u32) -> Self {
        Output { base, kind: PhantomData }
    }

    /// Stores the fragment; elements outside the tensor are not stored. Not of 8 bits: [`store_each`](Self::store_each) rounds to them.
    ///
    /// The buffers are free again when the next `store` needs them: a store overlaps with what follows it.
    #[inline(always)]
    pub fn store<O, const RANK: usize, const BOX: usize>(
        &mut self,
        fragment: Fragment<T, M, N, L>,
        tile: GlobalTileMut<T, RANK, O, BOX>,
    ) where
        O: Major,
        [u32; RANK]: Coords,
    {
        if thread_x() >= L::THREADS {
            return;
        }
        // SAFETY: the buffers are this output's; `&mut self` says that nothing else stores through them.
        unsafe { store_fragment(self.base, fragment, &tile) }
    }

    /// Stores what `finish`, an [`Epilogue`](crate::tile::Epilogue), makes of the accumulator of the tile at `place`, to the tile that `to` gives for that. Where
    /// warpgroups have tiles of their own it is asked for tiles of 64 rows, one after the other: large accumulators leave no registers for more. Not of 8 bits.
    #[inline(always)]
    pub fn store_finished<O, const RANK: usize, const BOX: usize>(
        &mut self,
        acc: Fragment<f32, M, N, L>,
        finish: impl Finish<T, RANK>,
        place: [u32; RANK],
        to: impl FnMut([u32; RANK]) -> GlobalTileMut<T, RANK, O, BOX>,
    ) where
        O: Major,
        [u32; RANK]: Coords,
    {
        if thread_x() < L::THREADS {
            // SAFETY: as in `store`.
            unsafe { L::store_finished(self.base, acc, finish, place, to) }
        }
    }
}

impl<T: Element, const M: usize, const N: usize, L: OutputLayout<M, N>> Output<T, M, N, L> {
    /// As [`store`](Self::store), of `each` of the elements, rounded to `T`. Those that are stored together are computed together: large
    /// accumulators leave no registers for all of them. Elements of 8 bits go from registers to memory, 16 a thread where the tensor's rows allow it.
    #[inline(always)]
    pub fn store_each<O, const RANK: usize, const BOX: usize>(
        &mut self,
        acc: Fragment<f32, M, N, L>,
        each: impl Fn(f32) -> f32,
        tile: GlobalTileMut<T, RANK, O, BOX>,
    ) where
        O: Major,
        [u32; RANK]: Coords,
    {
        if const { T::BYTES == 1 } {
            return store_bytes::<T, O, L, RANK, BOX, M, N>(&acc.regs, each, &tile);
        }
        if thread_x() < L::THREADS {
            // SAFETY: as in `store`.
            unsafe { L::store_cast(self.base, &acc.regs, each, &tile) }
        }
    }
}

impl<T, const M: usize, const N: usize, L: OutputLayout<M, N>> Drop for Output<T, M, N, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if thread_x() < L::THREADS {
            // SAFETY: the kernel drops its output at its end, in all threads.
            unsafe { L::finish() }
        }
    }
}

/// What becomes of an accumulator, in parts if need be.
pub trait Finish<T: Element, const RANK: usize>: Copy {
    /// Of the one of the tile at `place`, if tiles are of `M` x `N`.
    fn finish<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        acc: Fragment<f32, M, N, L>,
        place: [u32; RANK],
    ) -> Fragment<T, M, N, L>;
}

/// Stores a fragment of either order.
///
/// # Safety
/// As [`OutputLayout::store`].
#[inline(always)]
unsafe fn store_fragment<T, O, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>(
    staging: u32,
    fragment: Fragment<T, M, N, L>,
    tile: &GlobalTileMut<T, RANK, O, BOX>,
) where
    T: Element,
    O: Major,
    L: OutputLayout<M, N>,
    [u32; RANK]: Coords,
{
    // SAFETY: passed on.
    unsafe {
        if O::ROW_MAJOR {
            L::store(staging, &fragment.regs, tile)
        } else {
            L::store_columns(staging, &fragment.regs, tile)
        }
    }
}

/// Stores every register by itself: where a tile's columns are contiguous, its threads' rows are neighbours.
#[inline(always)]
fn store_directly<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    regs: &L::Regs<T>,
    window: &Window<T>,
) {
    let (row, col) = L::coord(thread_x_volatile(), 0);
    let window = window.from(row, col);
    let mut i = 0;
    while i < L::Regs::<T>::LEN {
        let (row, col) = L::offset(i);
        window.write(row, col, regs.get(i));
        i += 1;
    }
}

#[cfg(test)]
mod tests;

impl<P: Collective> Cta<P> {
    /// The staging buffers through which an `M` x `N` fragment of `T` is stored.
    #[inline(always)]
    pub fn output<T, const M: usize, const N: usize, L>(&mut self) -> Output<T, M, N, L>
    where
        T: Element,
        L: Accumulates<M, N> + OutputLayout<M, N>,
    {
        const { expect_policy::<P>(L::THREADS, L::ASYNCHRONOUS) };
        // Staging is made for units of 16 and 32 bits.
        Output::new(self.reserve(const { if T::BYTES == 1 { 0 } else { L::STAGING_BYTES } }, TILE_ALIGN))
    }
}
