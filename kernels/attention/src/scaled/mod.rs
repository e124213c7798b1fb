//! Attention of 8-bit floats.

mod list;
mod scales;
mod values;

pub use list::{SCALED, SCALED_VALUES, ScaledKernel, ScaledValuesKernel};
pub use scales::{HeadScales, Scales};
pub use values::{TransposeValuesArgs, VALUES_TILE, Values, transpose_values};

use core::f32::consts::LN_2;

use tilewright_device::kernel;
use tilewright_device::tile::{
    ChainedGemm, Cta, E4M3x2, Element, Fragment, Fresh, Global, GlobalMut, InPlace, OnlineSoftmax, Pending,
    RowMajor, Rows, Schedule, Shared, copy, gemm,
};

use crate::keys::Keys;
use crate::order::{QueryTile, TileOrder, tile_numbers};
use crate::walk::Walk;

/// What exponentials are multiplied by, to base 2, before they are rounded to e4m3, whose largest number is 448 and whose least is 2^-9: the row's
/// largest is 256.
const RAISED: f32 = 8.0;

/// Whether warpgroups issue their products in turn: products bound wide heads, which gain 8% by it, exponentials narrow ones, which lose 1 to 5%.
const fn in_turn(columns: usize, of_values: usize) -> bool {
    columns + of_values > 256
}

/// O = softmax(scale Q Kᵀ + mask) V of e4m3, with sums of f32 (Shah et al. 2024, "Low-precision with FP8").
///
/// Q \[batch, heads, queries, D\] and K \[batch, KV heads, keys, D\] in pairs of columns, V \[batch, KV heads, DV, keys\] in pairs of keys, which lie in their lines as
/// [`transpose_values()`] writes them; O as Q with DV columns, and the log-sum-exp of each row, \[batch, heads, queries, 1\] in natural logarithms, unless `lse` has no rows. `scale` is that of Q Kᵀ times
/// log2(e), on top of the `scales` of heads. `D` is counted in pairs, `HALF` is half of `BN`. What is not there is zeros. A CTA takes tiles of `BM` queries in the order of
/// `order` and walks over their keys in blocks of `BN`, last to first; the softmax of one block runs under the next block's Q Kᵀ and its own P V.
#[kernel(program = P)]
pub fn scaled_attention<
    P: Schedule,
    Y,
    U: Element,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const DV: usize,
    const HALF: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    q: InPlace<Global<E4M3x2, 4>>,
    k: InPlace<Global<E4M3x2, 4, RowMajor, BN>>,
    v: InPlace<Global<E4M3x2, 4, RowMajor, DV>>,
    o: InPlace<GlobalMut<U, 4>>,
    lse: InPlace<GlobalMut<f32, 4>>,
    order: InPlace<TileOrder>,
    keys: InPlace<Keys>,
    scale: f32,
    scales: InPlace<Scales>,
) where
    Y: ChainedGemm<E4M3x2, BM, BN, D, DV, HALF>,
{
    let (k_stages, v_stages) = (cta.stages::<STAGES>(), cta.stages::<STAGES>());
    let q_stage = cta.stages::<1>();
    let q_s = q_stage.alloc::<Shared<E4M3x2, BM, D, _, _>>(&mut cta);
    let k_s = k_stages.alloc::<Shared<E4M3x2, BN, D, _, _>>(&mut cta);
    let v_s = v_stages.alloc::<Shared<E4M3x2, DV, HALF, _, _>>(&mut cta);
    let mut out = cta.output::<U, BM, DV, Y>();
    let (mut k_pipe, mut v_pipe) = (cta.pipeline(k_stages), cta.pipeline(v_stages));
    let mut q_pipe = cta.pipeline_by_warpgroup(q_stage);
    let turns = cta.turns();
    // Producers beside 240 registers of a consumer have 24: each of their loads finds out anew what it loads.
    for number in tile_numbers(order) {
        let tile = || order.get().tile(number);
        let QueryTile { batch, head, kv_head, m } = tile();
        let (blocks, place) = (|| keys.get().blocks::<BM, BN>(m), [batch, head, m, 0]);
        let once = 0..!blocks().none() as u32;
        let mut qs = q_pipe.loads(
            once,
            #[inline(always)]
            |s, _| copy(q.get().tile(place), q_s.at(s)),
        );
        let mut ks = k_pipe.loads(
            blocks().steps(),
            #[inline(always)]
            |s, j| copy(k.get().tile([batch, kv_head, j, 0]), k_s.at(s)),
        );
        let mut vs = v_pipe.loads(
            blocks().steps(),
            #[inline(always)]
            |s, j| copy(v.get().tile([batch, kv_head, 0, j]), v_s.at(s)),
        );
        if !cta.computes() {
            continue;
        }
        let blocks = blocks();
        let mut acc = Fragment::<f32, BM, DV, Y>::zero();
        let (mut inverse, mut log2) = (Rows::<f32, BM, BN, Y>::splat(0.0), Rows::splat(f32::NEG_INFINITY));
        if !blocks.none() {
            let [of_q, of_k] = scales.get().of_scores(batch, head, kv_head);
            let mut softmax = OnlineSoftmax::<BM, BN, Y>::raised(scale * of_q * of_k, RAISED);
            let (q, k) = (qs.acquire(), ks.acquire());
            let s = gemm(Y::default(), q_s.at(q.full()), k_s.at(k.full()).t(), Fresh::new()).wait();
            ks.release(k);
            let s = if blocks.whole(blocks.last()) { s } else { keys.get().mask(s, m, blocks.last()) };
            let max = softmax.maximum(&s);
            let (p, _) = softmax.exponentials(s, max);
            let (p, weighted) = blocks.fold(
                (p.e4m3_operand::<HALF>(), acc),
                #[inline(always)]
                |(p, acc), j, masked| {
                    let k = ks.acquire();
                    if const { in_turn(2 * D, DV) } {
                        turns.take();
                    }
                    let s = gemm(Y::default(), q_s.at(q.full()), k_s.at(k.full()).t(), Fresh::new()).commit();
                    let v = vs.acquire();
                    let acc = gemm(Y::default(), p, v_s.at(v.full()).t(), acc);
                    let (s, acc) = s.behind(
                        acc,
                        #[inline(always)]
                        || {
                            if const { in_turn(2 * D, DV) } {
                                turns.pass();
                            }
                        },
                    );
                    ks.release(k);
                    let s = if masked { keys.get().mask(s, m, j) } else { s };
                    let mut max = softmax.maximum(&s);
                    let acc = vs.finish(v, acc, &mut max);
                    let (p, rescale) = softmax.exponentials(s, max);
                    (p.e4m3_operand(), acc.zip_rows(&rescale.along(), |x, by| x * by))
                },
            );
            qs.release(q);
            let v = vs.acquire();
            let last = gemm(Y::default(), p, v_s.at(v.full()).t(), weighted).commit();
            (inverse, log2) = softmax.finish();
            acc = last.wait();
            vs.release(v);
        }
        // Known again: in no register over the loop.
        let QueryTile { batch, head, kv_head, m } = tile();
        let (of_values, place) = (scales.get().of_values(batch, kv_head), [batch, head, m, 0]);
        let inverse = inverse.map(|inverse| inverse * of_values);
        let to = o.get().tile(place);
        // 256 columns of values leave no register.
        let to = if const { DV > 128 } { to.sparing() } else { to };
        out.store(acc.zip_rows(&inverse.along(), |x, by| x * by).cast::<U>(), to);
        let mut lse = lse.get();
        if lse.rows() > 0 {
            copy(log2.map(|log2| log2 * LN_2), lse.tile(place));
        }
    }
}
