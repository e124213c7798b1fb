//! What a kernel's author may write: layouts left to inference, or annotated; accumulators side by side; chained gemms.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(missing_docs)]

use tilewright_device::kernel;
use tilewright_device::tile::*;

/// Every layout is `_`, and follows from the policy.
#[kernel(program = P)]
pub fn inferred<P: Schedule, Y: Gemm<f16, 128, 128, 64, D: OutputLayout<128, 128>>>(
    mut cta: Cta<P>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f16, 2>,
    order: RasterOrder,
) {
    let stages = cta.stages::<4>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 128, _, _>>(&mut cta);
    let mut out = cta.output::<f16, 128, 128, _>();
    let mut pipe = cta.pipeline(stages);
    for at in Raster::persistent(order, 1) {
        let acc = pipe.run(
            0..a.cols().div_ceil(64),
            Fragment::<f32, 128, 128, _>::zero(),
            #[inline(always)]
            |s, k| {
                copy(a.tile([at.m, k]), a_s.at(s));
                copy(b.tile([k, at.n]), b_s.at(s));
            },
            #[inline(always)]
            |acc, s, _| gemm(Y::default(), a_s.at(s), b_s.at(s), acc),
        );
        out.store(acc.cast::<f16>(), c.tile([at.m, at.n]));
    }
}

/// Every layout is written out, and agrees.
#[kernel(program = WarpSpecialized<TwoConsumers>)]
pub fn annotated(
    mut cta: Cta<WarpSpecialized<TwoConsumers>>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f16, 2>,
) {
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, Swizzle<128>, RowMajor>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 128, Swizzle<128>, ColMajor>>(&mut cta);
    let mut out = cta.output::<f16, 128, 128, FullRow<2>>();
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..a.cols().div_ceil(64),
        Fragment::<f32, 128, 128, FullRow<2>>::zero(),
        #[inline(always)]
        |s, k| {
            copy(a.tile([0, k]), a_s.at(s));
            copy(b.tile([k, 0]), b_s.at(s));
        },
        #[inline(always)]
        |acc, s, _| gemm(FullRow::<2>::default(), a_s.at(s), b_s.at(s), acc),
    );
    out.store(acc.cast::<f16>(), c.tile([0, 0]));
}

/// Warpgroups side by side along N.
#[kernel(program = WarpSpecialized<TwoConsumers>)]
pub fn columns(
    mut cta: Cta<WarpSpecialized<TwoConsumers>>,
    a: Global<f16, 2>,
    b: Global<f16, 2>,
    mut c: GlobalMut<f32, 2>,
) {
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Shared<f16, 64, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 256, _, _>>(&mut cta);
    let mut out = cta.output::<f32, 64, 256, _>();
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..a.cols().div_ceil(64),
        Fragment::<f32, 64, 256, _>::zero(),
        #[inline(always)]
        |s, k| {
            copy(a.tile([0, k]), a_s.at(s));
            copy(b.tile([k, 0]), b_s.at(s));
        },
        #[inline(always)]
        |acc, s, _| gemm(FullCol::<2>::default(), a_s.at(s), b_s.at(s), acc),
    );
    out.store(acc, c.tile([0, 0]));
}

/// Two accumulators share A and one pipeline: a gate and what it scales.
#[kernel(program = P)]
pub fn gated<P: Schedule, Y: Gemm<f16, 128, 64, 64, D: OutputLayout<128, 64>>>(
    mut cta: Cta<P>,
    x: Global<f16, 2>,
    gate: Global<f16, 2, ColMajor>,
    up: Global<f16, 2, ColMajor>,
    mut y: GlobalMut<f16, 2>,
) {
    let stages = cta.stages::<3>();
    let x_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
    let gate_s = stages.alloc::<Shared<f16, 64, 64, _, _>>(&mut cta);
    let up_s = stages.alloc::<Shared<f16, 64, 64, _, _>>(&mut cta);
    let mut out = cta.output::<f16, 128, 64, _>();
    let mut pipe = cta.pipeline(stages);
    let zero = Fragment::<f32, 128, 64, _>::zero();
    let (g, u) = pipe.run(
        0..x.cols().div_ceil(64),
        (zero, zero),
        #[inline(always)]
        |s, k| {
            copy(x.tile([0, k]), x_s.at(s));
            copy(gate.tile([k, 0]), gate_s.at(s));
            copy(up.tile([k, 0]), up_s.at(s));
        },
        #[inline(always)]
        |(g, u), s, _| {
            let g = gemm(Y::default(), x_s.at(s), gate_s.at(s), g);
            (g, gemm(Y::default(), x_s.at(s), up_s.at(s), u))
        },
    );
    out.store(g.map(|x| Activation::Silu.apply(x)).zip(&u, |g, u| g * u).cast::<f16>(), y.tile([0, 0]));
}

/// One gemm's result, through exp2 and divided by its rows' sums, is the next one's left operand in registers.
#[kernel(program = P)]
pub fn chained<P: Schedule, Y>(
    mut cta: Cta<P>,
    q: Global<bf16, 2>,
    k: Global<bf16, 2, ColMajor>,
    v: Global<bf16, 2>,
    mut o: GlobalMut<bf16, 2>,
) where
    Y: Gemm<bf16, 128, 64, 64> + GemmRegisters<bf16, 128, 64, 64, R = <Y as Gemm<bf16, 128, 64, 64>>::D>,
    Y::D: OutputLayout<128, 64>,
{
    let stages = cta.stages::<2>();
    let q_s = stages.alloc::<Shared<bf16, 128, 64, _, _>>(&mut cta);
    let k_s = stages.alloc::<Shared<bf16, 64, 64, _, _>>(&mut cta);
    let v_s = stages.alloc::<Shared<bf16, 64, 64, _, _>>(&mut cta);
    let mut out = cta.output::<bf16, 128, 64, _>();
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..k.cols().div_ceil(64),
        Fragment::<f32, 128, 64, _>::zero(),
        #[inline(always)]
        |s, j| {
            copy(q.tile([0, 0]), q_s.at(s));
            copy(k.tile([0, j]), k_s.at(s));
            copy(v.tile([j, 0]), v_s.at(s));
        },
        #[inline(always)]
        |acc, s, _| {
            let scores = gemm(Y::default(), q_s.at(s), k_s.at(s), Fragment::zero()).wait();
            let most = scores.reduce_rows(f32::NEG_INFINITY, f32::max);
            let weights = scores.zip_rows(&most, |x, most| tilewright_device::arch::math::ex2(x - most));
            let sums = weights.reduce_rows(0.0, |a, b| a + b);
            let weights = weights.zip_rows(&sums.map(|x| 1.0 / x), |x, by| x * by);
            gemm(Y::default(), weights.cast::<bf16>(), v_s.at(s), acc).settled()
        },
    );
    out.store(acc.cast::<bf16>(), o.tile([0, 0]));
}

tilewright_device::kernels! {
    sm_90: inferred_90: inferred<WarpSpecialized<TwoConsumers>, FullRow<2>>;
    sm_80: inferred_80: inferred<Multistage<4>, warp::Square<2, 2>>;
    sm_90: gated_90: gated<WarpSpecialized<TwoConsumers>, FullRow<2>>;
    sm_80: gated_80: gated<Multistage<4>, warp::FullRow<4>>;
    sm_90: chained_90: chained<WarpSpecialized<TwoConsumers>, FullRow<2>>;
    sm_80: chained_80: chained<Multistage<8>, warp::FullRow<8>>;
}
