//! GEMM on tensor cores: an instruction multiplies whole tiles.
//!
//! `mma.sync` multiplies a 16 x 8 and an 8 x 8 tile, 1024 multiplications of a warp's one instruction. It takes f32 rounded to tf32: 10 bits
//! of mantissa, sums in f32. Nothing of the kernel changes but the policy, here eight warps as 2 x 4 which own 64 x 64 of C
//! each: `Tf32` in its name says that numbers are rounded. Now operands are read by `ldmatrix`, and to do so without
//! bank conflicts they lie swizzled; that layout, too, is inferred. B is column-major from here on, as a layer's weights
//! \[N, K\] are: tensor cores read both operands along K.

use tilewright_device::kernel;
use tilewright_device::tile::{
    ColMajor, Cta, Fragment, Global, GlobalMut, Multistage, Shared, Tf32, block_x, block_y, copy, gemm, warp,
};

/// Rows, columns and depth of a tile.
pub const BM: usize = 128;
pub const BN: usize = 256;
const BK: usize = 32;
const STAGES: usize = 3;
type Warps = Multistage<8>;

/// C = A B, with A and B rounded to tf32.
#[kernel(program = Warps, expects(a.cols() == b.rows(), a.rows() == c.rows(), b.cols() == c.cols()))]
pub fn gemm_tf32(
    mut cta: Cta<Warps>,
    a: Global<f32, 2>,
    b: Global<f32, 2, ColMajor>,
    mut c: GlobalMut<f32, 2>,
) {
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
        |sums, s, _| gemm(Tf32::<warp::Square<2, 4>>::default(), a_s.at(s), b_s.at(s), sums),
    );
    copy(sums, c.tile([block_y(), block_x()]));
}
