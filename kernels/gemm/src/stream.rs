//! C = act(alpha A B + beta C + bias) whose depth CTAs divide as it falls: stream-K.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, Gemm, Global, GlobalMut, InPlace, Major, OutputLayout, Schedule, Shared,
    StreamOrder, copy, gemm as multiply,
};

use crate::list::Activates;
use crate::shortens;

/// C = act(alpha A B + beta C + bias), for the shapes and orders of [`gemm`](fn@crate::gemm), whose tiles' depth is divided evenly among all CTAs (Osama et al. 2023).
///
/// CTAs hand over the sums of parts of tiles through `order`'s workspace. Where C is column-major, each tile takes `lines` columns of B and C, as
/// [`gemm`](fn@crate::gemm)'s.
///
/// # Safety
/// A, B, C and the bias, if there is one, have all matrices of `order`. B's boxes have `lines` lines, or equal parts of them where a tile is several boxes.
#[kernel(
    program = P,
    cluster = [P::CLUSTER, 1, 1],
)]
pub unsafe fn gemm_stream<
    P: Schedule,
    Y,
    T: Element,
    U: Element,
    E: Activates,
    OA: Major,
    OB: Major,
    OC: Major,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const BOX: usize,
    const OUT: usize,
>(
    mut cta: Cta<P>,
    a: Global<T, 3, OA>,
    b: Global<T, 3, OB, BOX>,
    c: InPlace<GlobalMut<U, 3, OC, OUT>>,
    bias: InPlace<Global<U, 3, OC>>,
    order: InPlace<StreamOrder<true>>,
    lines: u32,
    alpha: InPlace<f32>,
    beta: InPlace<f32>,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<U, BM, BN, _>();
    let short = const { shortens::<P, OC>() }.then_some(lines);
    if short.is_some() {
        stages.zero_lines(&mut cta, &b_s, lines);
    }
    let mut stream = cta.stream_k(order);
    let mut pipe = cta.pipeline(stages);
    while let Some(part) = stream.part() {
        let at = part.tile;
        let mut acc = pipe.run(
            part.steps.clone(),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                // SAFETY: the caller's, here and below.
                unsafe {
                    copy(a.tile_unchecked([at.batch, at.m, k]).own(), a_s.at(s));
                    copy(b.tile_unchecked([at.batch, k, at.n]).short(short), b_s.at(s));
                }
            },
            #[inline(always)]
            |acc, s, _| multiply(Y::default(), a_s.at(s), b_s.at(s), acc),
        );
        if !stream.sum(&part, &mut acc) {
            continue;
        }
        let (place, mut c) = ([at.batch, at.m, at.n], c.get());
        let (alpha, beta) = (alpha.get(), beta.get());
        if E::PLAIN {
            // SAFETY: as above.
            let to = unsafe { c.tile_unchecked(place) };
            out.store_each(acc, |x| E::ACTIVATION.apply(alpha * x), to.short(short));
            continue;
        }
        let mut acc = acc.map(|x| alpha * x);
        if beta != 0.0 {
            // SAFETY: as above.
            let from = unsafe { c.reader().tile_unchecked(place).short(short) };
            acc = acc.zip_global(from, |x, c| x + beta * c);
        }
        let bias = bias.get();
        if bias.cols() > 0 {
            // SAFETY: as above.
            let from = unsafe { bias.tile_unchecked(place).short(short) };
            acc = acc.zip_global(from, |x, b| x + b);
        }
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked(place) };
        out.store(acc.map(|x| E::ACTIVATION.apply(x)).cast::<U>(), to.short(short));
    }
}
