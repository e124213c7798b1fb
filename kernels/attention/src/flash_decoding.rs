//! Attention of few queries over long sequences of keys: flash-decoding.

use core::convert::identity;
use core::f32::consts::LN_2;

use super::{HeadTerms, Kept, KeyPart, KeyParts, PartBlocks, PartKeys, Score, SplitOrder, score};
use tilewright_device::kernel;
use tilewright_device::tile::{
    ChainedGemm, Cta, Element, Fragment, Gemm, Global, GlobalMut, InPlace, OnlineSoftmax, Pending, RowMajor,
    Rows, Schedule, Scratch, Shared, SplitParts, block_y, copy, gemm,
};

use crate::chunks::{self, KeyLoads};

/// O = softmax(scale score(Q Kᵀ) + mask) V over parts of the keys (Dao et al. 2023, "Flash-Decoding").
///
/// Q \[batch, heads, queries, D\]; K \[pages, KV heads, rows, D\] and V likewise with DV columns, where `cache` says which pages
/// are whose. The rows of a tile are the heads that share a KV head, of query after query. If there is one part, O is written,
/// \[batch, heads, queries, DV\], and the log-sum-exp in natural logarithms to `lse`, \[batch, heads, queries, 1\], unless that
/// has no columns; else each part's to `parts`, for [`merge`](fn@super::merge). The scale, `cap` and `terms` are as for [`attention`](fn@super::attention).
///
/// Columns of Q and K lie in `CHUNKS` chunks of `D`, one or two; with two, CTA (x, y) takes columns y `DV` on of V and O.
///
/// K and V are of `C`: of codes of 8 bits a stage's tile is widened to `T` once, in the shared memory that the gemm reads, without their scales. These
/// are one for a head, so that of K goes with the scores' scale, and that of V with the sum that the result is divided by.
#[kernel(program = P)]
pub fn decode<
    P: Schedule,
    Y,
    T: Element,
    C: Kept<T>,
    F: Score,
    S: PartKeys,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const CHUNKS: usize,
    const DV: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    q: InPlace<Global<T, 4>>,
    k: InPlace<Global<C, 4, RowMajor, BN>>,
    v: InPlace<Global<C, 4, RowMajor, BN>>,
    o: InPlace<GlobalMut<T, 4>>,
    lse: InPlace<GlobalMut<f32, 4>>,
    parts: InPlace<SplitParts>,
    order: InPlace<SplitOrder>,
    cache: InPlace<S>,
    cap: f32,
    scale: f32,
    terms: InPlace<HeadTerms>,
) where
    Y: ChainedGemm<T, BM, BN, D, DV>,
{
    cta.prefetch_maps((k.get(), v.get()));
    let mut q_s = cta.scratch::<Shared<T, BM, D, _, _>>();
    let mut second_q_s = if CHUNKS > 1 { Some(cta.scratch::<Shared<T, BM, D, _, _>>()) } else { None };
    let (k_stages, v_stages) = (cta.stages::<STAGES>(), cta.stages::<STAGES>());
    let second = if CHUNKS > 1 { Some(cta.stages::<STAGES>()) } else { None };
    let k_s = chunks::tiles((&k_stages, second.as_ref()), &mut cta);
    let v_s = v_stages.alloc::<Shared<C, BN, DV, C::Staged<<Y as Gemm<T, BM, DV, BN>>::B>>>(&mut cta);
    let mut k_room = C::room::<P, BN, D, <Y as Gemm<T, BM, BN, D>>::B>(&mut cta);
    let mut v_room = C::room::<P, BN, DV, <Y as Gemm<T, BM, DV, BN>>::B>(&mut cta);
    let (mut k_pipe, mut v_pipe) = (cta.pipeline(k_stages), cta.pipeline(v_stages));
    let mut second = second.map(
        #[inline(always)]
        |stages| cta.pipeline(stages),
    );
    // Which columns of V and O are this CTA's.
    let columns = if CHUNKS > 1 { block_y() } else { 0 };
    let mut at_start = true;
    for KeyPart { batch, kv_head, m, split } in KeyParts::persistent(order) {
        let (rows, pages, keys) = (order.get(), cache.get().cache().pages, cache.get().keys(batch));
        let blocks = S::blocks::<BM, BN>(cache, &rows, &keys, KeyPart { batch, kv_head, m, split });
        let [sequence, first_query] = S::place(cache, batch);
        // The tile of a matrix at a place of the walk.
        let at = |j| [sequence, kv_head, blocks.block(j)];
        let first = k_pipe.loads(
            blocks.all(),
            #[inline(always)]
            |s, j| copy(k.get().paged(pages, at(j), keys.count as u32), k_s[0].at(s)),
        );
        let second = if CHUNKS > 1
            && let Some(pipe) = &mut second
        {
            let loads = pipe.loads(
                blocks.all(),
                #[inline(always)]
                |s, j| {
                    let tile = k.get().paged(pages, at(j), keys.count as u32);
                    copy(tile.of_columns(1), k_s[1].at(s))
                },
            );
            Some(loads)
        } else {
            None
        };
        let mut ks = KeyLoads::<_, _, _, _, _, CHUNKS> { first, second };
        let place = |r| {
            let row = rows.row(kv_head, m * BM as u32 + r);
            row.map(|(query, head)| [sequence, head, first_query + query, 0])
        };
        let from = |r, column| place(r).map(|[batch, head, query, _]| [batch, head, query, column]);
        // Before V, at the start: behind a whole ring's loads Q would come late.
        let arriving = q_s.fetch(q.get().gather(place));
        let second_arriving = second_q_s.as_mut().map(|q_s| q_s.fetch(q.get().gather(|r| from(r, D as u32))));
        if core::mem::take(&mut at_start) {
            v_pipe.follow();
        }
        let mut vs = v_pipe.loads(
            blocks.all(),
            #[inline(always)]
            |s, j| {
                let tile = v.get().paged(pages, at(j), keys.count as u32);
                copy(tile.of_columns(columns), v_s.at(s))
            },
        );
        if !cta.computes() {
            continue;
        }
        arriving.wait();
        if let Some(arriving) = second_arriving {
            arriving.wait();
        }
        let q = |c| if c == 0 { q_s.full() } else { second_q_s.as_ref().map_or(q_s.full(), Scratch::full) };
        let codes = cache.get().cache().codes.codes();
        let [k_scale, v_scale] = cache.get().cache().scales::<T, C>(kv_head);
        let sloped = F::CHANGES && terms.get().sloped();
        let [cap, scale] = match (cap != 0.0, sloped) {
            (true, _) => [cap * k_scale, scale],
            (false, false) => [cap, scale * k_scale],
            (false, true) => [cap, scale],
        };
        let mut softmax = OnlineSoftmax::<BM, BN, Y>::new(scale);
        let mut acc = Fragment::<f32, BM, DV, Y>::zero();
        let query = |r| rows.query(m * BM as u32 + r);
        let head = |r| rows.row(kv_head, m * BM as u32 + r).map(|(_, head)| head);
        let mut slopes = Rows::<f32, BM, BN, Y>::splat(0.0);
        if sloped {
            slopes = Rows::indexed(|r| head(r).map_or(0.0, |head| terms.get().slope(batch, head)));
        }
        // The block's P, and V after it, with what came before weighted anew.
        let mut weigh = identity(
            #[inline(always)]
            |s: Fragment<f32, BM, BN, Y>, acc: Fragment<f32, BM, DV, Y>, j: u32| {
                // A bias is of the scores themselves.
                let s = if sloped && cap == 0.0 { s.map(|s| k_scale * s) } else { s };
                let own = || keys.own_of_rows(j, query);
                let s = score::changed::<F, BM, BN, Y>(s, cap, terms, &slopes, own);
                let s = if blocks.is_whole(j) { s } else { keys.mask_rows(s, j, query) };
                let max = softmax.maximum(&s);
                let (p, rescale) = softmax.exponentials(s, max);
                (p.cast::<T>(), acc.zip_rows(&rescale.along(), |x, by| x * by))
            },
        );
        if !blocks.none() {
            let (s, k) = ks.scores(q, &k_s, (&mut k_room, codes), || ());
            let mut s = s.wait();
            ks.release(k);
            for j in blocks.all().start..blocks.last() {
                let block = blocks.block(j);
                if S::SELECTED {
                    // Keys may end in any block of a list.
                    vs.clear_next_from(&v_s, keys.inside::<BN>(block));
                }
                let (next, k) = ks.scores(q, &k_s, (&mut k_room, codes), || ());
                let next = next.commit();
                let (p, weighted) = weigh(s, acc, block);
                let v = vs.acquire();
                let values = C::operand(&mut v_room, v_s.at(v.full()), codes);
                let weighted = gemm(Y::default(), p, values, weighted);
                let (scores, weighted) = next.behind(weighted, || ());
                ks.release(k);
                (s, acc) = (scores, weighted.wait());
                vs.release(v);
            }
            let block = blocks.block(blocks.last());
            let (p, weighted) = weigh(s, acc, block);
            let v = vs.acquire();
            vs.clear_from(&v, &v_s, keys.inside::<BN>(block));
            let values = C::operand(&mut v_room, v_s.at(v.full()), codes);
            acc = gemm(Y::default(), p, values, weighted).wait();
            vs.release(v);
        }
        // A sink joins one part of the row's.
        let mut sinks = Rows::splat(f32::NEG_INFINITY);
        if split == 0 && terms.get().sinks != 0 {
            sinks = Rows::indexed(|r| head(r).map_or(f32::NEG_INFINITY, |head| terms.get().sink(head)));
        }
        let (inverse, log2) = softmax.finish_with(&sinks);
        let acc = acc.zip_rows(&inverse.map(|by| by * v_scale).along(), |x, by| x * by);
        let column = columns * DV as u32;
        if rows.splits() == 1 {
            copy(acc.cast::<T>(), o.get().scatter(|r| from(r, column)));
            if columns == 0 {
                copy(log2.map(|log2| log2 * LN_2), lse.get().scatter(place));
            }
        } else {
            let row = |r| place(r).map(|[_, head, query, _]| rows.result(batch, head, query - first_query));
            let part = parts.get().part(split * parts.get().step, row);
            copy(acc, part.from_column(column));
            if columns == 0 {
                copy(log2, part);
            }
        }
    }
}
