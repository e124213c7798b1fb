//! Storing the fragments of warpgroups: each stages 64 rows at a time, and TMA stores them.

use super::staging::{
    LINE, ROWS, block_of, buffers, drain, ends_where_it_begins, pair_of, stage, staged_columns,
};
use super::{OutputLayout, columns, store_directly};
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::sync;
use crate::arch::tma::{self, Coords};
use crate::layout::element::pack;
use crate::layout::registers::{ColumnBlocks, ColumnsOf, RowBlocks, RowsOf};
use crate::layout::{Element, Major, PerWarpgroup, Registers, Swizzle, Warpgroups};
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::fragment::Fragment;
use crate::tile::memory::global_tile::GlobalTileMut;

impl<const M: usize, const N: usize, const WM: usize, const WN: usize> OutputLayout<M, N>
    for Warpgroups<WM, WN>
where
    RowsOf<64>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, WN>,
{
    const STAGING_BYTES: u32 = (WM * WN) as u32 * buffers(M / WM, N / WN) * ROWS * LINE;

    #[inline(always)]
    unsafe fn store<T, O, const RANK: usize, const BOX: usize>(
        staging: u32,
        regs: &Self::Regs<T>,
        tile: &GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        [u32; RANK]: Coords,
    {
        let columns = const { staged_columns(N / WN, T::BYTES) };
        if columns % 16 != 0 {
            return store_directly::<T, Self, M, N>(regs, &tile.0.window(M, N));
        }
        let thread = thread_x_volatile();
        let unit = crate::arch::warp::uniform(thread / 128);
        let (warp, lane) = (crate::arch::warp::uniform(thread / 32) % 4, thread % 32);
        let chunks = (N / WN) as u32 / columns;
        let buffers = const { buffers(M / WM, N / WN) };
        let staging = staging + unit * buffers * ROWS * LINE;
        // TMA cuts stored lines off at multiples of 16 bytes only: it would overwrite what follows a ragged line.
        let whole_pieces = (tile.0.of.cols() * T::BYTES as u32).is_multiple_of(16);
        let by_tma = tile.0.of.tma && whole_pieces && columns * T::BYTES as u32 == LINE && BOX as u32 == ROWS;
        let steps = chunks * (M / WM / 64) as u32;
        if steps <= buffers {
            let place = |step: u32| {
                let row = unit / WN as u32 * (M / WM) as u32 + step / chunks * ROWS;
                (
                    row,
                    unit % WN as u32 * (N / WN) as u32 + step % chunks * columns,
                    staging + step * ROWS * LINE,
                )
            };
            // SAFETY: as below, with all buffers at once.
            unsafe {
                if thread.is_multiple_of(128) {
                    tma::bulk_wait_read::<0>()
                }
                sync::bar_sync(WARPGROUP.of(unit), 128);
                let mut step = 0;
                while step < steps {
                    let regs = block_of(regs, (step / chunks) as usize);
                    stage::<T, _>(place(step).2, &regs, step % chunks, columns, warp, lane);
                    step += 1;
                }
                sync::fence_proxy_async_shared();
                sync::bar_sync(WARPGROUP.of(unit), 128);
                let mut step = 0;
                while step < steps {
                    let (row, col, buffer) = place(step);
                    if !by_tma || !tile.0.holds([M, N], [row + ROWS, col + columns]) {
                        let (window, threads) = (tile.0.window(M, N), (thread % 128, 128));
                        drain::<T, Swizzle<128>>(buffer, (ROWS, columns), (row, col), &window, threads);
                    } else if thread.is_multiple_of(128) {
                        tile.0.box_at(M, N, row, col).store(tile.0.of.map, buffer);
                    }
                    step += 1;
                }
                if by_tma && thread.is_multiple_of(128) {
                    tma::bulk_commit();
                }
            }
            return;
        }
        if const { ends_where_it_begins((M / WM / 64 * N / WN) as u32 / staged_columns(N / WN, T::BYTES)) }
            && thread.is_multiple_of(128)
        {
            // SAFETY: waits for this thread's own stores.
            unsafe { tma::bulk_wait_read::<0>() }
        }
        let mut step = 0;
        while step < steps {
            let (block, chunk) = (step / chunks, step % chunks);
            let row = unit / WN as u32 * (M / WM) as u32 + block * ROWS;
            let col = unit % WN as u32 * (N / WN) as u32 + chunk * columns;
            let buffer = staging + step % buffers * ROWS * LINE;
            // SAFETY: a buffer is filled again after the store that read it, one warpgroup barrier later; the
            // fence makes it visible to TMA before the barrier behind which one thread stores it.
            unsafe {
                if thread.is_multiple_of(128) {
                    if buffers == 1 { tma::bulk_wait_read::<0>() } else { tma::bulk_wait_read::<1>() }
                }
                sync::bar_sync(WARPGROUP.of(unit), 128);
                stage::<T, _>(buffer, &block_of(regs, block as usize), chunk, columns, warp, lane);
                sync::fence_proxy_async_shared();
                sync::bar_sync(WARPGROUP.of(unit), 128);
                if by_tma && tile.0.holds([M, N], [row + ROWS, col + columns]) {
                    if thread.is_multiple_of(128) {
                        tile.0.box_at(M, N, row, col).store(tile.0.of.map, buffer);
                        tma::bulk_commit();
                    }
                } else {
                    let window = tile.0.window(M, N);
                    drain::<T, Swizzle<128>>(
                        buffer,
                        (ROWS, columns),
                        (row, col),
                        &window,
                        (thread % 128, 128),
                    );
                    // Where boxes were stored before: as many groups as buffers, so that the wait finds the oldest.
                    if by_tma && thread.is_multiple_of(128) {
                        tma::bulk_commit();
                    }
                }
            }
            step += 1;
        }
    }

    #[inline(always)]
    unsafe fn store_columns<T, O, const RANK: usize, const BOX: usize>(
        staging: u32,
        regs: &Self::Regs<T>,
        tile: &GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        [u32; RANK]: Coords,
    {
        // A thread's elements of narrow tiles are few.
        let wide = N / WN > ROWS as usize;
        if wide
            && T::BYTES == 2
            && const { columns::staging_bytes(WM * WN, M / WM, N / WN) <= Self::STAGING_BYTES }
        {
            // SAFETY: passed on.
            unsafe {
                let pair = |block: usize, i: usize| pair_of(&block_of(regs, block), i);
                columns::store_columns::<T, O, RANK, BOX, M, N, WM, WN, false>(staging, pair, tile)
            }
        } else {
            store_directly::<T, Self, M, N>(regs, &tile.0.window(M, N))
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

/// Row-major tiles are stored element by element: products whose output is row-major are computed as their transposes, with any number of
/// columns.
impl<const M: usize, const N: usize, const W: usize> OutputLayout<M, N> for PerWarpgroup<W>
where
    RowsOf<64>: RowBlocks<M, 1>,
    ColumnsOf: ColumnBlocks<N, 1>,
{
    const STAGING_BYTES: u32 = W as u32 * columns::apart_bytes(N);

    #[inline(always)]
    unsafe fn store<T, O, const RANK: usize, const BOX: usize>(
        _staging: u32,
        regs: &Self::Regs<T>,
        tile: &GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        [u32; RANK]: Coords,
    {
        store_directly::<T, Self, M, N>(regs, &tile.0.window(M, N));
    }

    #[inline(always)]
    unsafe fn store_columns<T, O, const RANK: usize, const BOX: usize>(
        staging: u32,
        regs: &Self::Regs<T>,
        tile: &GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        [u32; RANK]: Coords,
    {
        if T::BYTES == 2 {
            let pair = |block: usize, i: usize| pair_of(&block_of(regs, block), i);
            // SAFETY: passed on.
            unsafe { columns::store_columns::<T, O, RANK, BOX, M, N, 1, 1, true>(staging, pair, tile) }
        } else {
            store_directly::<T, Self, M, N>(regs, &tile.0.window(M, N))
        }
    }

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
        if O::ROW_MAJOR || T::BYTES != 2 {
            let cast = Fragment::<f32, M, N, Self> { regs: *regs }.map(each).cast::<T>();
            store_directly::<T, Self, M, N>(&cast.regs, &tile.0.window(M, N));
            return;
        }
        let pair = |block: usize, i: usize| {
            let block = block_of(regs, block);
            pack(T::from_f32x2(each(block.get(i)), each(block.get(i + 1))))
        };
        // SAFETY: passed on.
        unsafe { columns::store_columns::<T, O, RANK, BOX, M, N, 1, 1, true>(staging, pair, tile) }
    }

    #[inline(always)]
    unsafe fn finish() {
        // SAFETY: passed on.
        unsafe { <Warpgroups<1, 1> as OutputLayout<M, N>>::finish() }
    }
}
