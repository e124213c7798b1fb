//! C = act(alpha A Wᵀ + bias) of narrow weights W, one source for every architecture.

mod list;
mod policy;
mod scaling;

pub(crate) use list::scaled;
pub use list::{DequantKernel, WEIGHTS};
pub use scaling::Scaling;

use tilewright_device::kernel;
use tilewright_device::tile::{
    ByRow, ColMajor, ColumnsLayout, Cta, Epilogue, Format, GemmRegisters, Global, GlobalMut, Half, InPlace,
    Quantized, RowMajor, Schedule, Shared, StreamOrder, Swizzle, Weights, Zeros, copy,
};

/// C = act(alpha A Wᵀ + bias) of narrow weights, computed as Cᵀ = W Aᵀ with W from registers.
///
/// W \[N, K\] of format `F` in blocks, with groups' zeros as `Z` and scales as `S` says; A \[M, K\], `c` is Cᵀ \[N, M\], whose
/// rows' bias is \[N, 1\] or without rows if there is none. A CTA takes tiles of `BM` rows of W and `BN` rows of A, or parts of their
/// depth, in the order of `order`; it decodes the next step's weights while the tensor cores work on this step's. CTAs of a
/// cluster take tiles of the same rows of A, and copy these to one another.
#[kernel(
    program = P,
    cluster = [P::CLUSTER, 1, 1],
)]
pub fn dequant_gemm<
    P: Schedule,
    Y,
    S,
    F: Format,
    Z: Zeros,
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const BOX: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    w: InPlace<Weights<F, Z, T>>,
    a: InPlace<Global<T, 2, RowMajor, BN>>,
    c: InPlace<GlobalMut<T, 2, ColMajor, BOX>>,
    order: InPlace<StreamOrder>,
    epilogue: Epilogue<ByRow<T, 2>>,
) where
    S: Scaling<Y, F, Z, T, BM, BN, BK>,
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BN, BK, _, _>>(&mut cta);
    let w_s = stages.alloc::<Quantized<F, Z, T, BM, BK>>(&mut cta);
    let mut out = cta.output_columns::<T, BM, BN, _>();
    let mut stream = cta.stream_k(order);
    let mut pipe = cta.pipeline(stages);
    let groups = w.get();
    while let Some(part) = stream.part() {
        let at = part.tile;
        let stages = pipe.loads(
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
        let mut acc = S::multiply(groups, stages, part.steps.len() as u32, &w_s, &a_s);
        if !stream.sum(&part, &mut acc) {
            continue;
        }
        let place = [at.m, at.n];
        out.store(epilogue.apply(acc, place), c.get().tile(place));
    }
}
