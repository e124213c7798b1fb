//! Vector add: what a kernel is.
//!
//! The grid's CTAs run the same function, each on a tile of its own, which `block_x()` chooses. The 32 threads of this CTA hold 512
//! numbers together, a [`Fragment`]: `load` brings them from global memory to registers, `zip` computes, `copy` stores them. Where the
//! vector ends within a tile, zeros are read and nothing is stored. How a fragment lies over threads is its layout:
//! `Threads<1, 32, 4>` is a row of 32 threads with 4 neighbouring numbers each, then 4 more behind those of all the others. So a thread
//! moves 16 bytes at a time and the threads of a warp move neighbours, which is all that there is to a kernel that adds
//! one number to another: memory is what it waits for.

use tilewright_device::kernel;
use tilewright_device::tile::{Fragment, Global, GlobalMut, Threads, block_x, copy};

/// Numbers of a CTA.
pub const TILE: usize = 512;

/// z = x + y, for vectors as matrices of one row.
#[kernel(threads = 32, expects(x.cols() == z.cols(), y.cols() == z.cols()))]
pub fn vector_add(x: Global<f32, 2>, y: Global<f32, 2>, mut z: GlobalMut<f32, 2>) {
    let place = [0, block_x()];
    let x = Fragment::<f32, 1, TILE, Threads<1, 32, 4>>::load(x.tile(place));
    let y = Fragment::load(y.tile(place));
    copy(x.zip(&y, |x, y| x + y), z.tile(place));
}
