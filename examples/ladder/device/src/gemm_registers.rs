//! GEMM, register-tiled: what a thread has loaded it uses eight times.
//!
//! 256 threads share a 128 x 128 tile of C, `Threads<16, 16>`: each owns 8 x 8 of it, in registers. At each step of the depth it loads
//! 8 numbers of A and 8 of B and multiplies each with each: 16 loads for 64 multiplications, where the level before took 128.
//! Shared memory no longer is what everything waits for. The text of the kernel is that of the level before: what
//! changed is the shape of the tile and the policy, and layouts follow from these.

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
pub fn gemm_registers(mut cta: Cta<Simt<8>>, a: Global<f32, 2>, b: Global<f32, 2>, mut c: GlobalMut<f32, 2>) {
    let mut a_s = cta.scratch::<Shared<f32, BM, BK, _>>();
    let mut b_s = cta.scratch::<Shared<f32, BK, BN, _>>();
    let mut sums = Fragment::<f32, BM, BN, _>::zero();
    for k in 0..a.cols().div_ceil(BK as u32) {
        let a_k = Fragment::<f32, BM, BK, Threads<16, 16>>::load(a.tile([block_y(), k]));
        let b_k = Fragment::<f32, BK, BN, Threads<8, 32>>::load(b.tile([k, block_x()]));
        copy(a_k, &mut a_s);
        copy(b_k, &mut b_s);
        sums = gemm(Threads::<16, 16>, a_s.full(), b_s.full(), sums).wait();
    }
    copy(sums, c.tile([block_y(), block_x()]));
}
