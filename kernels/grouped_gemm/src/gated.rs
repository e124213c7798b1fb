//! C = act(A G) · A U for each group of rows: the product of gates and ups, and the gated unit.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Accumulates, Activation, Cta, Element, Fragment, FragmentLayout, Gemm, Global, GlobalMut, Groups,
    InPlace, OutputLayout, RowMajor, Schedule, Shared, copy, gemm as multiply,
};

use crate::product::scaled;

/// C's rows of group g = act(A's rows of group g, times W\[g, 0\]ᵀ) · (the same times W\[g, 1\]ᵀ): A \[matrices, rows, K\], W \[groups, 2, N, K\],
/// C \[matrices, rows, N\].
///
/// As [`grouped_gemm`](fn@crate::grouped_gemm), in tiles of `BM` rows and `BN` columns of products, which are those of `UNITS` gates and then of their ups. The
/// products are not rounded. `activation` is the number of an [`Activation`].
///
/// # Safety
/// `groups` has its numbers where it says. A and C have all matrices that it names, W two for each group.
#[kernel(program = P)]
pub unsafe fn grouped_gemm_gated<
    P: Schedule,
    Y,
    T: Element,
    const BM: usize,
    const BN: usize,
    const UNITS: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    a: Global<T, 3>,
    w: Global<T, 4>,
    c: InPlace<GlobalMut<T, 3>>,
    scales: InPlace<Global<f32, 3, RowMajor, 0>>,
    groups: Groups,
    activation: InPlace<u32>,
) where
    Y: Gemm<T, BM, BN, BK, D: Accumulates<BM, UNITS> + OutputLayout<BM, UNITS>>,
{
    const { assert!(BN == 2 * UNITS, "each unit has a gate and an up") };
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let w_s = stages.alloc::<Shared<T, BN, BK, _, RowMajor>>(&mut cta);
    let mut out = cta.output::<T, BM, UNITS, Y::D>();
    let mut pipe = cta.pipeline(stages);
    // SAFETY: the caller's, here and below.
    for at in unsafe { groups.tiles::<BM>() } {
        let acc = pipe.run(
            0..a.cols().div_ceil(BK as u32),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                // SAFETY: as above. W has two matrices of each group.
                unsafe {
                    copy(a.tile_unchecked([at.matrix, at.m, k]).of_rows(at.first, at.rows), a_s.at(s));
                    copy(w.tile_unchecked([at.group, 0, at.n, k]), w_s.at(s).rows::<UNITS>(0));
                    copy(w.tile_unchecked([at.group, 1, at.n, k]), w_s.at(s).rows::<UNITS>(1));
                }
            },
            #[inline(always)]
            |acc, s, _| multiply(Y::default(), a_s.at(s), w_s.at(s).t(), acc),
        );
        if !cta.computes() {
            continue;
        }
        let (gates, ups) = (acc.columns::<0, UNITS>(), acc.columns::<UNITS, UNITS>());
        let units = scaled::<Y::D, BM, UNITS>(gated(gates, &ups, &activation), &scales, &at, true);
        let mut c = c.get();
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked([at.matrix, at.m, at.n]) };
        out.store_each(units, |x| x, to.of_rows(at.first, at.rows));
    }
}

/// act(gates) · ups, with the activation that the launch asks for.
#[inline(always)]
pub(crate) fn gated<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    mut gates: Fragment<f32, M, N, L>,
    ups: &Fragment<f32, M, N, L>,
    activation: &InPlace<u32>,
) -> Fragment<f32, M, N, L> {
    // One branch for all elements. The number is read anew for each comparison, so that the compiler makes no jump table, for which ptxas spills.
    let mut i = 0;
    while i < Activation::ALL.len() {
        let this = Activation::ALL[i];
        if activation.get() == this as u32 {
            gates = gates.map(|x| this.apply(x));
        }
        i += 1;
    }
    gates.zip(ups, |gate, up| gate * up)
}
