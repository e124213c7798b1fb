//! GEMM, warp-specialised: Hopper's way, where warps have different duties.
//!
//! One warpgroup loads and does nothing else: a single thread of it asks the TMA unit for whole tiles. Two warpgroups multiply, by
//! `wgmma`, which reads both operands from shared memory and runs while the warps go on. All of this is in the schedule,
//! `WarpSpecialized<TwoConsumers>`, and the policy, `FullRow<2>`: the loop is as before. New are two things that any fast GEMM has. CTAs
//! stay and take one tile after the other, so that the producer fetches the next tile's operands while this one is stored; and
//! [`Raster`] orders the tiles so that CTAs that run at a time share what lies in the L2 cache. `out` stores through shared memory.

use tilewright_device::tile::{
    ColMajor, Cta, Fragment, FullRow, Global, GlobalMut, Raster, RasterOrder, Shared, TwoConsumers,
    WarpSpecialized, copy, gemm,
};
use tilewright_device::{f16, kernel};

/// Rows, columns and depth of a tile.
pub const BM: usize = 128;
pub const BN: usize = 256;
const BK: usize = 64;
const STAGES: usize = 4;
type Warps = WarpSpecialized<TwoConsumers>;
type Policy = FullRow<2>;

/// C = A B.
#[kernel(program = Warps, expects(a.cols() == b.rows(), a.rows() == c.rows(), b.cols() == c.cols()))]
pub fn gemm_warp_specialised(
    mut cta: Cta<Warps>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f16, 2>,
    order: RasterOrder,
) {
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<f16, BM, BK, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<f16, BM, BN, _>();
    let mut pipe = cta.pipeline(stages);
    for at in Raster::persistent(order, 1) {
        let sums = pipe.run(
            0..a.cols().div_ceil(BK as u32),
            Fragment::<f32, BM, BN, _>::zero(),
            |s, k| {
                copy(a.tile([at.m, k]), a_s.at(s));
                copy(b.tile([k, at.n]), b_s.at(s));
            },
            |sums, s, _| gemm(Policy::default(), a_s.at(s), b_s.at(s), sums),
        );
        out.store(sums.cast::<f16>(), c.tile([at.m, at.n]));
    }
}
