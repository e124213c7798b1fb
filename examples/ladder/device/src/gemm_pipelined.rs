//! GEMM, pipelined: the next tiles come while these are multiplied.
//!
//! So far all threads wait for the tiles to come, then all multiply, and memory rests. `cp.async` copies from global to shared
//! memory without a register and without waiting. A ring of stages has room for the tiles of several steps: while one is
//! multiplied, the next two are on their way. [`Pipeline::run`](tilewright_device::tile::Pipeline::run) is that loop. It takes two closures,
//! what fills a stage and what reads a full one, and knows who waits for whom; a stage that is being filled and one that is
//! full are different types. The copies are of 16 bytes, so lines of A and B begin and end at multiples of 16.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Fragment, Global, GlobalMut, Multistage, Shared, Threads, block_x, block_y, copy, gemm,
};

/// Rows, columns and depth of a tile.
pub const BM: usize = 128;
pub const BN: usize = 128;
const BK: usize = 16;
const STAGES: usize = 3;
type Warps = Multistage<8>;

/// C = A B.
#[kernel(program = Warps, expects(a.cols() == b.rows(), a.rows() == c.rows(), b.cols() == c.cols()))]
pub fn gemm_pipelined(mut cta: Cta<Warps>, a: Global<f32, 2>, b: Global<f32, 2>, mut c: GlobalMut<f32, 2>) {
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<f32, BM, BK, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f32, BK, BN, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let sums = pipe.run(
        0..a.cols().div_ceil(BK as u32),
        Fragment::<f32, BM, BN, _>::zero(),
        |s, k| {
            copy(a.tile([block_y(), k]), a_s.at(s));
            copy(b.tile([k, block_x()]), b_s.at(s));
        },
        |sums, s, _| gemm(Threads::<16, 16, 4>, a_s.at(s), b_s.at(s), sums),
    );
    copy(sums, c.tile([block_y(), block_x()]));
}
