//! Neighbours within a row: pairs and halves.

use tilewright_device::tile::{
    Fragment, FragmentLayout, Global, GlobalMut, Spread, Striped, block_x, copy, warp,
};
use tilewright_device::{kernel, kernels};

use crate::copies::named;

/// What becomes of two elements that belong together.
pub fn mixed(a: f32, b: f32) -> (i32, i32) {
    ((a - 2.0 * b) as i32, (3.0 * a + b) as i32)
}

/// Pairs and halves of the rows of x \[rows, `N`\], mixed.
#[kernel(threads = <L as FragmentLayout<M, N>>::THREADS, expects(x.cols() == N as u32))]
pub fn neighbours<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    x: Global<f32, 2>,
    mut pairs: GlobalMut<i32, 2>,
    mut halves: GlobalMut<i32, 2>,
) {
    let place = [block_x(), 0];
    let x = Fragment::<f32, M, N, L>::load(x.tile(place));
    copy(x.zip_pairs(mixed), pairs.tile(place));
    copy(x.zip_halves(mixed), halves.tile(place));
}

named! {
    // Halves of a row in other lanes; in the same thread; pairs in other lanes, over several warps; interleaved rows.
    sm_80 NeighboursOfLanes = neighbours<Striped<4>, 32, 128>;
    sm_80 NeighboursOfStripes = neighbours<Striped<4>, 8, 512>;
    sm_80 NeighboursOfWarps = neighbours<Spread<4, 64, 8, 1>, 2, 512>;
    sm_80 NeighboursOfAccumulators = neighbours<warp::FullRow<4>, 64, 48>;
    sm_80 NeighboursOfNarrow = neighbours<warp::FullRow<4>, 64, 8>;
}

/// What the host must know to divide a matrix into tiles.
pub trait Neighbours {
    /// Rows of a tile, and columns of the matrix.
    const TILE: [usize; 2];
}

impl<L, const M: usize, const N: usize> Neighbours for neighbours<L, M, N> {
    const TILE: [usize; 2] = [M, N];
}
