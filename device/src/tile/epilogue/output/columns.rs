//! Fragments to column-major tensors: a fragment's columns become lines in shared memory.

use core::marker::PhantomData;

use super::staging::{LINE, ROWS, block_of, drain_lines, ends_where_it_begins, pair_of};
use crate::arch::declare::late;
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::tma::{self, Coords};
use crate::arch::warp::uniform;
use crate::arch::{stmatrix, sync};
use crate::layout::registers::{ColumnBlocks, ColumnsOf, RowBlocks, RowsOf};
use crate::layout::{ColMajor, Element, FragmentLayout, Major, SharedLayout, Swizzle, Warpgroups, Warps};
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::cta::collective::{Collective, expect_policy};
use crate::tile::cta::{Cta, TILE_ALIGN};
use crate::tile::fragment::Fragment;
use crate::tile::memory::copy_to::copy;
use crate::tile::memory::global_tile::GlobalTileMut;

/// The staging buffers through which fragments of the 16-bit type `T` are stored to column-major tensors.
pub struct OutputColumns<T, const M: usize, const N: usize, L: ColumnsLayout<M, N>> {
    base: u32,
    kind: PhantomData<(T, L)>,
}

/// A fragment layout that knows how to be stored by columns.
pub trait ColumnsLayout<const M: usize, const N: usize>: FragmentLayout<M, N> {
    /// Bytes of shared memory for staging.
    const STAGING_BYTES: u32;
    /// Lines of a TMA box.
    const BOX: u32;

    /// Stores a fragment whose tile is column-major.
    ///
    /// # Safety
    /// `staging` is `STAGING_BYTES` of shared memory that only `store` uses; the threads that hold the
    /// fragment execute it converged.
    #[doc(hidden)]
    unsafe fn store<T: Element, const RANK: usize, const BOX: usize>(
        staging: u32,
        fragment: Fragment<T, M, N, Self>,
        tile: GlobalTileMut<T, RANK, ColMajor, BOX>,
    ) where
        [u32; RANK]: Coords;

    /// Waits until nothing reads the staging buffers any more.
    ///
    /// # Safety
    /// The threads that hold fragments execute it.
    #[doc(hidden)]
    unsafe fn finish();
}

impl<T: Element, const M: usize, const N: usize, L: ColumnsLayout<M, N>> OutputColumns<T, M, N, L> {
    #[inline(always)]
    pub(in super::super) fn new(base: u32) -> Self {
        const { assert!(T::BYTES == 2, "columns are staged in 16-bit elements") };
        OutputColumns { base, kind: PhantomData }
    }

    /// Stores the fragment; elements outside the tensor are not stored.
    ///
    /// The buffers are free again when the next `store` needs them: a store overlaps with what follows it.
    #[inline(always)]
    pub fn store<const RANK: usize, const BOX: usize>(
        &mut self,
        fragment: Fragment<T, M, N, L>,
        tile: GlobalTileMut<T, RANK, ColMajor, BOX>,
    ) where
        [u32; RANK]: Coords,
    {
        if thread_x() < L::THREADS {
            // SAFETY: the buffers are this output's; `&mut self` says that nothing else stores through them.
            unsafe { L::store(self.base, fragment, tile) }
        }
    }
}

impl<T, const M: usize, const N: usize, L: ColumnsLayout<M, N>> Drop for OutputColumns<T, M, N, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if thread_x() < L::THREADS {
            // SAFETY: the kernel drops its output at its end, in all threads.
            unsafe { L::finish() }
        }
    }
}

/// Columns that are staged together: all if they are not much more than a row-major buffer has room for, else whole parts of at most 64.
pub(super) const fn staged(n: usize) -> u32 {
    if n < 128 && n != 64 {
        return n as u32;
    }
    let mut columns = 64;
    while !n.is_multiple_of(columns) {
        columns -= 8;
    }
    columns as u32
}

/// Columns that a warpgroup stages together of a tile of its own, in its one buffer: as many as divide it, up to 104. While it waits for a store
/// another warpgroup computes.
pub(super) const fn staged_apart(n: usize) -> u32 {
    let mut columns = if n < 104 { n } else { 104 };
    while !n.is_multiple_of(columns) {
        columns -= 8;
    }
    columns as u32
}

/// Bytes of that buffer.
pub(super) const fn apart_bytes(n: usize) -> u32 {
    (staged_apart(n) * LINE).next_multiple_of(1024)
}

