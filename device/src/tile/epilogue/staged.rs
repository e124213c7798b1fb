//! Tiles that a kernel stages in shared memory by itself, on their way to global memory.

use crate::arch::tma::Coords;
use crate::layout::{Element, Major, SharedLayout};
use crate::tile::epilogue::output::staging::drain;
use crate::tile::memory::global_tile::GlobalTileMut;

impl<T: Element, O: Major, const RANK: usize, const BOX: usize> GlobalTileMut<T, RANK, O, BOX> {
    /// Whether TMA can store boxes of it: it is row-major, a tile of all rows, and rows are multiples of 16 bytes. At other multiples TMA does not cut lines
    /// off, and would overwrite what follows a ragged one.
    #[inline(always)]
    pub fn takes_boxes(&self) -> bool {
        self.0.is_of_all()
            && self.0.of.tma
            && (self.0.of.cols() * T::BYTES as u32).is_multiple_of(16)
            && O::ROW_MAJOR
    }

    /// Begins to store the box at (row, col) of the tile, if tiles are of `m` x `n`, from the staging buffer `from`.
    ///
    /// # Safety
    /// The tensor [takes boxes](Self::takes_boxes). A box of `BOX` lines of 128 bytes lies at `from`, swizzled over 128 bytes, which
    /// the asynchronous units see. One thread executes it, commits, and waits before the buffer is written again.
    #[inline(always)]
    pub unsafe fn store_box(&self, [m, n]: [usize; 2], [row, col]: [u32; 2], from: u32)
    where
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe { self.0.box_at(m, n, row, col).store(self.0.of.map, from) }
    }

    /// Stores what is staged as `lines` lines of `width` elements laid out by `S`, from (row, col) of the tile on, if tiles are of `m`
    /// x `n`: nothing outside the tensor. The `threads` threads that call it each say which of them they are.
    ///
    /// # Safety
    /// The elements lie at `from`, and these threads see them.
    #[inline(always)]
    pub unsafe fn store_lines<S: SharedLayout>(
        &self,
        [m, n]: [usize; 2],
        [row, col]: [u32; 2],
        (from, lines, width): (u32, u32, u32),
        (thread, threads): (u32, u32),
    ) {
        // SAFETY: passed on.
        unsafe {
            drain::<T, S>(from, (lines, width), (row, col), &self.0.window(m, n), (thread, threads));
        }
    }
}
