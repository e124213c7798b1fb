//! Storing the fragments of warpgroups: each stages 64 rows at a time, and TMA stores them.

use super::rows::store_rows;
use super::staging::{LINE, ROWS, block_of, buffers, pair_of, staged_columns, two_of};
use super::{Finish, OutputLayout, columns, store_directly, store_fragment};
use crate::arch::special::thread_x;
use crate::arch::tma::{self, Coords};
use crate::layout::element::pack;
use crate::layout::registers::{ColumnBlocks, ColumnsOf, Nested, RowBlocks, RowsOf};
use crate::layout::{Element, Major, PerWarpgroup, Registers, Warpgroups};
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
        if const { staged_columns(N / WN, T::BYTES) } % 16 != 0 {
            return store_directly::<T, Self, M, N>(regs, &tile.0.window(M, N));
        }
        // SAFETY: passed on.
        unsafe {
            let two = |block: usize, i: usize| two_of(&block_of(regs, block), i);
            store_rows::<T, O, RANK, BOX, M, N, WM, WN, false>(staging, two, tile)
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

impl<const M: usize, const N: usize, const W: usize> OutputLayout<M, N> for PerWarpgroup<W>
where
    RowsOf<64>: RowBlocks<M, 1>,
    ColumnsOf: ColumnBlocks<N, 1>,
{
    const STAGING_BYTES: u32 = W as u32 * {
        let (columns, rows) = (columns::apart_bytes(N), ROWS * LINE);
        if columns > rows { columns } else { rows }
    };

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
        if const { staged_columns(N, T::BYTES) } % 16 != 0 {
            return store_directly::<T, Self, M, N>(regs, &tile.0.window(M, N));
        }
        // SAFETY: passed on.
        unsafe {
            let two = |block: usize, i: usize| two_of(&block_of(regs, block), i);
            store_rows::<T, O, RANK, BOX, M, N, 1, 1, true>(staging, two, tile)
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
        let two = |block: usize, i: usize| {
            let block = block_of(regs, block);
            T::from_f32x2(each(block.get(i)), each(block.get(i + 1)))
        };
        let staged = const { staged_columns(N, T::BYTES) } % 16 == 0;
        // SAFETY: passed on.
        unsafe {
            if O::ROW_MAJOR && staged {
                store_rows::<T, O, RANK, BOX, M, N, 1, 1, true>(staging, two, tile)
            } else if !O::ROW_MAJOR && T::BYTES == 2 {
                let pair = |block: usize, i: usize| pack(two(block, i));
                columns::store_columns::<T, O, RANK, BOX, M, N, 1, 1, true>(staging, pair, tile)
            } else {
                let cast = Fragment::<f32, M, N, Self> { regs: *regs }.map(each).cast::<T>();
                store_directly::<T, Self, M, N>(&cast.regs, &tile.0.window(M, N))
            }
        }
    }

    #[inline(always)]
    unsafe fn store_finished<T, O, F, const RANK: usize, const BOX: usize>(
        staging: u32,
        acc: Fragment<f32, M, N, Self>,
        finish: F,
        mut place: [u32; RANK],
        mut to: impl FnMut([u32; RANK]) -> GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        F: Finish<T, RANK>,
        [u32; RANK]: Coords,
    {
        let first = place[RANK - 2] * (M / 64) as u32;
        let mut block = 0;
        while block < M / 64 {
            place[RANK - 2] = first + block as u32;
            let part = Fragment::<f32, 64, N, Self> { regs: Nested::of([block_of(&acc.regs, block)]) };
            // SAFETY: passed on; the buffers do for 64 rows.
            unsafe { store_fragment(staging, finish.finish(part, place), &to(place)) }
            block += 1;
        }
    }

    #[inline(always)]
    unsafe fn finish() {
        // SAFETY: passed on.
        unsafe { <Warpgroups<1, 1> as OutputLayout<M, N>>::finish() }
    }
}
