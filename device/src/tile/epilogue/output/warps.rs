//! Storing the fragments of warps: each stages its own rows, and stores them side by side.

use super::OutputLayout;
use super::staging::{LINE, WARP_ROWS, block_of, drain, pair_place, staged_columns};
use crate::arch::special::thread_x_volatile;
use crate::arch::tma::Coords;
use crate::arch::{global, shared, sync};
use crate::layout::element::pack;
use crate::layout::registers::{ColumnBlocks, ColumnsOf, RowBlocks, RowsOf};
use crate::layout::{Element, Major, Registers, SharedLayout, Swizzle, Warps};
use crate::tile::memory::global_tile::GlobalTileMut;
use crate::tile::memory::window::Window;

impl<const M: usize, const N: usize, const WM: usize, const WN: usize> OutputLayout<M, N> for Warps<WM, WN>
where
    RowsOf<16>: RowBlocks<M, WM>,
    ColumnsOf: ColumnBlocks<N, WN>,
{
    const STAGING_BYTES: u32 = (WM * WN) as u32 * WARP_ROWS * LINE;

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
        let thread = thread_x_volatile();
        let (warp, lane) = (thread / 32, thread % 32);
        let chunks = (N / WN) as u32 / columns;
        let buffer = staging + warp * WARP_ROWS * LINE;
        let window = tile.0.window(M, N);
        let mut step = 0;
        while step < chunks * (M / WM / 16) as u32 {
            let (block, chunk) = (step / chunks, step % chunks);
            let row = warp / WN as u32 * (M / WM) as u32 + block * WARP_ROWS;
            let col = warp % WN as u32 * (N / WN) as u32 + chunk * columns;
            // SAFETY: the buffer is the warp's own, written and read between warp barriers.
            unsafe {
                sync::sync_warp();
                stage_warp::<T, _>(buffer, &block_of(regs, block as usize), chunk, columns, lane);
                sync::sync_warp();
                drain_warp::<T>(buffer, columns, (row, col), &window, tile.0.of.align, lane);
            }
            step += 1;
        }
    }

    #[inline(always)]
    unsafe fn finish() {}
}

/// Stores a warp's 16 rows of a block's columns from `chunk` on into its buffer.
///
/// # Safety
/// The warp's lanes execute it converged; nobody reads the buffer.
#[inline(always)]
unsafe fn stage_warp<T: Element, R: Registers<T>>(
    buffer: u32,
    regs: &R,
    chunk: u32,
    columns: u32,
    lane: u32,
) {
    let at = |row: u32, byte: u32| buffer + Swizzle::<128>::offset(WARP_ROWS, LINE, row, byte);
    let first = chunk * columns / 2;
    let mut pair = 0;
    while pair < columns / 4 {
        let r = (first + pair * 2) as usize;
        let (row, byte) = pair_place(lane, pair, T::BYTES as u32);
        // SAFETY: passed on; the address is inside the buffer.
        unsafe {
            if T::BYTES == 2 {
                shared::store_u32(at(row, byte), pack([regs.get(r), regs.get(r + 1)]));
            } else {
                shared::store_u32x2(at(row, byte), [regs.get(r).bits(), regs.get(r + 1).bits()]);
            }
        }
        pair += 1;
    }
}

/// Copies a warp's buffer to the tensor: 16 bytes a lane where address and bounds allow it.
///
/// # Safety
/// The staged elements are visible to the warp.
#[inline(always)]
unsafe fn drain_warp<T: Element>(
    buffer: u32,
    columns: u32,
    (row0, col0): (u32, u32),
    window: &Window<T>,
    align: u32,
    lane: u32,
) {
    let per_piece = 16 / T::BYTES as u32;
    let whole = row0 + WARP_ROWS <= window.rows && col0 + columns <= window.cols;
    // SAFETY: passed on; whole pieces are inside the tensor and aligned as its host view says.
    unsafe {
        if align >= 16 && window.col_stride == 1 && whole && columns.is_multiple_of(per_piece) {
            let pieces = columns / per_piece;
            let mut i = lane;
            while i < WARP_ROWS * pieces {
                let (row, piece) = (i / pieces, i % pieces);
                let value =
                    shared::load_u32x4(buffer + Swizzle::<128>::offset(WARP_ROWS, LINE, row, piece * 16));
                global::st_global_u32x4(window.at(row0 + row, col0 + piece * per_piece).cast(), value);
                i += 32;
            }
        } else {
            drain::<T, Swizzle<128>>(buffer, (WARP_ROWS, columns), (row0, col0), window, (lane, 32));
        }
    }
}
