//! Accumulators of 16-bit elements, stored 16 bytes a thread: the four lanes that hold two columns each of every 8 exchange them, so that
//! each has all of another 8.

use super::fragment::gather;
use crate::arch::warp::shfl_bfly_u32;
use crate::arch::{global, sync};
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::fragment::Fragment;
use crate::tile::memory::window::Window;

/// Columns that a thread stores together: 16 bytes.
pub(super) const COLUMNS: u32 = 8;
/// Columns that four lanes exchange.
const EXCHANGED: u32 = 4 * COLUMNS;
/// Registers between those of a thread's columns in one 8 and in the next.
pub(super) const APART: usize = 4;

/// Whether [`store`] stores fragments of this layout.
pub(super) const fn serves<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> bool {
    let of_a_row = <L::Regs<T> as Registers<T>>::LEN / <L::Rows<T> as Registers<T>>::LEN;
    L::QUADS && T::BYTES == 2 && (4 * of_a_row).is_multiple_of(EXCHANGED as usize)
}

/// Stores a fragment that [`serves`] says is stored so to `tile`, whose columns inside the tensor are a multiple of [`COLUMNS`] and whose rows begin at
/// multiples of 16 bytes. All threads that hold the fragment execute it.
#[inline(always)]
pub(super) fn store<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    fragment: &Fragment<T, M, N, L>,
    tile: &Window<T>,
    thread: u32,
) {
    let (lane, (row, col)) = (thread % 4, L::coord(thread, 0));
    // From two columns of the first 8 to all of the lane's own.
    let window = tile.from(row, col + (COLUMNS - 2) * lane);
    // Lanes read tiles, before and after, by their own columns: not while others store these.
    // SAFETY: all lanes of the warp are here.
    unsafe { sync::sync_warp() }
    let mut i = 0;
    while i < L::Regs::<T>::LEN {
        let (row, col) = L::offset(i);
        if col % EXCHANGED == 0 {
            let words = [0, 1, 2, 3].map(|n| gather(&fragment.regs, i + n * APART, 2)[0]);
            let inside = row < window.rows && col < window.cols;
            // SAFETY: all lanes of the warp are here. What is inside the tensor is so with all of its 8 columns, which are aligned as the caller says.
            unsafe {
                let words = transposed(words, lane);
                global::st_global_u32x4_if(
                    window.at(row, 0).wrapping_add(col as usize).cast(),
                    words,
                    inside,
                );
            }
        }
        i += 2;
    }
    // SAFETY: as above.
    unsafe { sync::sync_warp() }
}

/// The `lane`-th words of four lanes, of which this one is the `lane`-th.
///
/// # Safety
/// All lanes of the warp execute it.
#[inline(always)]
pub(super) unsafe fn transposed([a, b, c, d]: [u32; 4], lane: u32) -> [u32; 4] {
    // SAFETY: the caller's.
    unsafe {
        // Within pairs of lanes, then between them.
        let ([a, b], [c, d]) = (swapped([a, b], lane, 1), swapped([c, d], lane, 1));
        let ([a, c], [b, d]) = (swapped([a, c], lane, 2), swapped([b, d], lane, 2));
        [a, b, c, d]
    }
}

/// Of two words each of lane `lane` and of lane `lane ^ distance` the first ones, or in the upper lane the second ones, the lower lane's first.
///
/// # Safety
/// All lanes of the warp execute it.
#[inline(always)]
unsafe fn swapped([first, second]: [u32; 2], lane: u32, distance: u32) -> [u32; 2] {
    let upper = lane & distance != 0;
    // SAFETY: the caller's.
    let other = unsafe { shfl_bfly_u32(if upper { first } else { second }, distance) };
    if upper { [other, second] } else { [first, other] }
}
