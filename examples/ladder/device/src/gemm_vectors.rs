//! GEMM, vectorised: one instruction moves four numbers.
//!
//! A load of 16 bytes costs an instruction as one of 4 does. The third parameter of [`Threads`] is how many neighbours of a row a
//! thread owns: with 4 all accesses, to global and to shared memory, are of 16 bytes, a quarter as many instructions.
//! The loop's 64 multiplications now come with 4 loads.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Fragment, Global, GlobalMut, Pending, Shared, Simt, Threads, block_x, block_y, copy, gemm,
};

/// Rows, columns and depth of a tile.
pub const BM: usize = 128;
pub const BN: usize = 128;
const BK: usize = 16;

/// C = A B.
#[kernel(program = Simt<8>, min_ctas = 2, expects(a.cols() == b.rows(), a.rows() == c.rows(), b.cols() == c.cols()))]
pub fn gemm_vectors(mut cta: Cta<Simt<8>>, a: Global<f32, 2>, b: Global<f32, 2>, mut c: GlobalMut<f32, 2>) {
    let mut a_s = cta.scratch::<Shared<f32, BM, BK, _>>();
    let mut b_s = cta.scratch::<Shared<f32, BK, BN, _>>();
    let mut sums = Fragment::<f32, BM, BN, _>::zero();
    for k in 0..a.cols().div_ceil(BK as u32) {
        let a_k = Fragment::<f32, BM, BK, Threads<64, 4, 4>>::load(a.tile([block_y(), k]));
        let b_k = Fragment::<f32, BK, BN, Threads<8, 32, 4>>::load(b.tile([k, block_x()]));
        copy(a_k, &mut a_s);
        copy(b_k, &mut b_s);
        sums = gemm(Threads::<16, 16, 4>, a_s.full(), b_s.full(), sums).wait();
    }
    copy(sums, c.tile([block_y(), block_x()]));
}
