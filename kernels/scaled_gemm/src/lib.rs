//! C = act(alpha scales A Bᵀ + bias) of bytes: 8-bit floats, int8 and tf32.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod grouped;
mod list;
mod split;
mod stored;
mod stream;
mod summation;

pub use grouped::{
    GroupedScaledGemmArgs, GroupedScaledGemmFewArgs, grouped_scaled_gemm, grouped_scaled_gemm_few,
};
pub use list::{GROUPED_SCALED, GroupedScaledKernel, SCALED, ScaledKernel};
pub use split::{PARTS, SPLIT, SplitColumnsArgs, SplitKernel, SplitRowsArgs, split_columns, split_rows};
pub use stored::{Stored, ToRange, ToRangeAbi};
pub use stream::{ScaledGemmStreamArgs, scaled_gemm_stream};
pub use summation::{Mode, Order, Summation};

use tilewright_device::kernel;
use tilewright_device::tile::{
    Absent, ByColumn, ByElement, ByRow, ColMajor, Cta, Element, Epilogue, Global, GlobalMut, InPlace, Major,
    RasterOrder, RowMajor, Schedule, Shared, Swizzle, copy,
};

/// C = act(alpha · rows · columns · A Bᵀ + bias), or the exact sums A Bᵀ where C is of i32: A \[M, K\], B \[N, K\], C \[M, N\].
///
/// `T` are pairs of bytes that are neighbours along K, or halves of tf32: of bytes A is \[M, K / 2\], `b` is Bᵀ \[K / 2, N\]. Products are
/// summed up as `S` says, in tiles of `BM` rows, `BN` columns and `BK` of `T`; where it scales sums of 128 along K, the
/// caller's A has the scales `line_scales` \[M, K / 128\] and its B `block_scales` \[N / 128, K / 128\]. Tiles are taken in the order of `order` by as many clusters of
/// `SPLIT` CTAs as the grid has, which divide the depth among themselves; `BOX` is how many lines of B and of C one TMA box takes. Where `P` has clusters of its own,
/// their CTAs take neighbours along M together, and share B's tiles. What rounding to `U` takes, such as the factor of e4m3, is `rounding`. With a column-major C, few columns of a tile are few rows of the caller's A, which is then `b`;
/// tiles then have `lines` columns of B and C each, `BN` or fewer: what TMA finds outside of a tensor takes it longer than what is inside, so tiles beside each other have as many each.
///
/// # Safety
/// Where C is column-major, B's boxes have `lines` lines, a multiple of 8; where sums are scaled along K, those are `BN`.
#[kernel(
    program = P,
    cluster = [SPLIT as u32 * P::CLUSTER, 1, 1],
)]
pub unsafe fn scaled_gemm<
    P: Schedule,
    Y,
    S,
    T: Element,
    U: Stored<S::Sum>,
    OC: Major,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const SPLIT: usize,
    const BOX: usize,
>(
    mut cta: Cta<P>,
    a: InPlace<Global<T, 2>>,
    b: InPlace<Global<T, 2, ColMajor, BOX>>,
    c: InPlace<GlobalMut<U, 2, OC, BOX>>,
    line_scales: InPlace<Global<f32, 2, RowMajor, 0>>,
    block_scales: InPlace<Global<f32, 2, RowMajor, 0>>,
    order: RasterOrder,
    lines: InPlace<u32>,
    epilogue: Epilogue<ByElement<U::Bias, 2, OC>, Absent, ByRow<f32, 2>, ByColumn<f32, 2>>,
    rounding: U::Rounding,
) where
    S: Summation<Y, T, BM, BN, BK>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, Swizzle<128>>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, Swizzle<128>, ColMajor>>(&mut cta);
    let mut out = cta.output::<U, BM, BN, S::D>();
    let shortens = const { !OC::ROW_MAJOR };
    let short = || shortens.then(|| lines.get());
    if shortens {
        const { assert!(OC::ROW_MAJOR || BOX == BN, "a tile is one box") };
        stages.zero_lines(&mut cta, &b_s, lines.get());
    }
    let mut split = cta.split_k::<BM, BN, S::D, SPLIT>();
    let mut pipe = cta.pipeline(stages);
    let turns = cta.turns_if(S::IN_TURN);
    for at in cta.tiles(order, SPLIT as u32) {
        let sum = S::sum(
            &mut pipe,
            split.steps(a.get().cols().div_ceil(BK as u32)),
            #[inline(always)]
            |s, k| {
                copy(a.get().tile([at.m, k]).own(), a_s.at(s));
                // SAFETY: the caller's; the other lines are zeros, and their sums are not stored.
                copy(unsafe { b.get().tile([k, at.n]).short(short()) }, b_s.at(s));
            },
            (&a_s, &b_s),
            (line_scales, block_scales),
            (at, cta.computes()),
            &turns,
        );
        let Some(sum) = split.reduce(sum) else { continue };
        let (place, lines) = ([at.m, at.n], short());
        let apply = |sum| match lines {
            Some(lines) => epilogue.beyond_column(at.n * lines).apply(sum, [at.m, 0]),
            None => epilogue.apply(sum, place),
        };
        U::store(sum, apply, rounding, &mut out, c, place, lines);
    }
}

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
