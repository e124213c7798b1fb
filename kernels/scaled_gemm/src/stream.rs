//! Products whose depth CTAs divide as it falls: stream-K.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Absent, ByColumn, ByElement, ByRow, ColMajor, Cta, Element, Epilogue, Global, GlobalMut, InPlace, Major,
    RowMajor, Schedule, Shared, StreamOrder, Swizzle, copy,
};

use crate::stored::Stored;
use crate::summation::Summation;

/// As [`scaled_gemm`](fn@crate::scaled_gemm), where tiles' depth is divided evenly among CTAs (Osama et al. 2023).
///
/// CTAs hand over the sums of parts of tiles through `order`'s workspace. Where C is column-major, `lines` columns of a tile of B are read, all or those that B
/// has: what TMA finds outside of a tensor takes it longer than what is inside.
///
/// # Safety
/// Where C is column-major, B's boxes have `lines` lines, a multiple of 8, and no more columns of B than these are in one tile.
#[kernel(program = P)]
pub unsafe fn scaled_gemm_stream<
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
    const BOX: usize,
>(
    mut cta: Cta<P>,
    a: InPlace<Global<T, 2>>,
    b: InPlace<Global<T, 2, ColMajor, BOX>>,
    c: InPlace<GlobalMut<U, 2, OC, BOX>>,
    line_scales: InPlace<Global<f32, 2, RowMajor, 0>>,
    block_scales: InPlace<Global<f32, 2, RowMajor, 0>>,
    order: InPlace<StreamOrder>,
    lines: u32,
    epilogue: Epilogue<ByElement<U::Bias, 2, OC>, Absent, ByRow<f32, 2>, ByColumn<f32, 2>>,
    rounding: U::Rounding,
) where
    S: Summation<Y, T, BM, BN, BK>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, Swizzle<128>>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, Swizzle<128>, ColMajor>>(&mut cta);
    let mut out = cta.output::<U, BM, BN, S::D>();
    if !OC::ROW_MAJOR {
        const { assert!(OC::ROW_MAJOR || BOX == BN, "a tile is one box") };
        stages.zero_lines(&mut cta, &b_s, lines);
    }
    let mut stream = cta.stream_k(order);
    let mut pipe = cta.pipeline(stages);
    let turns = cta.turns_if(S::IN_TURN);
    while let Some(part) = stream.part() {
        let at = part.tile;
        let mut sum = S::sum(
            &mut pipe,
            part.steps.clone(),
            #[inline(always)]
            |s, k| {
                copy(a.get().tile([at.m, k]), a_s.at(s));
                let tile = b.get().tile([k, at.n]);
                // SAFETY: the caller's; the other lines are zeros, and their sums are outside of C.
                copy(if OC::ROW_MAJOR { tile } else { unsafe { tile.short(Some(lines)) } }, b_s.at(s));
            },
            (&a_s, &b_s),
            (line_scales, block_scales),
            (at, cta.computes()),
            &turns,
        );
        if stream.sum(&part, &mut sum) {
            let place = [at.m, at.n];
            U::store(sum, |sum| epilogue.apply(sum, place), rounding, &mut out, c, place, None);
        }
    }
}
