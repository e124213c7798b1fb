//! C = A B for each group of rows.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, Gemm, Global, GlobalMut, InPlace, Major, OutputLayout, Schedule, Shared, copy,
    gemm as multiply,
};

use crate::groups::Groups;

/// C's rows of group g = A's rows of group g, times B\[g\]: A \[matrices, rows, K\], B \[groups, K, N\], C \[matrices, rows, N\].
///
/// Multiplies `T` in tiles of `BM` x `BN` x `BK`, accumulates in `f32`, stores `T`. `groups` says which rows are whose; rows of no group are not
/// stored. As many CTAs as the grid has take the tiles in turn.
///
/// # Safety
/// A and C have all matrices that `groups` names, B one for each group.
#[kernel(program = P)]
pub unsafe fn grouped_gemm<
    P: Schedule,
    Y,
    T: Element,
    OB: Major,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    a: Global<T, 3>,
    b: Global<T, 3, OB>,
    c: InPlace<GlobalMut<T, 3>>,
    groups: Groups,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<T, BM, BN, _>();
    let mut pipe = cta.pipeline(stages);
    for at in groups.tiles::<BM>() {
        let acc = pipe.run(
            0..a.cols().div_ceil(BK as u32),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                // SAFETY: the caller's, here and below.
                unsafe {
                    copy(a.tile_unchecked([at.matrix, at.m, k]).of_rows(at.first, at.rows), a_s.at(s));
                    copy(b.tile_unchecked([at.group, k, at.n]), b_s.at(s));
                }
            },
            #[inline(always)]
            |acc, s, _| multiply(Y::default(), a_s.at(s), b_s.at(s), acc),
        );
        let mut c = c.get();
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked([at.matrix, at.m, at.n]) };
        out.store_each(acc, |x| x, to.of_rows(at.first, at.rows));
    }
}
