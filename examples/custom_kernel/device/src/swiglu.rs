//! A GEMM with an epilogue of its own: two products share their left operand, and one pipeline.

use tilewright_device::tile::{
    Activation, ColMajor, Cta, Element, Elements, Fragment, FullRow, Gemm, Global, GlobalMut, Multistage,
    OutputLayout, Raster, RasterOrder, Schedule, Shared, TwoConsumers, WarpSpecialized, copy, gemm, warp,
};
use tilewright_device::{f16, kernel, kernels};

/// Y = silu(X G) * (X U) for X \[M, K\], G and U \[K, N\]: the gated layer of a transformer's MLP.
///
/// One source for Hopper and for everything since Ampere: `P` says how the warps share the work, `Y` how they
/// divide a tile. All layouts in shared memory and registers are inferred.
#[kernel(program = P)]
pub fn swiglu<
    P: Schedule,
    Y,
    T: Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    x: Global<T, 2>,
    g: Global<T, 2, ColMajor>,
    u: Global<T, 2, ColMajor>,
    mut y: GlobalMut<T, 2>,
    order: RasterOrder,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let x_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let g_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let u_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<T, BM, BN, _>();
    let mut pipe = cta.pipeline(stages);
    for at in Raster::persistent(order, 1) {
        let zero = Fragment::<f32, BM, BN, _>::zero();
        let (gate, up) = pipe.run(
            0..x.cols().div_ceil(BK as u32),
            (zero, zero),
            #[inline(always)]
            |s, k| {
                copy(x.tile([at.m, k]), x_s.at(s));
                copy(g.tile([k, at.n]), g_s.at(s));
                copy(u.tile([k, at.n]), u_s.at(s));
            },
            #[inline(always)]
            |(gate, up), s, _| {
                (gemm(Y::default(), x_s.at(s), g_s.at(s), gate), gemm(Y::default(), x_s.at(s), u_s.at(s), up))
            },
        );
        let product = gate.map(|x| Activation::Silu.apply(x)).zip(&up, |gate, up| gate * up);
        out.store(product.cast::<T>(), y.tile([at.m, at.n]));
    }
}

/// Hopper: a producer and two consumer warpgroups.
pub type Hopper = swiglu<WarpSpecialized<TwoConsumers>, FullRow<2>, f16, 128, 128, 64, 4>;
/// Everything since Ampere: four warps.
pub type Ampere = swiglu<Multistage<4>, warp::Square<2, 2>, f16, 128, 64, 32, 4>;
/// The same for tensors whose lines are not aligned to 16 bytes.
pub type Unaligned = swiglu<Multistage<8, Elements>, warp::Square<4, 2>, f16, 64, 64, 32, 3>;

kernels! {
    sm_90: swiglu_hopper: Hopper;
    sm_80: swiglu_ampere: Ampere;
    sm_80: swiglu_unaligned: Unaligned;
}

/// What the host must know to divide an output into tiles.
pub trait Tiled {
    /// Rows and columns of a tile.
    const TILE: [u32; 2];
}

impl<P, Y, T, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize> Tiled
    for swiglu<P, Y, T, BM, BN, BK, STAGES>
{
    const TILE: [u32; 2] = [BM as u32, BN as u32];
}
