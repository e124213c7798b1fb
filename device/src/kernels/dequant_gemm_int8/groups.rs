//! Weights with a scale for each group: the sums over a group are exact, and those of groups are added in f32.

use super::activate;
use crate::kernel;
use crate::tile::{
    ColMajor, ColumnsLayout, Cta, Fragment, Fresh, GemmRegisters, Global, GlobalMut, Half, I8x2, InPlace,
    Integers, Pending as _, Quantized, RowMajor, Rows, STREAM_K_BYTES, Schedule, Shared, StreamOrder,
    Swizzle, Weights, Zeros, copy, gemm,
};

/// C = act(tokens (sum over groups of scales A Wᵀ) + bias) of int8 activations and narrow integers with groups of 128 along K.
/// Computed as Cᵀ = W Aᵀ with W from registers.
///
/// W \[N, K\] of format `F` in blocks, with groups' scales and zeros as `Z` says; A \[M, K\] in pairs; `c` is Cᵀ \[N, M\];
/// `tokens` \[N, M\] and `bias` \[N, 1\], each without rows if there is none. A CTA takes tiles of `BM` rows of W and `BN` rows of A, `BK`
/// deep, or parts of their depth, in the order of `order`; `PAIRS` is `BK` / 2.
#[kernel(
    program = P,
    shared = STAGES as u32 * (Quantized::<F, Z, T, BM, BK>::BYTES + (BN * BK) as u32 + P::STAGE_BYTES)
        + 1024 + <Y::D as ColumnsLayout<BM, BN>>::STAGING_BYTES + STREAM_K_BYTES,
)]
pub fn dequant_gemm_int8_groups<
    P: Schedule,
    Y,
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
    w: InPlace<Weights<F, Z, T>>,
    a: InPlace<Global<I8x2, 2, RowMajor, BN>>,
    c: InPlace<GlobalMut<T, 2, ColMajor, BOX>>,
    tokens: InPlace<Global<f32, 2>>,
    bias: InPlace<Global<T, 2, ColMajor>>,
    order: InPlace<StreamOrder>,
    activation: u32,
) where
    Y: GemmRegisters<I8x2, BM, BN, 64, i32, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    let mut cta = Cta::<P>::enter();
    let a_s = cta.alloc::<Shared<I8x2, BN, PAIRS, _, _>, STAGES>();
    let w_s = cta.alloc::<Quantized<F, Z, T, BM, BK>, STAGES>();
    let mut out = cta.output_columns::<T, BM, BN, _>();
    let mut stream = cta.stream_k(order);
    let mut pipe = cta.pipeline::<STAGES>();
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
            Fragment::<f32, BM, BN, Y::D>::zero(),
            #[inline(always)]
            |s, part| (groups.integers(w_s.at(s), part), groups.scales(w_s.at(s), part)),
            #[inline(always)]
            |(weights, scales), s, part, acc| {
                let sums =
                    gemm(Y::default(), weights, a_s.at(s).span::<64>(part).t(), Fresh::<_, i32>::new());
                sums.then(
                    #[inline(always)]
                    move |sums| {
                        acc.zip(
                            &sums.map(|sum| sum as f32).zip_rows(&scales, |x, scale| x * scale),
                            |acc, x| acc + x,
                        )
                    },
                )
            },
        );
        if !stream.sum(&part, &mut acc) {
            continue;
        }
        let bias = Rows::<T, BM, BN, _>::load(bias.get().tile([at.m, 0]), T::ZERO).map(T::to_f32);
        let acc = match tokens.get().rows() {
            0 => acc,
            _ => acc.zip_global(tokens.get().tile([at.m, at.n]), |x, token| x * token),
        };
        let acc = activate(acc.zip_rows(&bias, |x, bias| x + bias), activation);
        out.store(acc.cast::<T>(), c.get().tile([at.m, at.n]));
    }
}
