//! Staging buffers in shared memory: what lies where, and what copies it on.

use crate::arch::{shared, stmatrix};
use crate::layout::element::pack;
use crate::layout::{Element, Major, Registers, SharedLayout, Swizzle};
use crate::tile::memory::global_tile::GlobalTileMut;
use crate::tile::memory::window::Window;

/// Copies `rows` lines of `width` elements from staging to the tensor, `threads` lanes side by side.
///
/// # Safety
/// The staged elements are visible to these threads.
#[inline(always)]
pub(in crate::tile) unsafe fn drain<T: Element, S: SharedLayout>(
    staging: u32,
    (rows, width): (u32, u32),
    (row0, col0): (u32, u32),
    window: &Window<T>,
    (thread, threads): (u32, u32),
) {
    let line = width * T::BYTES as u32;
    // The bound is read at run time, so that the loop is not unrolled: it is not on the fast path.
    let inside = window.rows.saturating_sub(row0).min(rows) * width;
    let mut i = thread;
    while i < inside {
        let (row, col) = (i / width, i % width);
        let at = staging + S::offset(rows, line, row, col * T::BYTES as u32);
        // SAFETY: inside the staging buffer.
        let bits = unsafe { if T::BYTES == 2 { shared::load_u16(at) as u32 } else { shared::load_u32(at) } };
        window.write(row0 + row, col0 + col, T::from_bits(bits));
        i += threads;
    }
}

/// Copies staged columns of [`ROWS`] elements to the tensor; called by 128 threads.
///
/// # Safety
/// The staged elements are visible to these threads.
#[inline(always)]
pub(super) unsafe fn drain_lines<
    T: Element,
    O: Major,
    const RANK: usize,
    const BOX: usize,
    const M: usize,
    const N: usize,
>(
    staging: u32,
    columns: u32,
    (row0, col0): (u32, u32),
    tile: &GlobalTileMut<T, RANK, O, BOX>,
    thread: u32,
) {
    let window = tile.0.window(M, N);
    // The bound is read at run time, so that the loop is not unrolled.
    let inside = window.cols.saturating_sub(col0).min(columns) * ROWS;
    let mut i = thread;
    while i < inside {
        let (col, row) = (i / ROWS, i % ROWS);
        let at = staging + Swizzle::<128>::offset(columns, LINE, col, row * T::BYTES as u32);
        // SAFETY: inside the staging buffer.
        window.write(row0 + row, col0 + col, T::from_bits(unsafe { shared::load_u16(at) } as u32));
        i += 128;
    }
}

/// Bytes of a staged line.
pub(in crate::tile) const LINE: u32 = 128;
/// Rows that a warpgroup stages at a time.
pub(in crate::tile) const ROWS: u32 = 64;

/// Staging buffers a warpgroup that stores `height` x `width` elements: with two, one is stored while the next is filled.
pub(super) const fn buffers(height: usize, width: usize) -> u32 {
    if height * width <= (ROWS * LINE / 2) as usize { 1 } else { 2 }
}

/// Whether a tile of so many steps ends with the one of two buffers that the next tile begins with, so that this waits for all
/// stores, not for all but the last.
pub(super) const fn ends_where_it_begins(steps: u32) -> bool {
    steps > 1 && steps % 2 == 1
}

/// Columns of one staged buffer: the fragment's width if a line has room for it, else as many as divide both.
pub(super) const fn staged_columns(width: usize, bytes: usize) -> u32 {
    let (mut columns, mut rest) = (LINE as usize / bytes, width);
    if width < columns {
        return width as u32;
    }
    while rest != 0 {
        (columns, rest) = (rest, columns % rest);
    }
    columns as u32
}

/// The (row, byte) of a staged block whose 16 bytes this lane's address names to `stmatrix`, for four matrices from
/// `piece` on.
pub const fn matrix_line(warp: u32, lane: u32, piece: u32) -> (u32, u32) {
    (warp * 16 + lane % 16, (piece + lane / 16) * 16)
}

/// The (row, byte) in a warp's rows of pair `pair` of a lane's elements of `bytes` bytes.
pub(super) const fn pair_place(lane: u32, pair: u32, bytes: u32) -> (u32, u32) {
    (lane / 4 + pair % 2 * 8, (pair / 2 * 8 + lane % 4 * 2) * bytes)
}

/// Stores rows 16 `warp` to 16 `warp` + 15 of a block's columns from `chunk` on into a staging buffer: `two` gives two of a thread's elements, from one of the
/// block's registers on.
///
/// 16-bit elements go by `stmatrix` (sm_90), four 8 x 8 matrices at a time.
///
/// # Safety
/// The warp's lanes execute it converged; nobody reads the buffer.
#[inline(always)]
pub(super) unsafe fn stage<T: Element>(
    buffer: u32,
    two: impl Fn(usize) -> [T; 2],
    chunk: u32,
    columns: u32,
    warp: u32,
    lane: u32,
) {
    let at = |row: u32, byte: u32| buffer + Swizzle::<128>::offset(ROWS, LINE, row, byte);
    let first = chunk * columns / 2;
    // SAFETY: passed on; every address is inside the buffer.
    unsafe {
        if T::BYTES == 2 {
            let mut piece = 0;
            while piece < columns / 8 {
                let i = |q: u32| pack(two((first + piece * 4 + q) as usize));
                let (row, byte) = matrix_line(warp, lane, piece);
                stmatrix::x4(at(row, byte), [i(0), i(2), i(4), i(6)]);
                piece += 2;
            }
        } else {
            let mut pair = 0;
            while pair < columns / 4 {
                let (row, byte) = pair_place(lane, pair, 4);
                let bits = two((first + pair * 2) as usize).map(T::bits);
                shared::store_u32x2(at(warp * 16 + row, byte), bits);
                pair += 1;
            }
        }
    }
}

/// Two neighbours of a block's registers.
#[inline(always)]
pub(super) fn two_of<T: Element, R: Registers<T>>(regs: &R, i: usize) -> [T; 2] {
    [regs.get(i), regs.get(i + 1)]
}

/// Two neighbours of a block's registers, packed.
#[inline(always)]
pub(super) fn pair_of<T: Element, R: Registers<T>>(regs: &R, i: usize) -> u32 {
    pack(two_of(regs, i))
}

/// One block's registers.
#[inline(always)]
pub(super) fn block_of<T: Copy, I: Registers<T>, O: Registers<I>>(
    regs: &crate::layout::registers::Nested<O, I>,
    block: usize,
) -> I {
    regs.blocks.get(block)
}

/// Rows that a warp stages at a time.
pub(super) const WARP_ROWS: u32 = 16;
