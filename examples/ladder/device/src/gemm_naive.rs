//! GEMM, naive: a thread for each element of C.
//!
//! The layout [`Threads<32, 32>`](Threads) gives each of 1024 threads one element of a 32 x 32 tile, and `map_indexed` tells it which. It walks
//! along its row of A and its column of B, two loads for one multiplication. The 32 threads of a warp are neighbours in a row: they
//! read one number of A, all the same, and 32 neighbours of B, so that no byte is fetched in vain. But all elements of a row of C
//! read the same row of A again, from the caches if all goes well: the arithmetic units wait for loads nearly all the time.

use tilewright_device::kernel;
use tilewright_device::tile::{Fragment, Global, GlobalMut, Threads, block_x, block_y, copy, math};

/// Rows and columns of a CTA's tile of C.
pub const TILE: usize = 32;

/// C = A B.
#[kernel(threads = (TILE * TILE) as u32, expects(a.cols() == b.rows(), a.rows() == c.rows(), b.cols() == c.cols()))]
pub fn gemm_naive(a: Global<f32, 2>, b: Global<f32, 2>, mut c: GlobalMut<f32, 2>) {
    let (rows, columns) = (a.tile([block_y(), 0]), b.tile([0, block_x()]));
    let sums = Fragment::<f32, TILE, TILE, Threads<TILE, TILE>>::zero().map_indexed(|row, col, zero| {
        let mut sum = zero;
        for k in 0..a.cols() {
            sum = math::fma(rows.element::<TILE, 1>(row, k), columns.element::<1, TILE>(k, col), sum);
        }
        sum
    });
    copy(sums, c.tile([block_y(), block_x()]));
}
