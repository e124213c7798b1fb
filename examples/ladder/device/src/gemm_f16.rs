//! GEMM of f16 on tensor cores: half the bytes, twice the products.
//!
//! An `mma.sync` of f16 multiplies twice as deep as one of tf32, and tiles of the same bytes are twice as deep: per byte that moves
//! there is twice as much to compute. Sums stay f32, and are rounded once, by `cast`, when C is stored. Only types and the policy
//! change. With this, four years of GPUs since Ampere are served; what is left is Hopper's own way.

use tilewright_device::tile::{
    ColMajor, Cta, Fragment, Global, GlobalMut, Multistage, Shared, block_x, block_y, copy, gemm, warp,
};
use tilewright_device::{f16, kernel};

/// Rows, columns and depth of a tile.
pub const BM: usize = 128;
pub const BN: usize = 256;
const BK: usize = 64;
const STAGES: usize = 3;
type Warps = Multistage<8>;

/// C = A B.
#[kernel(program = Warps, expects(a.cols() == b.rows(), a.rows() == c.rows(), b.cols() == c.cols()))]
pub fn gemm_f16(
    mut cta: Cta<Warps>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f16, 2>,
) {
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<f16, BM, BK, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, BK, BN, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let sums = pipe.run(
        0..a.cols().div_ceil(BK as u32),
        Fragment::<f32, BM, BN, _>::zero(),
        |s, k| {
            copy(a.tile([block_y(), k]), a_s.at(s));
            copy(b.tile([k, block_x()]), b_s.at(s));
        },
        |sums, s, _| gemm(warp::Square::<2, 4>::default(), a_s.at(s), b_s.at(s), sums),
    );
    copy(sums.cast::<f16>(), c.tile([block_y(), block_x()]));
}
