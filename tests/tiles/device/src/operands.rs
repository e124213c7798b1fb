//! Operands that are changed on their way from a stage to a gemm: C = relu(A) B.

use tilewright_device::tile::{
    ColMajor, Cta, Fragment, FragmentLayout, FullRow, Gemm, GemmRegisters, Global, GlobalMut, Multistage,
    Schedule, Shared, Striped, Swizzle, TwoConsumers, WarpSpecialized, block_x, block_y, copy, gemm, warp,
};
use tilewright_device::{f16, kernel, kernels};

use crate::copies::named;

/// Rows of a tile.
pub const M: usize = 128;
/// Columns of a tile.
pub const N: usize = 64;
/// Depth of a tile.
const K: usize = 64;
/// Few, so that stages are soon filled again.
const STAGES: usize = 2;

fn relu(x: f16) -> f16 {
    if x.to_bits() >> 15 == 1 { f16::from_bits(0) } else { x }
}

/// From the stage to registers, which are the operand.
#[kernel(program = P)]
pub fn by_registers<P: Schedule, Y: GemmRegisters<f16, M, N, K>>(
    mut cta: Cta<P>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f32, 2>,
) {
    // No gemm reads it, so that no layout follows.
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<f16, M, K, Swizzle<128>, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, K, N, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..a.cols().div_ceil(K as u32),
        Fragment::<f32, M, N, _>::zero(),
        #[inline(always)]
        |s, k| {
            copy(a.tile([block_x(), k]), a_s.at(s));
            copy(b.tile([k, block_y()]), b_s.at(s));
        },
        #[inline(always)]
        |acc, s, _| {
            let a = Fragment::<f16, M, K, _>::load(a_s.at(s)).map(relu);
            gemm(Y::default(), a, b_s.at(s), acc).settled()
        },
    );
    copy(acc, c.tile([block_x(), block_y()]));
}

/// From the stage to registers of another layout, and from there to the shared memory that the gemm reads.
#[kernel(program = P)]
pub fn by_scratch<P: Schedule, Y: Gemm<f16, M, N, K>, L: FragmentLayout<M, K>>(
    mut cta: Cta<P>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f32, 2>,
) {
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<f16, M, K, Swizzle<128>, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, K, N, _, _>>(&mut cta);
    let mut changed_s = cta.scratch::<Shared<f16, M, K, _>>();
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..a.cols().div_ceil(K as u32),
        Fragment::<f32, M, N, _>::zero(),
        #[inline(always)]
        |s, k| {
            copy(a.tile([block_x(), k]), a_s.at(s));
            copy(b.tile([k, block_y()]), b_s.at(s));
        },
        #[inline(always)]
        |acc, s, _| {
            copy(Fragment::<f16, M, K, L>::load(a_s.at(s)).map(relu), &mut changed_s);
            gemm(Y::default(), changed_s.full(), b_s.at(s), acc)
        },
    );
    copy(acc, c.tile([block_x(), block_y()]));
}

named! {
    sm_80 AmpereRegisters = by_registers<Multistage<4>, warp::FullRow<4>>;
    sm_90 HopperRegisters = by_registers<WarpSpecialized<TwoConsumers>, FullRow<2>>;
    sm_80 AmpereScratch = by_scratch<Multistage<4>, warp::Square<2, 2>, Striped<4>>;
    sm_90 HopperScratch = by_scratch<WarpSpecialized<TwoConsumers>, FullRow<2>, Striped<8>>;
}
