//! Outputs that follow each other in memory.

use tilewright_device::kernel;
use tilewright_device::kernel::Copies;
use tilewright_device::tile::{
    ByElement, Cta, Element, Epilogue, Fragment, Gemm, Global, GlobalMut, InPlace, Major, OutputLayout,
    Patches, Raster, RasterOrder, Schedule, Shared, copy, gemm,
};

/// CTAs that share an SM: of those that read element by element several, which hide each other's waits.
const fn ctas<P: Schedule>() -> u32 {
    match P::COPIES {
        Copies::Elements => 3,
        _ => P::CTAS,
    }
}

/// y = act(patches of x w + bias + beta residual) for each group: an implicit GEMM (Chetlur et al. 2014).
///
/// `w` is \[groups, filter rows of all slices, filter columns, channels, outputs\], `y` \[groups, pixels, outputs\], and the terms of the epilogue have `y`'s
/// shape. Tiles of `BM` pixels and `BN` outputs are taken in the order of `order` by as many clusters of `SPLIT` CTAs as the grid
/// has, which divide the depth, taps and blocks of `BK` channels, among themselves. `OW` says whether channels or outputs are contiguous in `w`.
///
/// Tiles that TMA copies have `lines` outputs each, `BN` or fewer, where channels are contiguous: what TMA finds outside of a tensor takes it longer than what is inside, so tiles beside each other have
/// as many each.
///
/// # Safety
/// Of such tiles `w`'s boxes have `lines` lines, or equal parts of them where a tile is several boxes, a multiple of 8 each.
#[kernel(program = P, cluster = [SPLIT as u32, 1, 1], min_ctas = ctas::<P>())]
pub unsafe fn conv<
    P: Schedule,
    Y,
    T: Element,
    OW: Major,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const SPLIT: usize,
>(
    mut cta: Cta<P>,
    x: Patches<T>,
    w: InPlace<Global<T, 5, OW>>,
    y: InPlace<GlobalMut<T, 3>>,
    epilogue: Epilogue<ByElement<T, 3>, ByElement<T, 3>>,
    order: RasterOrder,
    lines: InPlace<u32>,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let x_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let w_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    // Of filters whose outputs are contiguous a tile's lines are its depth.
    let shortens = const { !OW::ROW_MAJOR && matches!(P::COPIES, Copies::Boxes) };
    let short = || shortens.then(|| lines.get());
    if shortens {
        stages.zero_lines(&mut cta, &w_s, lines.get());
    }
    let mut out = cta.output::<T, BM, BN, _>();
    let mut split = cta.split_k::<BM, BN, _, SPLIT>();
    let mut pipe = cta.pipeline(stages);
    let mut turns = cta.turns_of_tiles();
    for at in Raster::persistent(order, SPLIT as u32) {
        let steps = split.steps(x.steps());
        let mut tap = x.tap(steps.start);
        let acc = pipe.run_in_turn(
            &mut turns,
            steps,
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, _| {
                copy(x.tile(at.batch, at.m, tap), x_s.at(s));
                let filters = w.get().tile([at.batch, x.line(tap), tap.column, tap.block, at.n]);
                // SAFETY: the caller's; the other lines are zeros, and their sums are not stored.
                copy(unsafe { filters.short(short()) }, w_s.at(s));
                tap = x.next(tap);
            },
            #[inline(always)]
            |acc, s, _| gemm(Y::default(), x_s.at(s), w_s.at(s), acc),
        );
        let Some(acc) = acc.and_then(|acc| split.reduce(acc)) else { continue };
        match short() {
            Some(lines) => {
                let first = at.n * lines;
                let to = |place| y.get().tile(place).of_cols(first, lines);
                out.store_finished(acc, epilogue.beyond_column(first), [at.batch, at.m, 0], to);
            }
            None => out.store_finished(acc, epilogue, [at.batch, at.m, at.n], |place| y.get().tile(place)),
        }
    }
}
