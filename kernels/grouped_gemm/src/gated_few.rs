//! The same for groups of few rows, transposed: the rows of a tile are gates and their ups.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Gemm, Global, GlobalMut, Groups, InPlace, RowMajor, Schedule,
    Shared, copy, gemm as multiply,
};

use crate::gated::gated;

/// C's rows of group g = act(A's rows of group g, times W\[g, 0\]ᵀ) · (the same times W\[g, 1\]ᵀ): A \[matrices, rows, K\], W \[groups, 2, N, K\],
/// C \[matrices, rows, N\].
///
/// As [`grouped_gemm_gated`](fn@crate::grouped_gemm_gated), in tiles of `BN` columns of products, which are those of `UNITS` gates and then of their ups, `BM` rows and `BK`.
///
/// # Safety
/// `groups` has its numbers where it says. A and C have all matrices that it names, W two for each group.
#[kernel(program = P)]
pub unsafe fn grouped_gemm_gated_few<
    P: Schedule,
    Y,
    T: Element,
    const BN: usize,
    const UNITS: usize,
    const BM: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    a: Global<T, 3, RowMajor, BM>,
    w: Global<T, 4>,
    c: InPlace<GlobalMut<T, 3>>,
    scales: InPlace<Global<f32, 3, RowMajor, 0>>,
    groups: Groups,
    activation: InPlace<u32>,
) where
    Y: Gemm<T, BN, BM, BK, D: FragmentLayout<UNITS, BM>>,
{
    const { assert!(BN == 2 * UNITS, "each unit has a gate and an up") };
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, _, RowMajor>>(&mut cta);
    let w_s = stages.alloc::<Shared<T, BN, BK, _, RowMajor>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    // SAFETY: the caller's, here and below.
    for at in unsafe { groups.tiles::<BM>() } {
        let acc = pipe.run(
            0..a.cols().div_ceil(BK as u32),
            Fragment::<f32, BN, BM, _>::zero(),
            #[inline(always)]
            |s, k| {
                // SAFETY: as above. W has two matrices of each group.
                unsafe {
                    copy(w.tile_unchecked([at.group, 0, at.n, k]), w_s.at(s).rows::<UNITS>(0));
                    copy(w.tile_unchecked([at.group, 1, at.n, k]), w_s.at(s).rows::<UNITS>(1));
                    copy(a.tile_unchecked([at.matrix, at.m, k]).of_rows(at.first, at.rows), a_s.at(s));
                }
            },
            #[inline(always)]
            |acc, s, _| multiply(Y::default(), w_s.at(s), a_s.at(s).t(), acc),
        );
        if !cta.computes() {
            continue;
        }
        let (gates, ups) = (acc.rows::<0, UNITS>(), acc.rows::<UNITS, UNITS>());
        let units = gated::<Y::D, UNITS, BM>(gates, &ups, &activation);
        let (mut c, scales) = (c.get(), scales.get());
        let are_scaled = scales.rows() > 0;
        let scales = scales.tile([at.matrix, at.m, 0]).of_rows(at.first, at.rows);
        let scale = |row| if are_scaled { scales.element::<BM, 1>(row, 0) } else { 1.0 };
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked([at.matrix, at.m, at.n]) }.of_rows(at.first, at.rows);
        units.for_each(|column, row, x| {
            to.put::<BM, UNITS>(row, column, T::from_f32x2(x * scale(row), 0.0)[0])
        });
    }
}
