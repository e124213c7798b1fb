//! C = A Wᵀ of int8 activations and narrow integer weights, summed up in i32; one source for every architecture.

mod list;
mod scaling;

pub use list::{DequantInt8Kernel, INT8};

use scaling::Scaling;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Absent, ByElement, ByRow, ColMajor, ColumnsLayout, Cta, Element as _, Epilogue, Fragment, GemmRegisters,
    Global, GlobalMut, Half, I8x2, InPlace, Integers, Quantized, RowMajor, Schedule, Shared, StreamOrder,
    Swizzle, Weights, Zeros, copy,
};

/// C = act(tokens A Wᵀ + bias) of int8 activations and narrow integers W = scales Q, or `sums` = A Qᵀ as i32 where that has rows.
/// Computed as Cᵀ = W Aᵀ with W from registers.
///
/// W \[N, K\] of format `F` in blocks, with groups' zeros as `Z` and scales as `S` says; A \[M, K\] in pairs; `c` and `sums` are
/// Cᵀ \[N, M\]; its rows' scales and bias are \[N, 1\], its columns' scales, those of tokens, \[N, M\], each without rows and columns if
/// there is none. A CTA takes tiles of `BM` rows of W and `BN` rows of A, `BK` deep, or parts of their depth, in the order of
/// `order`; `PAIRS` is `BK` / 2.
#[kernel(program = P)]
pub fn dequant_gemm_int8<
    P: Schedule,
    Y,
    S: Scaling,
    F: Integers,
    Z: Zeros,
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const PAIRS: usize,
    const BOX: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    w: InPlace<Weights<F, Z, T>>,
    a: InPlace<Global<I8x2, 2, RowMajor, BN>>,
    c: InPlace<GlobalMut<T, 2, ColMajor, BOX>>,
    sums: InPlace<GlobalMut<S::Sum, 2, ColMajor>>,
    order: InPlace<StreamOrder>,
    epilogue: Epilogue<ByRow<T, 2>, Absent, ByRow<T, 2>, ByElement<f32, 2>>,
) where
    Y: GemmRegisters<I8x2, BM, BN, 64, i32, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<I8x2, BN, PAIRS, _, _>>(&mut cta);
    let w_s = stages.alloc::<Quantized<F, Z, T, BM, BK>>(&mut cta);
    let mut out = cta.output_columns::<T, BM, BN, _>();
    let mut stream = cta.stream_k(order);
    let mut pipe = cta.pipeline(stages);
    let groups = w.get();
    while let Some(part) = stream.part() {
        let at = part.tile;
        let mut stages = pipe.loads(
            part.steps.clone(),
            #[inline(always)]
            |s, k| {
                copy(w.get().tile([at.m, k]), w_s.at(s));
                copy(a.get().tile([at.n, k]), a_s.at(s));
            },
        );
        if !cta.computes() {
            continue;
        }
        let mut acc = stages.run_ahead(
            part.steps.len() as u32,
            ((BK / 128) as u32, false),
            Fragment::<S::Sum, BM, BN, Y::D>::splat(S::Sum::ZERO),
            #[inline(always)]
            |s, part| (groups.integers(w_s.at(s), part), S::part(|| groups.scales(w_s.at(s), part))),
            #[inline(always)]
            |(weights, scales), s, part, acc| {
                S::multiply::<Y, BM, BN>(weights, a_s.at(s).span::<64>(part).t(), scales, acc)
            },
        );
        if !stream.sum(&part, &mut acc) {
            continue;
        }
        if !S::GROUPS && sums.get().rows() > 0 {
            copy(acc, sums.get().tile([at.m, at.n]));
            continue;
        }
        let place = [at.m, at.n];
        out.store(epilogue.apply(S::finish(acc), place), c.get().tile(place));
    }
}
