//! O = softmax(scale Q Kᵀ + mask) V, one source for every architecture.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod bias;
mod cache;
mod chunks;
mod decode_list;
mod flash_decoding;
pub mod gradient;
mod kept;
mod keys;
mod list;
mod listed;
mod order;
mod part_keys;
mod parts;
mod prepare;
mod queue;
pub mod scaled;
mod score;
mod selected;
mod sequences;
mod states;
mod terms;
mod walk;

pub use cache::{Cache, KeyPart, KeyParts, SplitOrder};
pub use decode_list::{DECODE, DecodeKernel, MERGE, MergeKernel};
pub use flash_decoding::{DecodeArgs, decode};
pub use kept::{CodesOf, Kept};
pub use keys::{Blocks, Keys};
pub use list::{ATTENTION, AttentionKernel, LISTS, ListKernel, STATES, StatesKernel};
pub use listed::{Listed, ListedBlocks};
pub use order::{OrderedTiles, QueryTile, QueryTiles, TileOrder};
pub use part_keys::{PartBlocks, PartKeys};
pub use parts::{MergeArgs, merge};
pub use prepare::{ListOrder, ListSequencesArgs, list_sequences};
pub use queue::{PackedTiles, SequenceList};
pub use score::{Capped, Plain, Score};
pub use selected::{Selected, SelectedBlocks};
pub use sequences::{AnySequences, CachedKeys, Equal, InCache, Packed, Sequence, Sequences};
pub use states::{MergeStatesArgs, merge_states};
pub use terms::HeadTerms;
pub use walk::Walk;

use core::convert::identity;
use core::f32::consts::LN_2;

use tilewright_device::kernel;
use tilewright_device::tile::{
    ChainedGemm, Codes, Cta, Fill, Fragment, Gemm, Global, GlobalMut, HandsOut, InPlace, OnlineSoftmax,
    Pending, RowMajor, Rows, Shared, copy, gemm,
};

use crate::bias::added;
use crate::chunks::KeyLoads;

