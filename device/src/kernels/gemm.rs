//! C = act(alpha A B + beta C + bias), one source for every architecture.

use crate::kernel;
use crate::tile::{
    Activation, Cta, Element, Fragment, Gemm, Global, GlobalMut, Major, OutputLayout, Raster, RasterOrder, Schedule,
    Shared, copy, gemm as multiply,
};

/// C = act(alpha A B + beta C + bias) for a batch of matrices: A \[batch, M, K\], B \[batch, K, N\], C \[batch, M, N\].
///
/// Multiplies `T` in tiles of `BM` x `BN` x `BK`, accumulates in `f32`, stores `U`. The orders `OA`, `OB`, `OC` say which
/// dimension of each is contiguous. `bias` has C's shape with strides of 0 where it is broadcast, or no columns if there
/// is none; C is not read when `beta` is 0. Tiles are taken in the order of `order` by as many CTAs as the grid has;
/// `BOX` is how many lines of B one TMA box takes.
#[kernel(
    program = P,
    shared = (STAGES * (BM + BN) * BK * T::BYTES) as u32
        + <Y::D as OutputLayout<BM, BN>>::STAGING_BYTES + STAGES as u32 * P::STAGE_BYTES,
)]
pub fn gemm<
    P: Schedule, Y, T: Element, U: Element, E: Activation, OA: Major, OB: Major, OC: Major,
    const BM: usize, const BN: usize, const BK: usize, const STAGES: usize, const BOX: usize,
>(
    a: Global<T, 3, OA>, b: Global<T, 3, OB, BOX>, mut c: GlobalMut<U, 3, OC>, bias: Global<U, 3, OC>,
    order: RasterOrder, alpha: f32, beta: f32,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let mut cta = Cta::<P>::enter();
    let a_s = cta.alloc::<Shared<T, BM, BK, _, _>, STAGES>();
    let b_s = cta.alloc::<Shared<T, BK, BN, _, _>, STAGES>();
    let mut out = cta.output::<U, BM, BN, _>();
    let mut pipe = cta.pipeline::<STAGES>();
    for at in Raster::persistent(order, 1) {
        let acc = pipe.run(
            0..a.cols().div_ceil(BK as u32),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                copy(a.tile([at.batch, at.m, k]), a_s.at(s));
                copy(b.tile([at.batch, k, at.n]), b_s.at(s));
            },
            #[inline(always)]
            |acc, s, _| multiply(Y::default(), a_s.at(s), b_s.at(s), acc),
        );
        let place = [at.batch, at.m, at.n];
        let mut acc = acc.map(|x| alpha * x);
        if beta != 0.0 {
            acc = acc.zip_global(c.read(place), |x, c| x + beta * c);
        }
        if bias.cols() > 0 {
            acc = acc.zip_global(bias.tile(place), |x, b| x + b);
        }
        out.store(acc.map(E::apply).cast::<U>(), c.tile(place));
    }
}

#[rustfmt::skip]
mod trial {
    use super::gemm;
    use crate::tile::*;
    use half::{f16, bf16};
    type R = RowMajor;
    type C = ColMajor;
    type I = Identity;
    crate::instantiate! {
        sm_90: t90_nt_128x256x64x4: gemm<WarpSpecialized<2>, FullRow<2>, f16, f16, I, R, C, R, 128, 256, 64, 4, 64>;
        sm_90: t90_nn_128x256x64x4: gemm<WarpSpecialized<2>, FullRow<2>, f16, f16, I, R, R, R, 128, 256, 64, 4, 64>;
        sm_90: t90_tn_128x256x64x4: gemm<WarpSpecialized<2>, FullRow<2>, f16, f16, I, C, R, R, 128, 256, 64, 4, 64>;
        sm_90: t90_tt_128x256x64x4: gemm<WarpSpecialized<2>, FullRow<2>, f16, f16, I, C, C, R, 128, 256, 64, 4, 64>;
        sm_90: t90_nt_128x128x64x6: gemm<WarpSpecialized<2>, FullRow<2>, f16, f16, I, R, C, R, 128, 128, 64, 6, 64>;
        sm_90: t90_nt_256x128x64x4: gemm<WarpSpecialized<2>, FullRow<2>, f16, f16, I, R, C, R, 256, 128, 64, 4, 64>;
        sm_90: t90_nt_128x64x64x8: gemm<WarpSpecialized<2>, FullRow<2>, f16, f16, I, R, C, R, 128, 64, 64, 8, 64>;
        sm_90: t90_nt_128x256x64x4_box256: gemm<WarpSpecialized<2>, FullRow<2>, f16, f16, I, R, C, R, 128, 256, 64, 4, 256>;
        sm_90: t90_nt_f32_128x128x64x5: gemm<WarpSpecialized<2>, FullRow<2>, bf16, f32, Gelu, R, C, R, 128, 128, 64, 5, 64>;
        sm_90: t90_sw_64x16x128x10: gemm<WarpSpecialized<1>, FullRow<1>, f16, f16, I, R, C, C, 64, 16, 128, 10, 16>;
        sm_80: t80_nt_128x128x32x4: gemm<Multistage<8>, warp::Square<2, 4>, f16, f16, I, R, C, R, 128, 128, 32, 4, 64>;
        sm_80: t80_nt_128x128x32x4w4: gemm<Multistage<4>, warp::Square<2, 2>, f16, f16, I, R, C, R, 128, 128, 32, 4, 64>;
        sm_80: t80_nt_128x256x64x3: gemm<Multistage<8>, warp::Square<2, 4>, f16, f16, I, R, C, R, 128, 256, 64, 3, 64>;
        sm_80: t80_nn_128x256x64x3: gemm<Multistage<8>, warp::Square<2, 4>, f16, f16, I, R, R, R, 128, 256, 64, 3, 64>;
        sm_80: t80_tt_128x256x64x3: gemm<Multistage<8>, warp::Square<2, 4>, f16, f16, I, C, C, R, 128, 256, 64, 3, 64>;
        sm_80: t80_nt_128x256x32x4: gemm<Multistage<8>, warp::Square<2, 4>, f16, f16, I, R, C, R, 128, 256, 32, 4, 64>;
        sm_80: t80_el_64x64x32x3: gemm<Multistage<4, Elements>, warp::Square<2, 2>, f16, f16, Relu, R, C, R, 64, 64, 32, 3, 64>;
        sm_80: t80_nt_f32_128x128x32x4: gemm<Multistage<8>, warp::Square<2, 4>, bf16, f32, Silu, R, C, R, 128, 128, 32, 4, 64>;
    }
}
