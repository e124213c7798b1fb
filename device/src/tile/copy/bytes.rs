//! Accumulators that are rounded to 8 bits as they are stored, 16 bytes a thread where four lanes hold 64 columns of a row, two of every 8: they
//! exchange them, so that each has all of another 16.

use super::quads::{APART, transposed};
use crate::arch::global;
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::layout::{Element, FragmentLayout, Major, Registers};
use crate::tile::cta::collective::expect_computing;
use crate::tile::memory::global_tile::GlobalTileMut;
use crate::tile::memory::window::Window;

/// Columns that a thread stores together.
const COLUMNS: u32 = 16;
/// Columns that four lanes exchange.
const EXCHANGED: u32 = 4 * COLUMNS;

/// Whether four lanes hold whole numbers of [`EXCHANGED`] columns of a row.
const fn exchanges<L: FragmentLayout<M, N>, const M: usize, const N: usize>() -> bool {
    let of_a_row = <L::Regs<f32> as Registers<f32>>::LEN / <L::Rows<f32> as Registers<f32>>::LEN;
    L::QUADS && (4 * of_a_row).is_multiple_of(EXCHANGED as usize)
}

/// Stores `each` of an accumulator's elements, rounded to `T` of 8 bits; what lies outside of the tensor is not stored. All threads that hold it execute it.
#[inline(always)]
pub(in crate::tile) fn store_bytes<
    T,
    O,
    L,
    const RANK: usize,
    const BOX: usize,
    const M: usize,
    const N: usize,
>(
    regs: &L::Regs<f32>,
    each: impl Fn(f32) -> f32,
    to: &GlobalTileMut<T, RANK, O, BOX>,
) where
    T: Element,
    O: Major,
    L: FragmentLayout<M, N>,
{
    expect_computing(L::THREADS);
    if thread_x() >= L::THREADS {
        return;
    }
    let thread = thread_x_volatile();
    let pair = |i: usize| T::pair_from_f32(each(regs.get(i)), each(regs.get(i + 1)));
    let tile = to.0.window(M, N);
    if const { O::ROW_MAJOR && exchanges::<L, M, N>() }
        && to.0.of.align >= COLUMNS
        && tile.cols.is_multiple_of(COLUMNS)
    {
        return store_exchanged::<T, L, M, N>(pair, &tile, thread);
    }
    let (row, col) = L::coord(thread, 0);
    let window = tile.from(row, col);
    let together = O::ROW_MAJOR && L::RUN.is_multiple_of(2) && to.0.of.align >= 2;
    let mut i = 0;
    while i < L::Regs::<f32>::LEN {
        let (bits, (row, col)) = (pair(i), L::offset(i));
        if together && row < window.rows && col + 2 <= window.cols {
            // SAFETY: both are inside the tensor and aligned as its host view says.
            unsafe { global::st_global_u16(window.at(row, col).cast(), bits as u16) }
        } else {
            window.write_byte(row, col, bits as u8);
            let (row, col) = L::offset(i + 1);
            window.write_byte(row, col, (bits >> 8) as u8);
        }
        i += 2;
    }
}

/// Stores the pairs of registers that `pair` gives, each from one on, to `tile`, whose columns inside the tensor are a multiple of [`COLUMNS`] and whose rows
/// begin at multiples of 16 bytes. All threads that hold the accumulator execute it, whose layout [exchanges].
#[inline(always)]
fn store_exchanged<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    pair: impl Fn(usize) -> u32,
    tile: &Window<T>,
    thread: u32,
) {
    let (lane, (row, col)) = (thread % 4, L::coord(thread, 0));
    // From two columns of the first 8 to all of the lane's own.
    let window = tile.from(row, col + (COLUMNS - 2) * lane);
    let mut i = 0;
    while i < L::Regs::<f32>::LEN {
        let (row, col) = L::offset(i);
        if col % EXCHANGED == 0 {
            let words = of_sixteens(&pair, i);
            let inside = row < window.rows && col < window.cols;
            // SAFETY: all lanes of the warp are here. What is inside the tensor is so with all of its 16 columns, which are aligned as the caller says.
            unsafe {
                let piece = eights(transposed(words, lane));
                let at = window.at(row, 0).wrapping_add(col as usize);
                global::st_global_u32x4_if(at.cast(), piece, inside);
            }
        }
        i += 2;
    }
}

/// What a lane holds of [`EXCHANGED`] columns from register `i` on: for each 16 a word, two of the first 8 and two of the last.
#[inline(always)]
fn of_sixteens(pair: impl Fn(usize) -> u32, i: usize) -> [u32; 4] {
    [0, 2, 4, 6].map(|n| pair(i + n * APART) | pair(i + (n + 1) * APART) << 16)
}

/// 16 neighbours, of words that have two of the first 8 and two of the last 8 each.
#[inline(always)]
fn eights([a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let low = |a: u32, b: u32| a & 0xffff | b << 16;
    let high = |a: u32, b: u32| a >> 16 | b & 0xffff_0000;
    [low(a, b), low(c, d), high(a, b), high(c, d)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::FullRow;

    /// Columns, as bytes, go the way of elements: each lane ends with 16 neighbours of its row, behind those of the lane before.
    fn neighbours<L: FragmentLayout<M, N>, const M: usize, const N: usize>() {
        assert!(const { exchanges::<L, M, N>() });
        let mut pieces = 0;
        for quad in 0..L::THREADS / 4 {
            for i in (0..L::Regs::<f32>::LEN).step_by(2) {
                if L::offset(i).1 % EXCHANGED != 0 {
                    continue;
                }
                let held = [0, 1, 2, 3].map(|lane| {
                    let col = |i| L::coord(4 * quad + lane, i).1;
                    of_sixteens(|i| col(i) | col(i + 1) << 8, i)
                });
                let (_, first) = L::coord(4 * quad, i);
                for lane in 0..4u32 {
                    let piece = eights(held.map(|words| words[lane as usize]));
                    for e in 0..COLUMNS {
                        let col = piece[e as usize / 4] >> (e % 4 * 8) & 0xff;
                        assert_eq!(
                            col,
                            first + lane * COLUMNS + e,
                            "lane {lane} of quad {quad}, register {i}"
                        );
                    }
                    pieces += 1;
                }
            }
        }
        assert_eq!(pieces, M * N / COLUMNS as usize, "all of the tile");
    }

    #[test]
    fn lanes_exchange_columns_for_neighbours() {
        neighbours::<FullRow<1>, 64, 64>();
        neighbours::<FullRow<2>, 128, 256>();
        neighbours::<FullRow<3>, 192, 128>();
    }

    #[test]
    fn narrow_tiles_are_not_exchanged() {
        assert!(const { !exchanges::<FullRow<1>, 64, 16>() });
        assert!(const { !exchanges::<FullRow<2>, 128, 96>() });
    }
}