/// O = softmax(scale score(Q Kᵀ) + mask) V (Milakov & Gimelshein 2018; Dao 2023; Shah et al. 2024).
///
/// Q \[batch, heads, queries, D\], K \[batch, KV heads, keys, D\], V \[batch, KV heads, keys, DV\], O as Q with DV columns; the
/// log-sum-exp of each row, \[batch, heads, queries, 1\] in natural logarithms, unless `lse` has no rows. `F` is what is done to
/// each score before the softmax, with `cap`; `scale` is that of its result times log2(e); `terms` has the heads' sinks, which join the sum of a
/// row's exponentials, and slopes; `bias`, if it has any
/// rows, is \[batch, heads, queries, keys\] and added to scaled ones. Columns of Q, K and V that are
/// not there are zeros; those of Q and K lie in `CHUNKS` chunks of `D`, one or two. A CTA takes tiles of `BM` queries in the order of
/// `order`, packed ones from a queue in that of `list` if there is one, and walks over their keys in blocks of `BN`, last to first, or over those that lists name ([`Listed`]); packed queries may have keys in the
/// pages of a cache, \[pages, KV heads, rows, columns\]; the softmax of one block runs under the next block's Q Kᵀ and its own P V.
#[kernel(program = P)]
pub fn attention<
    P: HandsOut,
    Y,
    T: Kept<T>,
    F: Score,
    S: Sequences,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const CHUNKS: usize,
    const DV: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    q: InPlace<Global<T, 4>>,
    k: InPlace<Global<T, 4, RowMajor, BN>>,
    v: InPlace<Global<T, 4, RowMajor, BN>>,
    o: InPlace<GlobalMut<T, 4>>,
    lse: InPlace<GlobalMut<f32, 4>>,
    order: InPlace<TileOrder>,
    sequences: S,
    cap: f32,
    scale: f32,
    list: InPlace<SequenceList>,
    terms: InPlace<HeadTerms>,
    cache: InPlace<CachedKeys>,
    bias: InPlace<Global<T, 4, RowMajor, 0>>,
) where
    Y: ChainedGemm<T, BM, BN, D, DV>,
{
    let (k_stages, v_stages) = (cta.stages::<STAGES>(), cta.stages::<STAGES>());
    let q_stage = cta.stages::<1>();
    let second = if CHUNKS > 1 { Some(cta.stages::<STAGES>()) } else { None };
    let q_s = [0, 1].map(
        #[inline(always)]
        |c| q_stage.alloc_if::<Shared<T, BM, D, _, _>>(c < CHUNKS, &mut cta),
    );
    let k_s = chunks::tiles((&k_stages, second.as_ref()), &mut cta);
    let v_s = v_stages.alloc::<Shared<T, BN, DV, _, _>>(&mut cta);
    // No memory, for keys of `T`: where codes would be widened.
    let mut k_room = T::room::<P, BN, D, <Y as Gemm<T, BM, BN, D>>::B>(&mut cta);
    // Two chunks of queries leave no memory to store through.
    let mut out =
        if CHUNKS == 1 && !(BN == 80 && DV == 256) { Some(cta.output::<T, BM, DV, Y>()) } else { None };
    let (mut k_pipe, mut v_pipe) = (cta.pipeline(k_stages), cta.pipeline(v_stages));
    let mut q_pipe = cta.pipeline_by_warpgroup(q_stage);
    let mut second = second.map(
        #[inline(always)]
        |stages| cta.pipeline(stages),
    );
    let turns = cta.turns();
    let slots = cta.tile_slots_if(S::QUEUED);
    let mut queue = S::queue(slots, order, list);
    for own in QueryTiles::of::<S>(order) {
        let tile = if S::QUEUED { queue.next() } else { Some(own) };
        let Some(tile) = tile else { break };
        let QueryTile { batch, head, kv_head, m } = tile;
        let Sequence { batch: matrix, first_query, queries, first_key, keys } = sequences.get(batch);
        if S::PACKED && m * BM as u32 >= queries {
            continue;
        }
        let (blocks, place, of_keys) = (
            sequences.walk::<BM, BN>(tile, keys.blocks::<BM, BN>(m)),
            [matrix, head, m, 0],
            [first_key, keys.count as u32],
        );
        let (none, keys) = (blocks.none(), || sequences.get(batch).keys);
        let once = 0..!none as u32;
        let mut qs = q_pipe.loads(
            once,
            #[inline(always)]
            |s, _| {
                copy(q.get().tile(place).of_rows(first_query, queries), q_s[0].at(s));
                if CHUNKS > 1 {
                    copy(q.get().tile([matrix, head, m, 1]).of_rows(first_query, queries), q_s[1].at(s));
                }
            },
        );
        let load = identity(
            #[inline(always)]
            |s: Fill<'_, P, STAGES>, j, c: u32| match S::CACHED {
                false => copy(
                    k.get().tile([matrix, kv_head, j, c]).of_rows(first_key, u32::MAX),
                    k_s[c as usize].at(s),
                ),
                true => {
                    copy(cache.get().tile(k.get(), [batch, kv_head, j, c], of_keys), k_s[c as usize].at(s))
                }
            },
        );
        let first = k_pipe.loads(
            blocks.steps(),
            #[inline(always)]
            |s, j| load(s, j, 0),
        );
        let second = if CHUNKS > 1
            && let Some(pipe) = &mut second
        {
            let loads = pipe.loads(
                blocks.steps(),
                #[inline(always)]
                |s, j| load(s, j, 1),
            );
            Some(loads)
        } else {
            None
        };
        let mut ks = KeyLoads::<_, _, _, _, _, CHUNKS> { first, second };
        let mut vs = v_pipe.loads(
            blocks.steps(),
            #[inline(always)]
            |s, j| match S::CACHED {
                false => copy(v.get().tile([matrix, kv_head, j, 0]).of_rows(first_key, u32::MAX), v_s.at(s)),
                true => copy(cache.get().tile(v.get(), [batch, kv_head, j, 0], of_keys), v_s.at(s)),
            },
        );
        if !cta.computes() {
            continue;
        }
        let mut acc = Fragment::<f32, BM, DV, Y>::zero();
        let (mut inverse, mut log2) = (Rows::<f32, BM, BN, Y>::splat(0.0), Rows::splat(f32::NEG_INFINITY));
        let slopes = Rows::splat(if F::CHANGES { terms.get().slope(batch, head) } else { 0.0 });
        let changed = identity(
            #[inline(always)]
            |s, j| {
                let own = || keys().own_of_rows(j, |r| (m * BM as u32 + r) as i32);
                let s = score::changed::<F, BM, BN, Y>(s, cap, terms, &slopes, own);
                added::<F, S, T, BM, BN, Y>(s, bias, terms, [batch, head, m, j])
            },
        );
        if !none {
            let mut softmax = OnlineSoftmax::<BM, BN, Y>::new(scale);
            let q = qs.acquire();
            let (s, k) = ks.scores(|c| q_s[c].at(q.full()), &k_s, (&mut k_room, Codes::E4M3), || ());
            let s = s.wait();
            ks.release(k);
            let first = blocks.first();
            let s = changed(s, first);
            let s = if blocks.is_whole(first) { s } else { keys().mask(s, m, first) };
            let max = softmax.maximum(&s);
            let (p, _) = softmax.exponentials(s, max);
            if S::PACKED {
                vs.clear_next_from(&v_s, keys().inside::<BN>(first));
            }
            let (p, weighted) = blocks.fold(
                (p.cast::<T>().operand(), acc),
                #[inline(always)]
                |(p, acc), j, masked| {
                    let room = (&mut k_room, Codes::E4M3);
                    let (s, k) = ks.scores(|c| q_s[c].at(q.full()), &k_s, room, || turns.take());
                    let s = s.commit();
                    let v = vs.acquire();
                    let acc = gemm(Y::default(), p, v_s.at(v.full()), acc);
                    let (s, acc) = s.behind(acc, || turns.pass());
                    ks.release(k);
                    let s = changed(s, j);
                    let s = if masked { keys().mask(s, m, j) } else { s };
                    let mut max = softmax.maximum(&s);
                    let acc = vs.finish(v, acc, &mut max);
                    let (p, rescale) = softmax.exponentials(s, max);
                    (p.cast::<T>().operand(), acc.zip_rows(&rescale.along(), |x, by| x * by))
                },
            );
            qs.release(q);
            let v = vs.acquire();
            let last = gemm(Y::default(), p, v_s.at(v.full()), weighted).commit();
            (inverse, log2) = softmax.finish_with(&Rows::splat(terms.get().sink(head)));
            acc = last.wait();
            vs.release(v);
        }
        // Read again: in no register over the loop.
        let Sequence { first_query, queries, .. } = sequences.get(batch);
        let result = acc.zip_rows(&inverse.along(), |x, by| x * by).cast::<T>();
        let mut o = o.get();
        let to = o.tile(place).of_rows(first_query, queries);
        match &mut out {
            Some(out) => out.store(result, to),
            None => copy(result, to),
        }
        let mut lse = lse.get();
        if lse.rows() > 0 {
            // Of a tile without keys the sink alone.
            let sink = terms.get().sink(head);
            let log2 = log2.map(|log2| if log2 == f32::NEG_INFINITY { sink } else { log2 });
            copy(log2.map(|log2| log2 * LN_2), lse.tile(place).of_rows(first_query, queries));
        }
    }
}

/// Whether O is stored through shared memory of its own: where Q, of so many rows, and the stages of K and V leave room for it on Hopper.
const fn stages_output([m, n]: [usize; 2], [d, dv]: [usize; 2], stages: usize) -> bool {
    2 * (m * d + stages * n * (d + dv)) <= 192 << 10
}

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
