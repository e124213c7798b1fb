//! C = A Wᵀ for each group of rows, of narrow weights W.

mod list;

pub use list::{GROUPED, GroupedDequantKernel};

use tilewright_device::kernel;
use tilewright_device::tile::{
    ColMajor, ColumnsLayout, Cta, Format, GemmRegisters, Global, GlobalMut, Groups, Half, InBlock, Quantized,
    RowMajor, Schedule, Shared, Swizzle, Weights, Zeros, copy,
};

use crate::weights::Scaling;

/// C's rows of group g = A's rows of group g, times W\[g\]ᵀ, computed as Cᵀ = W Aᵀ with W from registers: A \[matrices, rows, K\], W of format `F` in
/// blocks, `blocks` blocks of 64 rows for each group, `c` is Cᵀ \[matrices, N, rows\].
///
/// Zeros and scales as in [`dequant_gemm`](fn@crate::dequant_gemm). A CTA takes tiles of `BM` rows of W and `BN` rows of A; it decodes the next step's weights while the tensor
/// cores work on this step's. As many CTAs as the grid has take the tiles in turn. `groups` says which rows are whose; rows of no group are not stored.
///
/// # Safety
/// `groups` has its numbers where it says. A and C have all matrices that it names.
#[kernel(program = P)]
pub unsafe fn grouped_dequant_gemm<
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
    w: InBlock<Weights<F, Z, T>>,
    a: InBlock<Global<T, 3, RowMajor, BN>>,
    c: InBlock<GlobalMut<T, 3, ColMajor, BOX>>,
    blocks: InBlock<u32>,
    groups: InBlock<Groups>,
) where
    S: Scaling<Y, F, Z, T, BM, BN, BK>,
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BN, BK, _, _>>(&mut cta);
    let w_s = stages.alloc::<Quantized<F, Z, T, BM, BK>>(&mut cta);
    let mut out = cta.output_columns::<T, BM, BN, _>();
    let mut pipe = cta.pipeline(stages);
    let steps = w.get().depth().div_ceil(BK as u32);
    // Joint producers copy weights, which no kernel writes, without having waited for it: the numbers of rows may be its results.
    cta.wait_for_preceding_grid();
    // SAFETY: the caller's, here and below.
    for at in unsafe { groups.get().tiles::<BN>() } {
        let stages = pipe.loads(
            0..steps,
            #[inline(always)]
            |s, k| {
                copy(w.get().tile([at.n, k]).of_blocks(at.group * blocks.get(), blocks.get()), w_s.at(s));
                // SAFETY: as above.
                let rows = unsafe { a.get().tile_unchecked([at.matrix, at.m, k]) };
                copy(rows.of_rows(at.first, at.rows), a_s.at(s));
            },
        );
        if !cta.computes() {
            continue;
        }
        let acc = S::multiply(w.get(), stages, steps, &w_s, &a_s);
        let mut c = c.get();
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked([at.matrix, at.n, at.m]) };
        out.store(acc.cast::<T>(), to.of_cols(at.first, at.rows));
    }
}
