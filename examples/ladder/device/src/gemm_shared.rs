//! GEMM, tiled in shared memory: what the threads of a CTA need in common is fetched once.
//!
//! For 32 steps of the depth all 1024 threads together read one 32 x 32 tile of A and one of B: each of these numbers is used by 32
//! threads, so that global memory gives a 32nd of what the naive kernel asks for. The tiles lie in shared memory, a
//! [`Scratch`](tilewright_device::tile::Scratch) each, and `gemm` by the policy `Threads<32, 32>` is the loop of the level before, over
//! these tiles. Nobody may write a tile that another thread still reads, nor read what is not yet there: `copy` to a
//! `&mut` scratch waits for all threads before and after, and what `full()` lends cannot be kept over it. There is no
//! barrier to forget. Still every multiplication takes two loads, now from shared memory: that is the next limit.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Fragment, Global, GlobalMut, Pending, Shared, Simt, Threads, block_x, block_y, copy, gemm,
};

/// Rows, columns and depth of a tile.
pub const TILE: usize = 32;

/// C = A B.
#[kernel(program = Simt<32>, expects(a.cols() == b.rows(), a.rows() == c.rows(), b.cols() == c.cols()))]
pub fn gemm_shared(mut cta: Cta<Simt<32>>, a: Global<f32, 2>, b: Global<f32, 2>, mut c: GlobalMut<f32, 2>) {
    let mut a_s = cta.scratch::<Shared<f32, TILE, TILE, _>>();
    let mut b_s = cta.scratch::<Shared<f32, TILE, TILE, _>>();
    let mut sums = Fragment::<f32, TILE, TILE, _>::zero();
    for k in 0..a.cols().div_ceil(TILE as u32) {
        let a_k = Fragment::<f32, TILE, TILE, Threads<TILE, TILE>>::load(a.tile([block_y(), k]));
        let b_k = Fragment::<f32, TILE, TILE, Threads<TILE, TILE>>::load(b.tile([k, block_x()]));
        copy(a_k, &mut a_s);
        copy(b_k, &mut b_s);
        sums = gemm(Threads::<TILE, TILE>, a_s.full(), b_s.full(), sums).wait();
    }
    copy(sums, c.tile([block_y(), block_x()]));
}
