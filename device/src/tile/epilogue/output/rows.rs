//! Storing a warpgroup's blocks of a row-major tile.

use super::staging::{LINE, ROWS, buffers, drain, ends_where_it_begins, stage, staged_columns};
use crate::arch::declare::late;
use crate::arch::special::thread_x_volatile;
use crate::arch::sync;
use crate::arch::tma::{self, Coords};
use crate::arch::warp::uniform;
use crate::layout::{Element, Major, Swizzle};
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::memory::global_tile::GlobalTileMut;

/// Stores a fragment: `two` gives two elements of a block of 64 rows, from one of its registers on. Where warpgroups have tiles `APART`, it is one's own, staged in one buffer:
/// another's gemms hide its waits.
///
/// # Safety
/// `staging` is a buffer of [`ROWS`] x [`LINE`] bytes for each warpgroup if `APART`, else as many as [`buffers`] says, which only this uses; the threads that
/// hold the fragment execute it converged.
#[inline(always)]
#[rustfmt::skip]
pub(super) unsafe fn store_rows<
    T: Element, O: Major, const RANK: usize, const BOX: usize, const M: usize, const N: usize, const WM: usize, const WN: usize, const APART: bool,
>(
    staging: u32,
    two: impl Fn(usize, usize) -> [T; 2],
    tile: &GlobalTileMut<T, RANK, O, BOX>,
) where
    [u32; RANK]: Coords,
{
    // TMA cuts stored lines off at multiples of 16 bytes only: it would overwrite what follows a ragged line.
    let whole_pieces = (late(tile.0.of.cols()) * T::BYTES as u32).is_multiple_of(16);
    let columns = const { staged_columns(N / WN, T::BYTES) };
    let by_tma = tile.0.of.tma && whole_pieces && columns * T::BYTES as u32 == LINE && BOX as u32 == ROWS;
    // SAFETY: passed on.
    unsafe {
        if !tile.0.sparing && by_tma && tile.0.holds([M, N], [M as u32, N as u32]) {
            store_steps::<T, O, RANK, BOX, M, N, WM, WN, APART, true>(staging, two, tile, true)
        } else {
            store_steps::<T, O, RANK, BOX, M, N, WM, WN, APART, false>(staging, two, tile, by_tma)
        }
    }
}

/// The steps of [`store_rows`]. Where `WHOLE`, TMA stores all of the tile: steps have no code for anything else, over which each would jump.
///
/// # Safety
/// As [`store_rows`].
#[inline(always)]
#[rustfmt::skip]
unsafe fn store_steps<
    T: Element, O: Major, const RANK: usize, const BOX: usize, const M: usize, const N: usize, const WM: usize, const WN: usize, const APART: bool,
    const WHOLE: bool,
>(
    staging: u32,
    two: impl Fn(usize, usize) -> [T; 2],
    tile: &GlobalTileMut<T, RANK, O, BOX>,
    by_tma: bool,
) where
    [u32; RANK]: Coords,
{
    let thread = thread_x_volatile();
    let unit = uniform(thread / 128);
    let (warp, lane) = (uniform(thread / 32) % 4, thread % 32);
    let columns = const { staged_columns(N / WN, T::BYTES) };
    let chunks = (N / WN) as u32 / columns;
    let buffers = const { if APART { 1 } else { buffers(M / WM, N / WN) } };
    let part = if APART { 0 } else { unit };
    let staging = staging + unit * buffers * ROWS * LINE;
    let steps = chunks * (M / WM / 64) as u32;
    if steps <= buffers {
        let place = |step: u32| {
            let row = part / WN as u32 * (M / WM) as u32 + step / chunks * ROWS;
            (
                row,
                part % WN as u32 * (N / WN) as u32 + step % chunks * columns,
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
                let two = |i| two((step / chunks) as usize, i);
                stage(place(step).2, two, step % chunks, columns, warp, lane);
                step += 1;
            }
            sync::fence_proxy_async_shared();
            sync::bar_sync(WARPGROUP.of(unit), 128);
            let mut step = 0;
            while step < steps {
                let (row, col, buffer) = place(step);
                if !(WHOLE || by_tma && tile.0.holds([M, N], [row + ROWS, col + columns])) {
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
    if buffers > 1
        && const { ends_where_it_begins((M / WM / 64 * N / WN) as u32 / staged_columns(N / WN, T::BYTES)) }
        && thread.is_multiple_of(128)
    {
        // SAFETY: waits for this thread's own stores.
        unsafe { tma::bulk_wait_read::<0>() }
    }
    let mut step = 0;
    while step < steps {
        let (at, chunk) = (step / chunks, step % chunks);
        let row = part / WN as u32 * (M / WM) as u32 + at * ROWS;
        let col = part % WN as u32 * (N / WN) as u32 + chunk * columns;
        let buffer = staging + step % buffers * ROWS * LINE;
        // SAFETY: a buffer is filled again after the store that read it, one warpgroup barrier later; the
        // fence makes it visible to TMA before the barrier behind which one thread stores it.
        unsafe {
            if thread.is_multiple_of(128) {
                if buffers == 1 { tma::bulk_wait_read::<0>() } else { tma::bulk_wait_read::<1>() }
            }
            sync::bar_sync(WARPGROUP.of(unit), 128);
            stage(buffer, |i| two(at as usize, i), chunk, columns, warp, lane);
            sync::fence_proxy_async_shared();
            sync::bar_sync(WARPGROUP.of(unit), 128);
            if WHOLE || by_tma && tile.0.holds([M, N], [row + ROWS, col + columns]) {
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
