//! Tiles from a queue, by all roles of a schedule.

use tilewright_device::tile::{
    Cta, Elements, Fragment, FragmentLayout, Global, GlobalMut, HandsOut, Multistage, OneConsumer, Shared,
    Striped, Swizzle, TileList, TileNumbers, TwoConsumersJointProducers, TwoConsumersThreeProducers,
    WarpSpecialized, atomic_add, copy,
};
use tilewright_device::{kernel, kernels};

use crate::copies::named;

/// Rows of a tile.
pub const ROWS: usize = 64;
/// Columns of a tile.
pub const COLS: usize = 32;

/// Every second row of tiles, from the last one on.
struct EverySecond {
    rows: u32,
    columns: u32,
}

/// A tile's row and column.
struct Place {
    row: u32,
    column: u32,
}

impl From<[u32; 4]> for Place {
    fn from([row, column, ..]: [u32; 4]) -> Self {
        Place { row, column }
    }
}

impl From<Place> for [u32; 4] {
    fn from(Place { row, column }: Place) -> Self {
        [row, column, 1, 2]
    }
}

impl TileList for EverySecond {
    type Tile = Place;

    #[inline(always)]
    fn tile(&mut self, number: u32) -> Option<Place> {
        let columns = self.columns.max(1);
        let (row, column) = (2 * (number / columns), number % columns);
        if row < self.rows { Some(Place { row: self.rows - 1 - row, column }) } else { None }
    }
}

/// y += x in every second row of tiles: what producers load and what consumers add are the same tiles, each of them once.
///
/// # Safety
/// `counter` is the address of a number that is 0 and that nothing else uses while the kernel runs, or 0.
#[kernel(program = P, expects(x.shape() == y.shape()))]
pub unsafe fn queued<P: HandsOut, L: FragmentLayout<ROWS, COLS>>(
    mut cta: Cta<P>,
    x: Global<f32, 2>,
    mut y: GlobalMut<f32, 2>,
    counter: u64,
) {
    let stages = cta.stages::<2>();
    let x_s = stages.alloc::<Shared<f32, ROWS, COLS, Swizzle<128>>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let numbers = if counter == 0 {
        TileNumbers::in_turn()
    } else {
        // SAFETY: the caller's.
        unsafe { TileNumbers::counted(counter as *mut u32) }
    };
    let list = EverySecond { rows: x.rows().div_ceil(ROWS as u32), columns: x.cols().div_ceil(COLS as u32) };
    for Place { row, column } in cta.tile_slots().queue(numbers, list) {
        let mut loads = pipe.loads(
            0..1,
            #[inline(always)]
            |s, _| copy(x.tile([row, column]), x_s.at(s)),
        );
        if !cta.computes() {
            continue;
        }
        let turn = loads.acquire();
        let tile = Fragment::<f32, ROWS, COLS, L>::load(x_s.at(turn.full()));
        loads.release_read(turn);
        atomic_add(tile, y.tile([row, column]));
    }
}

named! {
    sm_80 QueuedByWarps = queued<Multistage<4>, Striped<4>>;
    sm_80 QueuedByElements = queued<Multistage<2, Elements>, Striped<2>>;
    sm_90 QueuedByOneProducer = queued<WarpSpecialized<OneConsumer>, Striped<4>>;
    sm_90 QueuedByThreeProducers = queued<WarpSpecialized<TwoConsumersThreeProducers>, Striped<8>>;
    sm_90 QueuedByJointProducers = queued<WarpSpecialized<TwoConsumersJointProducers>, Striped<8>>;
}
