//! The same product for groups of few rows, transposed: Cᵀ = Bᵀ Aᵀ, so that few rows are few columns of a tile.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, Gemm, Global, GlobalMut, Groups, InPlace, Major, RowMajor, Schedule, Shared,
    copy, gemm as multiply,
};

/// C's rows of group g = A's rows of group g, times B\[g\]: A \[matrices, rows, K\], Bᵀ \[groups, N, K\], C \[matrices, rows, N\].
///
/// As [`grouped_gemm`](fn@crate::grouped_gemm), in tiles of `BN` columns of C, `BM` rows and `BK`: what is streamed is the left operand.
///
/// # Safety
/// `groups` has its numbers where it says. A and C have all matrices that it names, Bᵀ one for each group.
#[kernel(program = P)]
pub unsafe fn grouped_gemm_few<
    P: Schedule,
    Y,
    T: Element,
    OB: Major,
    const BN: usize,
    const BM: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    a: Global<T, 3, RowMajor, BM>,
    b: Global<T, 3, OB>,
    c: InPlace<GlobalMut<T, 3>>,
    scales: InPlace<Global<f32, 3, RowMajor, 0>>,
    groups: Groups,
) where
    Y: Gemm<T, BN, BM, BK>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, _, RowMajor>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BN, BK, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    // SAFETY: the caller's, here and below.
    for at in unsafe { groups.tiles::<BM>() } {
        let acc = pipe.run(
            0..a.cols().div_ceil(BK as u32),
            Fragment::<f32, BN, BM, _>::zero(),
            #[inline(always)]
            |s, k| {
                // SAFETY: as above.
                unsafe {
                    copy(b.tile_unchecked([at.group, at.n, k]), b_s.at(s));
                    copy(a.tile_unchecked([at.matrix, at.m, k]).of_rows(at.first, at.rows), a_s.at(s));
                }
            },
            #[inline(always)]
            |acc, s, _| multiply(Y::default(), b_s.at(s), a_s.at(s).t(), acc),
        );
        if !cta.computes() {
            continue;
        }
        let (mut c, scales) = (c.get(), scales.get());
        let are_scaled = scales.rows() > 0;
        let scales = scales.tile([at.matrix, at.m, 0]).of_rows(at.first, at.rows);
        let scale = |row| if are_scaled { scales.element::<BM, 1>(row, 0) } else { 1.0 };
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked([at.matrix, at.m, at.n]) }.of_rows(at.first, at.rows);
        acc.for_each(|column, row, x| to.put::<BM, BN>(row, column, T::from_f32x2(x * scale(row), 0.0)[0]));
    }
}
