//! Scans of rows and of columns, by an operator that is not commutative.

use tilewright_device::tile::{
    Collective, Cols, Cta, Fragment, FragmentLayout, Global, GlobalMut, Rows, Scan, Simt, Spread, Striped,
    Threads, block_x, copy, warp,
};
use tilewright_device::{kernel, kernels};

use crate::copies::named;

/// The map v -> a v + b, modulo 2^32.
pub type Affine = (u32, u32);

/// What is carried in to a row or column.
pub const FIRST: Affine = (3, 7);

/// The map of an element: the identity of 0.
pub fn affine(x: i32) -> Affine {
    (2 * x as u32 + 1, x as u32)
}

/// First `a`, then `b`.
pub fn then(a: Affine, b: Affine) -> Affine {
    (a.0.wrapping_mul(b.0), a.1.wrapping_mul(b.0).wrapping_add(b.1))
}

/// What a map makes of 1.
pub fn of_one(a: Affine) -> i32 {
    a.0.wrapping_add(a.1) as i32
}

/// Inclusive, or exclusive where that is 1.
fn kind(exclusive: u32) -> Scan {
    if exclusive == 1 { Scan::Exclusive } else { Scan::Inclusive }
}

/// y = what the maps of each row of x up to each element make of 1, and `all` = what all of them do.
#[kernel(program = P, expects(x.shape() == y.shape()))]
pub fn row_scans<P: Collective, L: FragmentLayout<R, C>, const R: usize, const C: usize>(
    mut cta: Cta<P>,
    x: Global<i32, 2>,
    mut y: GlobalMut<i32, 2>,
    mut all: GlobalMut<i32, 2>,
    exclusive: u32,
) {
    let mut rows = cta.row_scanner::<L, R, C>();
    let mut carry = Rows::splat(FIRST);
    for part in 0..x.cols().div_ceil(C as u32) {
        let place = [block_x(), part];
        let maps = Fragment::<i32, R, C, L>::load(x.tile(place)).map(affine);
        let scanned;
        (scanned, carry) = rows.scan(maps, carry, kind(exclusive), then);
        copy(scanned.map(of_one), y.tile(place));
    }
    copy(carry.map(of_one), all.tile([block_x(), 0]));
}

/// The same of columns.
#[kernel(program = P, expects(x.shape() == y.shape()))]
pub fn col_scans<P: Collective, L: FragmentLayout<R, C>, const R: usize, const C: usize>(
    mut cta: Cta<P>,
    x: Global<i32, 2>,
    mut y: GlobalMut<i32, 2>,
    mut all: GlobalMut<i32, 2>,
    exclusive: u32,
) {
    let mut cols = cta.col_scanner::<Affine, L, R, C>();
    let mut carry = Cols::splat(FIRST);
    for part in 0..x.rows().div_ceil(R as u32) {
        let place = [part, block_x()];
        let maps = Fragment::<i32, R, C, L>::load(x.tile(place)).map(affine);
        let scanned;
        (scanned, carry) = cols.scan(maps, carry, kind(exclusive), then);
        copy(scanned.map(of_one), y.tile(place));
    }
    let carried = Fragment::<i32, R, C, L>::splat(0).zip_cols(&carry, |_, carry| of_one(carry));
    copy(carried, all.tile([0, block_x()]));
}

named! {
    sm_80 RowsOfLanes = row_scans<Simt<4>, Spread<4, 8, 8, 4>, 16, 64>;
    sm_80 RowsOfStripes = row_scans<Simt<4>, Striped<4>, 32, 128>;
    sm_80 RowsOfAccumulators = row_scans<Simt<4>, warp::FullRow<4>, 64, 32>;
    sm_80 RowsOfWarps = row_scans<Simt<4>, Spread<4, 64, 8, 1>, 2, 512>;
    sm_80 RowsOfManyValues = row_scans<Simt<16>, Spread<16, 512, 6, 2>, 1, 3072>;

    sm_80 ColsOfThreads = col_scans<Simt<4>, Threads<8, 16, 4>, 32, 64>;
    sm_80 ColsOfStripes = col_scans<Simt<4>, Striped<4>, 32, 128>;
    sm_80 ColsOfAccumulators = col_scans<Simt<4>, warp::Square<2, 2>, 64, 32>;
    sm_80 ColsOfOneWarp = col_scans<Simt<4>, warp::FullCol<4>, 32, 64>;
    sm_80 ColsOfSpread = col_scans<Simt<4>, Spread<4, 32, 4, 2>, 4, 128>;
}

/// What the host must know to divide a matrix into tiles.
pub trait Tile {
    /// Rows and columns of a tile.
    const TILE: [usize; 2];
}

impl<P, L, const R: usize, const C: usize> Tile for row_scans<P, L, R, C> {
    const TILE: [usize; 2] = [R, C];
}

impl<P, L, const R: usize, const C: usize> Tile for col_scans<P, L, R, C> {
    const TILE: [usize; 2] = [R, C];
}
