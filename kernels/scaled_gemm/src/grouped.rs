//! C = A Bᵀ for each group of rows, of 8-bit floats with scales of blocks.

use tilewright_device::kernel;
use tilewright_device::tile::{
    ColMajor, Cols, Cta, Element, Gemm, Global, GlobalMut, Groups, InPlace, OutputLayout, RowMajor, Rows,
    Schedule, Shared, Swizzle, copy, gemm as multiply,
};

use crate::summation::{BLOCK, Order, Scales3, by_blocks, by_swapped_blocks};

/// C's rows of group g = A's rows of group g, times B\[g\] transposed: A \[matrices, rows, K\], B \[groups, N, K\], C \[matrices, rows, N\].
///
/// `T` are pairs of bytes that are neighbours along K: A is \[matrices, rows, K / 2\], `b` is Bᵀ \[groups, K / 2, N\]. Sums of 128 along K are multiplied by A's scales
/// `line_scales` \[matrices, rows, K / 128\] and B's `block_scales` \[groups, N / 128, K / 128\], and added up in f32, in tiles of `BM` rows, `BN` columns
/// and `BK` of `T`. `groups` says which rows are whose; rows of no group are not stored. As many CTAs as the grid has take the tiles in turn.
///
/// # Safety
/// `groups` has its numbers where it says. A and C have all matrices that it names, B one for each group.
#[kernel(program = P)]
pub unsafe fn grouped_scaled_gemm<
    P: Schedule,
    Y,
    O: Order,
    T: Element,
    U: Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    a: InPlace<Global<T, 3>>,
    b: InPlace<Global<T, 3, ColMajor>>,
    c: InPlace<GlobalMut<U, 3>>,
    line_scales: Scales3,
    block_scales: Scales3,
    groups: Groups,
) where
    Y: Gemm<T, BM, BN, BK, A = Swizzle<128>, B = Swizzle<128>, D: OutputLayout<BM, BN>>,
{
    const { assert!(BK as u32 * 2 == BLOCK && BLOCK.is_multiple_of(BN as u32), "a step has one scale of B") };
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, Swizzle<128>>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, Swizzle<128>, ColMajor>>(&mut cta);
    let mut out = cta.output::<U, BM, BN, _>();
    let mut pipe = cta.pipeline(stages);
    let turns = cta.turns_if(O::IN_TURN);
    // SAFETY: the caller's, here and below.
    for at in unsafe { groups.tiles::<BM>() } {
        let steps = a.get().cols().div_ceil(BK as u32);
        let mut loads = pipe.loads(
            0..steps,
            #[inline(always)]
            |s, k| {
                // SAFETY: as above.
                unsafe {
                    copy(a.get().tile_unchecked([at.matrix, at.m, k]).of_rows(at.first, at.rows), a_s.at(s));
                    copy(b.get().tile_unchecked([at.group, k, at.n]), b_s.at(s));
                }
            },
        );
        if !cta.computes() {
            continue;
        }
        let sums = by_blocks::<O, _, _, _, Y::D, STAGES, BM, BN>(
            &mut loads,
            steps,
            &turns,
            #[inline(always)]
            |k| {
                let of_b =
                    block_scales.get().tile([at.group, at.n * BN as u32 / BLOCK, k]).element::<1, 1>(0, 0);
                let rows = line_scales.get().tile([at.matrix, at.m, k]);
                (Rows::load_or_zero(rows.of_rows(at.first, at.rows)), of_b)
            },
            #[inline(always)]
            |s, sum| multiply(Y::default(), a_s.at(s), b_s.at(s), sum),
        );
        // SAFETY: as above.
        let to = unsafe { c.get().tile_unchecked([at.matrix, at.m, at.n]) }.of_rows(at.first, at.rows);
        out.store_each(sums, |x| x, to);
    }
}

/// The same product for groups of few rows, transposed: Cᵀ = B Aᵀ, so that few rows are few columns of a tile.
///
/// As [`grouped_scaled_gemm`](fn@grouped_scaled_gemm), in tiles of `BN` columns of C, `BM` rows and `BK` of `T`: what is streamed is the left operand, B as it lies.
///
/// # Safety
/// `groups` has its numbers where it says. A and C have all matrices that it names, B one for each group.
#[kernel(program = P)]
pub unsafe fn grouped_scaled_gemm_few<
    P: Schedule,
    Y,
    T: Element,
    U: Element,
    const BN: usize,
    const BM: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    a: InPlace<Global<T, 3, RowMajor, BM>>,
    b: InPlace<Global<T, 3>>,
    c: InPlace<GlobalMut<U, 3>>,
    line_scales: Scales3,
    block_scales: Scales3,
    groups: Groups,
) where
    Y: Gemm<T, BN, BM, BK, A = Swizzle<128>, B = Swizzle<128>>,
{
    const { assert!(BK as u32 * 2 == BLOCK && BLOCK.is_multiple_of(BN as u32), "a step has one scale of B") };
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, Swizzle<128>>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BN, BK, Swizzle<128>>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let turns = cta.turns_if(false);
    // SAFETY: the caller's, here and below.
    for at in unsafe { groups.tiles::<BM>() } {
        let steps = a.get().cols().div_ceil(BK as u32);
        let mut loads = pipe.loads(
            0..steps,
            #[inline(always)]
            |s, k| {
                // SAFETY: as above.
                unsafe {
                    copy(b.get().tile_unchecked([at.group, at.n, k]), b_s.at(s));
                    copy(a.get().tile_unchecked([at.matrix, at.m, k]).of_rows(at.first, at.rows), a_s.at(s));
                }
            },
        );
        if !cta.computes() {
            continue;
        }
        let sums = by_swapped_blocks::<_, _, _, Y::D, STAGES, BN, BM>(
            &mut loads,
            steps,
            &turns,
            #[inline(always)]
            |k| {
                let of_b =
                    block_scales.get().tile([at.group, at.n * BN as u32 / BLOCK, k]).element::<1, 1>(0, 0);
                let rows = line_scales.get().tile([at.matrix, at.m, k]).of_rows(at.first, at.rows);
                (Cols::indexed(|row| rows.element::<BM, 1>(row, 0)), of_b)
            },
            #[inline(always)]
            |s, sum| multiply(Y::default(), b_s.at(s), a_s.at(s).t(), sum),
        );
        // SAFETY: as above.
        let to = unsafe { c.get().tile_unchecked([at.matrix, at.m, at.n]) }.of_rows(at.first, at.rows);
        sums.for_each(|column, row, x| to.put::<BM, BN>(row, column, U::from_f32x2(x, 0.0)[0]));
    }
}
