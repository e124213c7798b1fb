//! Sums whose additions have an order.

use tilewright_device::tile::{
    Cta, Fragment, FullRow, Global, GlobalMut, RowMajor, SumTurn, TileList, TileNumbers,
    TwoConsumersTwoProducersAdder, WarpSpecialized,
};
use tilewright_device::{kernel, kernels};

use crate::copies::named;

/// Rows and columns of a tile.
pub const ROWS: usize = 128;
/// Columns of a tile.
pub const COLS: usize = 64;

/// So many tiles.
struct Numbered(u32);

/// A tile's number.
struct Number(u32);

impl From<[u32; 4]> for Number {
    fn from([number, ..]: [u32; 4]) -> Self {
        Number(number)
    }
}

impl From<Number> for [u32; 4] {
    fn from(Number(number): Number) -> Self {
        [number, 0, 0, 0]
    }
}

impl TileList for Numbered {
    type Tile = Number;

    #[inline(always)]
    fn tile(&mut self, number: u32) -> Option<Number> {
        if number < self.0 { Some(Number(number)) } else { None }
    }
}

/// Adds the tiles of x that lie below each other to each of the lines of sums, in the order of the tiles: a CTA takes the next one whenever it is done with one. `PARTS`
/// lines are parts of one addition, and have one turn.
///
/// # Safety
/// `counters` is the address of a number, and of one more for each turn, that are 0 and that nothing else uses while the kernel runs.
#[kernel(program = WarpSpecialized<TwoConsumersTwoProducersAdder>, expects(sums.cols() == (ROWS * COLS) as u32))]
pub unsafe fn added_in_turn<const PARTS: u32>(
    mut cta: Cta<WarpSpecialized<TwoConsumersTwoProducersAdder>>,
    x: Global<f32, 2, RowMajor, 0>,
    sums: GlobalMut<f32, 2, RowMajor, 0>,
    counters: u64,
) {
    let (mut room, slots) = (cta.block_sums::<ROWS, COLS, FullRow<2>>(), cta.tile_slots());
    let counter = |i: u32| (counters + 4 * i as u64) as *mut u32;
    // SAFETY: the caller's.
    let numbers = unsafe { TileNumbers::in_order(counter(0)) };
    let (lines, mut put) = (sums.rows(), 0);
    for Number(tile) in slots.queue(numbers, Numbered(x.rows().div_ceil(ROWS as u32))) {
        if !cta.computes() {
            let mut line = 0;
            // SAFETY: lines of as many elements, which CTAs add to alone; one with a lower number has begun.
            unsafe {
                room.add::<PARTS>(&cta, lines, || {
                    let at = sums.reader().pointer().cast_mut().wrapping_add(line as usize * ROWS * COLS);
                    let turn = SumTurn::new(counter(1 + line / PARTS), tile);
                    line += 1;
                    (at, Some(turn))
                });
            }
            continue;
        }
        let x = Fragment::<f32, ROWS, COLS, FullRow<2>>::load(x.tile([tile, 0]));
        let mut line = 0;
        while line < lines {
            // SAFETY: all of the CTA's are numbered from the first one on.
            unsafe { room.put(x, put) };
            (line, put) = (line + 1, put + 1);
        }
    }
}

named! {
    sm_90 AddedInTurn = added_in_turn<1>;
    sm_90 AddedInParts = added_in_turn<2>;
}
