//! From registers to global memory, through staging buffers in shared memory.

pub mod columns;
mod warps;

use core::marker::PhantomData;

use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::tma::{self, Coords};
use crate::arch::{shared, stmatrix, sync};
use crate::layout::element::pack;
use crate::layout::registers::{ColumnBlocks, ColumnsOf, RowBlocks, RowsOf};
use crate::layout::{Element, FragmentLayout, Major, Registers, SharedLayout, Swizzle, Warpgroups};
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::cta::collective::{Collective, expect_policy};
use crate::tile::cta::{Cta, TILE_ALIGN};
use crate::tile::fragment::Fragment;
use crate::tile::memory::global::GlobalTileMut;
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

    /// Stores the fragment; elements outside the tensor are not stored.
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
        unsafe {
            if O::ROW_MAJOR {
                L::store(self.base, &fragment.regs, &tile)
            } else {
                L::store_columns(self.base, &fragment.regs, &tile)
            }
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
unsafe fn drain_lines<
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
const fn buffers(height: usize, width: usize) -> u32 {
    if height * width <= (ROWS * LINE / 2) as usize { 1 } else { 2 }
}

/// Whether a tile of so many steps ends with the one of two buffers that the next tile begins with, so that this waits for all
/// stores, not for all but the last.
const fn ends_where_it_begins(steps: u32) -> bool {
    steps > 1 && steps % 2 == 1
}

/// Columns of one staged buffer: the fragment's width if a line has room for it, else as many as divide both.
const fn staged_columns(width: usize, bytes: usize) -> u32 {
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
const fn pair_place(lane: u32, pair: u32, bytes: u32) -> (u32, u32) {
    (lane / 4 + pair % 2 * 8, (pair / 2 * 8 + lane % 4 * 2) * bytes)
}

/// Stores rows 16 `warp` to 16 `warp` + 15 of a block's columns from `chunk` on into a staging buffer.
///
/// 16-bit elements go by `stmatrix` (sm_90), four 8 x 8 matrices at a time.
///
/// # Safety
/// The warp's lanes execute it converged; nobody reads the buffer.
#[inline(always)]
unsafe fn stage<T: Element, R: Registers<T>>(
    buffer: u32,
    regs: &R,
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
                let i = |q: u32| {
                    let r = (first + piece * 4 + q) as usize;
                    pack([regs.get(r), regs.get(r + 1)])
                };
                let (row, byte) = matrix_line(warp, lane, piece);
                stmatrix::x4(at(row, byte), [i(0), i(2), i(4), i(6)]);
                piece += 2;
            }
        } else {
            let mut pair = 0;
            while pair < columns / 4 {
                let r = (first + pair * 2) as usize;
                let (row, byte) = pair_place(lane, pair, 4);
                shared::store_u32x2(at(warp * 16 + row, byte), [regs.get(r).bits(), regs.get(r + 1).bits()]);
                pair += 1;
            }
        }
    }
}

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
                    if !by_tma || !tile.0.holds(M, row + ROWS) {
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
                if by_tma && tile.0.holds(M, row + ROWS) {
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
        if wide && T::BYTES == 2 && columns::staging_bytes(WM * WN, M / WM, N / WN) <= Self::STAGING_BYTES {
            // SAFETY: passed on.
            unsafe { columns::store_columns::<T, O, RANK, BOX, M, N, WM, WN>(staging, regs, tile) }
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

/// One block's registers.
#[inline(always)]
fn block_of<T: Copy, I: Registers<T>, O: Registers<I>>(
    regs: &crate::layout::registers::Nested<O, I>,
    block: usize,
) -> I {
    regs.blocks.get(block)
}

/// Rows that a warp stages at a time.
const WARP_ROWS: u32 = 16;

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
        Output::new(self.reserve(L::STAGING_BYTES, TILE_ALIGN))
    }
}
