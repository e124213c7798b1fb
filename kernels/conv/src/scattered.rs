//! Outputs that lie anywhere.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, Gemm, Global, GlobalMut, InPlace, Patches, Raster, RasterOrder, RowMajor,
    Schedule, Shared, copy, gemm,
};

/// y = patches of x w for each group, as [`conv`](fn@crate::conv) computes it, to pixels with any strides.
///
/// `w` is \[groups, filter rows of all slices, filter columns, channels, outputs\], `y` \[images, height, width, groups, outputs\]. It is a gradient of images that
/// a filter's stride visits in turn: those of their pixels which the same taps reach.
#[kernel(program = P)]
pub fn conv_scattered<
    P: Schedule,
    Y: Gemm<T, BM, BN, BK>,
    T: Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    x: Patches<T>,
    w: InPlace<Global<T, 5>>,
    y: InPlace<GlobalMut<T, 5, RowMajor, 0>>,
    order: RasterOrder,
) {
    let stages = cta.stages::<STAGES>();
    let x_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let w_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    for at in Raster::persistent(order, 1) {
        let mut tap = x.tap(0);
        let acc = pipe.run(
            0..x.steps(),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, _| {
                copy(x.tile(at.batch, at.m, tap), x_s.at(s));
                copy(w.get().tile([at.batch, x.line(tap), tap.column, tap.block, at.n]), w_s.at(s));
                tap = x.next(tap);
            },
            #[inline(always)]
            |acc, s, _| gemm(Y::default(), x_s.at(s), w_s.at(s), acc),
        );
        let place = |row| {
            let [image, line, column] = x.output(at.m * BM as u32 + row)?;
            Some([image, line, column, at.batch, at.n * BN as u32])
        };
        copy(acc.cast::<T>(), y.get().scatter(place));
    }
}