/// Staging buffers of a warpgroup that stores so many times.
const fn buffers(steps: u32) -> u32 {
    if steps == 1 { 1 } else { 2 }
}

/// Bytes of shared memory that `units` warpgroups stage the columns of `height` x `width` elements each in.
pub(super) const fn staging_bytes(units: usize, height: usize, width: usize) -> u32 {
    let steps = (height / 64 * width) as u32 / staged(width);
    // A buffer begins at a multiple of the swizzle's period.
    units as u32 * buffers(steps) * (staged(width) * LINE).next_multiple_of(1024)
}

impl<const M: usize, const N: usize, const W: usize> ColumnsLayout<M, N> for Warpgroups<W, 1>
where
    RowsOf<64>: RowBlocks<M, W>,
    ColumnsOf: ColumnBlocks<N, 1>,
{
    const STAGING_BYTES: u32 = staging_bytes(W, M / W, N);
    const BOX: u32 = staged(N);

    #[inline(always)]
    unsafe fn store<T: Element, const RANK: usize, const BOX: usize>(
        staging: u32,
        fragment: Fragment<T, M, N, Self>,
        tile: GlobalTileMut<T, RANK, ColMajor, BOX>,
    ) where
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe {
            let pair = |block: usize, i: usize| pair_of(&block_of(&fragment.regs, block), i);
            store_columns::<T, ColMajor, RANK, BOX, M, N, W, 1, false>(staging, pair, &tile)
        }
    }

    #[inline(always)]
    unsafe fn finish() {
        // SAFETY: waits for this thread's own stores.
        unsafe {
            if thread_x().is_multiple_of(128) {
                tma::bulk_wait_read::<0>();
            }
        }
    }
}

/// Stores a fragment of 16-bit elements whose tile is column-major: `pair` gives two of a block's, from one of its registers on.
///
/// # Safety
/// `staging` is as much as [`staging_bytes`] says, which only this uses; the threads that hold the fragment execute it converged.
#[inline(always)]
#[rustfmt::skip]
pub(super) unsafe fn store_columns<
    T: Element, O: Major, const RANK: usize, const BOX: usize, const M: usize, const N: usize, const WM: usize, const WN: usize, const APART: bool,
>(
    staging: u32,
    pair: impl Fn(usize, usize) -> u32,
    tile: &GlobalTileMut<T, RANK, O, BOX>,
) where
    [u32; RANK]: Coords,
{
    // TMA cuts stored lines off at multiples of 16 bytes only: it would overwrite what follows a ragged line.
    let whole_pieces = (late(tile.0.of.rows()) * T::BYTES as u32).is_multiple_of(16);
    let columns = const { if APART { staged_apart(N) } else { staged(N / WN) } };
    let by_tma = tile.0.of.tma && whole_pieces && BOX as u32 == columns;
    // SAFETY: passed on.
    unsafe {
        if !tile.0.sparing && by_tma && tile.0.holds([M, N], [M as u32, N as u32]) {
            store_steps::<T, O, RANK, BOX, M, N, WM, WN, APART, true>(staging, pair, tile, true)
        } else {
            store_steps::<T, O, RANK, BOX, M, N, WM, WN, APART, false>(staging, pair, tile, by_tma)
        }
    }
}

/// The steps of [`store_columns`]. Where `WHOLE`, TMA stores all of the tile: steps have no code for anything else, over which each would jump.
///
/// # Safety
/// As [`store_columns`].
#[inline(always)]
#[rustfmt::skip]
unsafe fn store_steps<
    T: Element, O: Major, const RANK: usize, const BOX: usize, const M: usize, const N: usize, const WM: usize, const WN: usize, const APART: bool,
    const WHOLE: bool,
