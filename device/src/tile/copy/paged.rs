//! From pages in global memory to a stage in shared memory.

use crate::abi::SWIZZLE_BYTES;
use crate::arch::tma::Coords;
use crate::arch::{cp_async, mbarrier, shared};
use crate::layout::{Element, RowMajor, SharedLayout};
use crate::tile::copy::load::{PIECE, for_each_piece};
use crate::tile::memory::paged::PagedTile;
use crate::tile::memory::shared::{Shared, SharedTile};
use crate::tile::memory::window::read_if;

/// Pages whose numbers are read at a time. With more of them the first copy is issued later, and more registers are needed.
const AHEAD: usize = 2;

/// Copies a tile by TMA, a box for each page, completing on `barrier`; called by one thread.
///
/// The map's boxes have [`PageTable::box_rows`] rows.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L>` that nobody reads, `barrier` is its stage's full barrier.
#[inline(always)]
pub(crate) unsafe fn paged_tma<T, L, const BOX: usize, const R: usize, const C: usize>(
    from: PagedTile<T, BOX>,
    to: u32,
    barrier: u32,
) where
    T: Element,
    L: SharedLayout,
{
    const { assert!(L::SWIZZLE == SWIZZLE_BYTES, "TMA boxes are swizzled over 128 bytes") };
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    let (rows, first) = (from.pages.box_rows(lines), from.first + from.index * lines);
    let boxes = |across: u32, page: u32, row: u32| {
        let mut along = 0;
        while along < line / SWIZZLE_BYTES {
            let coords =
                [(from.column * line + along * SWIZZLE_BYTES) / T::BYTES as u32, row, from.head, page];
            let to = to + (along * lines + across) * SWIZZLE_BYTES;
            // SAFETY: passed on; the boxes tile the destination, and the barrier expects all their bytes, which
            // TMA delivers in full also where a box reaches outside the tensor.
            unsafe { coords.load_hint(to, from.of.map, barrier, from.of.policy) };
            along += 1;
        }
    };
    // SAFETY: the caller's.
    unsafe { mbarrier::expect_tx(barrier, Shared::<T, R, C, L, RowMajor>::bytes()) };
    if rows == lines {
        let (page, row) = from.pages.place(from.sequence, first);
        return boxes(0, page, row);
    }
    let mut across = 0;
    while across < lines {
        let pages = from.pages.pages::<AHEAD>(from.sequence, first + across, rows);
        let mut i = 0;
        while i < AHEAD {
            if across < lines {
                boxes(across, pages[i], from.pages.row(first + across));
            }
            across += rows;
            i += 1;
        }
    }
}

/// The address of element `col` of row `row` of a tile of `lines` x `columns`, and whether it is inside the sequence and the tensor.
#[inline(always)]
fn place<T: Element, const BOX: usize>(
    from: &PagedTile<T, BOX>,
    [lines, columns]: [u32; 2],
    row: u32,
    col: u32,
) -> (*mut T, bool) {
    let (row, col) = (from.index * lines + row, from.column * columns + col);
    let inside = row < from.rows && col < from.of.shape[3];
    let (page, row) = if inside { from.pages.place(from.sequence, row) } else { (u32::MAX, 0) };
    let offset = page as u64 * from.of.strides[0]
        + from.head as u64 * from.of.strides[1]
        + row as u64 * from.of.strides[2]
        + col as u64 * from.of.strides[3];
    (from.of.pointer.wrapping_add(offset as usize), page < from.of.shape[0])
}

/// Copies a tile by `cp.async` in pieces of 16 bytes; called by all of `threads` threads.
///
/// # Safety
/// As for `vector_load`.
#[inline(always)]
pub(crate) unsafe fn paged_vectors<T, L, const BOX: usize, const R: usize, const C: usize>(
    from: PagedTile<T, BOX>,
    to: u32,
    threads: u32,
) where
    T: Element,
    L: SharedLayout,
{
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    for_each_piece(lines, line, threads, 8, |row, byte| {
        let (source, inside) = place(&from, [lines, C as u32], row, byte / T::BYTES as u32);
        // SAFETY: passed on; only pieces inside the tensor are read.
        unsafe { cp_async::copy16_if(to + L::offset(lines, line, row, byte), source.cast(), inside) }
    });
}

/// Copies a tile element by element, for any strides and alignment; called by all of `threads` threads.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L>` that nobody reads.
#[inline(always)]
pub(crate) unsafe fn paged_elements<T, L, const BOX: usize, const R: usize, const C: usize>(
    from: PagedTile<T, BOX>,
    to: u32,
    threads: u32,
) where
    T: Element,
    L: SharedLayout,
{
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    for_each_piece(lines, line, threads, 2, |row, byte| {
        let (per_word, bits) = (4 / T::BYTES as u32, 8 * T::BYTES as u32);
        let mut words = [0; 4];
        let mut i = 0;
        while i < PIECE / T::BYTES as u32 {
            let (source, inside) = place(&from, [lines, C as u32], row, byte / T::BYTES as u32 + i);
            // SAFETY: only elements inside the tensor are read.
            words[(i / per_word) as usize] |= unsafe { read_if(source, inside) } << (i % per_word * bits);
            i += 1;
        }
        // SAFETY: passed on.
        unsafe { shared::store_u32x4(to + L::offset(lines, line, row, byte), words) };
    });
}
