//! C = A B for each group of rows.

use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Gemm, Global, GlobalMut, GroupTile, Groups, InPlace, Major,
    OutputLayout, RowMajor, Rows, Schedule, Shared, copy, for_each_row, gemm as multiply,
};

/// C's rows of group g = A's rows of group g, times B\[g\]: A \[matrices, rows, K\], B \[groups, K, N\], C \[matrices, rows, N\].
///
/// Rows are multiplied by `scales` \[matrices, rows, 1\], unless that has none. Multiplies `T` in tiles of `BM` x `BN` x `BK`, accumulates in `f32`, stores `T`. `groups` says which rows are whose; rows of no group are not
/// stored. As many CTAs as the grid has take the tiles in turn.
///
/// # Safety
/// `groups` has its numbers where it says. A and C have all matrices that it names, B one for each group.
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
    scales: InPlace<Global<f32, 3, RowMajor, 0>>,
    groups: Groups,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<T, BM, BN, _>();
    let mut pipe = cta.pipeline(stages);
    // SAFETY: the caller's, here and below.
    for at in unsafe { groups.tiles::<BM>() } {
        let acc = pipe.run(
            0..a.cols().div_ceil(BK as u32),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                // SAFETY: as above.
                unsafe {
                    copy(a.tile_unchecked([at.matrix, at.m, k]).of_rows(at.first, at.rows), a_s.at(s));
                    copy(b.tile_unchecked([at.group, k, at.n]), b_s.at(s));
                }
            },
            #[inline(always)]
            |acc, s, _| multiply(Y::default(), a_s.at(s), b_s.at(s), acc),
        );
        let acc = scaled::<Y::D, BM, BN>(acc, &scales, &at, cta.computes());
        let mut c = c.get();
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked([at.matrix, at.m, at.n]) };
        out.store_each(acc, |x| x, to.of_rows(at.first, at.rows));
    }
}

/// A tile with its rows multiplied by their scales, if there are any.
#[inline(always)]
pub(crate) fn scaled<L: FragmentLayout<BM, BN>, const BM: usize, const BN: usize>(
    tile: Fragment<f32, BM, BN, L>,
    scales: &InPlace<Global<f32, 3, RowMajor, 0>>,
    at: &GroupTile,
    computes: bool,
) -> Fragment<f32, BM, BN, L> {
    let scales = scales.get();
    if scales.rows() == 0 || !computes {
        return tile;
    }
    let scales = scales.tile([at.matrix, at.m, 0]).of_rows(at.first, at.rows);
    let mut factors = Rows::<f32, BM, BN, L>::splat(1.0);
    for_each_row::<L, BM, BN>(|r, row, _| factors.regs.set(r, scales.element::<BM, 1>(row, 0)));
    tile.zip_rows(&factors, |x, by| x * by)
}
