//! Gradients of weights.

use tilewright_device::kernel;
use tilewright_device::tile::{
    ColMajor, Cta, Element, Fragment, Gemm, Global, GlobalMut, InPlace, OutputLayout, Patches, Schedule,
    Shared, StreamOrder, copy, gemm,
};

/// dw = dyᵀ patches of x for each group: the depth is the pixels of all outputs, which CTAs divide (Osama et al. 2023).
///
/// `dy` is \[groups, outputs, pixels\], `dw` \[groups, filter rows of all slices, filter columns, outputs, channels\]. A tile has `BM` outputs and `BN` channels of
/// one tap.
#[kernel(program = P)]
pub fn conv_weights<
    P: Schedule,
    Y,
    T: Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    dy: Global<T, 3, ColMajor>,
    x: Patches<T>,
    mut dw: GlobalMut<T, 5>,
    order: InPlace<StreamOrder>,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let dy_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let x_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<T, BM, BN, _>();
    let mut stream = cta.stream_k(order);
    let mut pipe = cta.pipeline(stages);
    while let Some(part) = stream.part() {
        let (at, tap) = (part.tile, x.tap(part.tile.n));
        let mut acc = pipe.run(
            part.steps.clone(),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                copy(dy.tile([at.batch, at.m, k]), dy_s.at(s));
                copy(x.tile(at.batch, k, tap), x_s.at(s));
            },
            #[inline(always)]
            |acc, s, _| gemm(Y::default(), dy_s.at(s), x_s.at(s), acc),
        );
        if stream.sum(&part, &mut acc) {
            out.store(acc.cast::<T>(), dw.tile([at.batch, x.line(tap), tap.column, at.m, tap.block]));
        }
    }
}