>(
    staging: u32,
    pair: impl Fn(usize, usize) -> u32,
    tile: &GlobalTileMut<T, RANK, O, BOX>,
    by_tma: bool,
) where
    [u32; RANK]: Coords,
{
    let columns = const { if APART { staged_apart(N) } else { staged(N / WN) } };
    let size = (columns * LINE).next_multiple_of(1024);
    let (chunks, blocks) = ((N / WN) as u32 / columns, (M / WM / 64) as u32);
    let buffers = if APART { 1 } else { buffers(chunks * blocks) };
    let thread = thread_x_volatile();
    let unit = uniform(thread / 128);
    let part = if APART { 0 } else { unit };
    let (warp, lane) = (uniform(thread / 32) % 4, thread % 32);
    if buffers > 1 && ends_where_it_begins(chunks * blocks) && thread.is_multiple_of(128) {
        // SAFETY: waits for this thread's own stores.
        unsafe { tma::bulk_wait_read::<0>() }
    }
    let mut step = 0;
    while step < chunks * blocks {
        let (block, chunk) = (step / chunks, step % chunks);
        let row = part / WN as u32 * (M / WM) as u32 + block * ROWS;
        let col = part % WN as u32 * (N / WN) as u32 + chunk * columns;
        let buffer = staging + (unit * buffers + step % buffers) * size;
        // SAFETY: a buffer is filled again after the store that read it, one warpgroup barrier later; the
        // fence makes it visible to TMA before the barrier behind which one thread stores it.
        unsafe {
            if thread.is_multiple_of(128) {
                if buffers == 1 { tma::bulk_wait_read::<0>() } else { tma::bulk_wait_read::<1>() }
            }
            sync::bar_sync(WARPGROUP.of(unit), 128);
            let first = (chunk * columns / 2) as usize;
            stage(buffer, |i| pair(block as usize, first + i as usize), columns, warp, lane);
            sync::fence_proxy_async_shared();
            sync::bar_sync(WARPGROUP.of(unit), 128);
            if WHOLE || by_tma && tile.0.holds([M, N], [row + ROWS, col + columns]) {
                if thread.is_multiple_of(128) {
                    tile.0.box_at(M, N, col, row).store(tile.0.of.map, buffer);
                    tma::bulk_commit();
                }
            } else {
                drain_lines::<T, O, RANK, BOX, M, N>(buffer, columns, (row, col), tile, thread % 128);
                // Where boxes were stored before: as many groups as buffers, so that the wait finds the oldest.
                if by_tma && thread.is_multiple_of(128) {
                    tma::bulk_commit();
                }
            }
        }
        step += 1;
    }
}

/// Stores a warp's 16 rows of `columns` columns into a staging buffer, whose lines are columns: `pair` gives two elements, from a register on.
///
/// # Safety
/// The warp's lanes execute it converged; nobody reads the buffer.
#[inline(always)]
unsafe fn stage(buffer: u32, pair: impl Fn(u32) -> u32, columns: u32, warp: u32, lane: u32) {
    let at = |col: u32| {
        let (line, byte) = (col + lane / 16 * 8 + lane % 8, warp * 32 + lane / 8 % 2 * 16);
        buffer + Swizzle::<128>::offset(columns, LINE, line, byte)
    };
    let mut col = 0;
    // SAFETY: passed on; every address that is used is inside the buffer.
    unsafe {
        while col + 16 <= columns {
            let i = col / 2;
            stmatrix::x4_trans(at(col), [pair(i), pair(i + 2), pair(i + 4), pair(i + 6)]);
            col += 16;
        }
        if col < columns {
            let i = col / 2;
            stmatrix::x2_trans(at(col), [pair(i), pair(i + 2)]);
        }
    }
}

impl<const M: usize, const N: usize, const W: usize> ColumnsLayout<M, N> for Warps<W, 1>
where
    Self: FragmentLayout<M, N>,
{
    const STAGING_BYTES: u32 = 0;
    const BOX: u32 = 0;

    #[inline(always)]
    unsafe fn store<T: Element, const RANK: usize, const BOX: usize>(
        _staging: u32,
        fragment: Fragment<T, M, N, Self>,
        tile: GlobalTileMut<T, RANK, ColMajor, BOX>,
    ) where
        [u32; RANK]: Coords,
    {
        copy(fragment, tile)
    }

    #[inline(always)]
    unsafe fn finish() {}
}

impl<P: Collective> Cta<P> {
    /// The staging buffers through which an `M` x `N` fragment of `T` is stored to a column-major tensor.
    #[inline(always)]
    pub fn output_columns<T, const M: usize, const N: usize, L>(&mut self) -> OutputColumns<T, M, N, L>
    where
        T: Element,
        L: ColumnsLayout<M, N>,
    {
        const { expect_policy::<P>(L::THREADS, false) };
        OutputColumns::new(self.reserve(L::STAGING_BYTES, TILE_ALIGN))
    }
}
