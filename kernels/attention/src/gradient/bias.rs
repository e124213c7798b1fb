//! The gradient of what is added to scores.

use tilewright_device::arch::special::{block_x, block_y, block_z};
use tilewright_device::kernel;
use tilewright_device::tile::{
    Accumulates, Cta, Element, Fragment, Gemm, Global, GlobalMut, InPlace, Pending, RowMajor, Schedule,
    Shared, Swizzle, copy,
};

use super::side::{Weights, begin, exponentials};
use super::stats::{Stat, Stats, StatsTile};
use super::wanted::Queries;
use super::{LINE, Ranges, Scales, product, terms_added};
use crate::score::{Capped, Score};
use crate::terms::HeadTerms;

/// The gradient of attention by the bias of its scores: P ∘ (dP - dO · O), as [`attention_gradient`](fn@super::attention_gradient) has them but for the slope of
/// a cap, which comes before the bias. Where sequences or heads share a bias it is the sum of theirs, in f32 and in their order.
///
/// Q, K, V, dO, `stats` and `bias` as there, `bias` \[batch, heads, queries, keys\]; `d_bias` \[batch or 1, heads or 1, queries, keys\]. Sequences are not packed.
/// CTA (a tile of `BM` queries and, faster, `BN` keys; the head and the sequence of `d_bias`).
#[kernel(program = P)]
pub fn bias_gradient<
    P: Schedule,
    Y,
    T: Element,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    q: InPlace<Global<T, 4>>,
    k: InPlace<Global<T, 4>>,
    v: InPlace<Global<T, 4>>,
    d_o: InPlace<Global<T, 4>>,
    stats: InPlace<Global<f32, 4, RowMajor, 8>>,
    bias: InPlace<Global<T, 4, RowMajor, 0>>,
    d_bias: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    ranges: InPlace<Ranges>,
    scales: Scales,
    terms: InPlace<HeadTerms>,
) where
    Y: Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Y> + Accumulates<BM, BN>,
{
    const { assert!(!Weights::<T, BM, BN, Y>::MANY, "sums begin with statistics") };
    let stages = cta.stages::<STAGES>();
    let q_s = stages.alloc::<Shared<T, BM, D, _, _>>(&mut cta);
    let d_o_s = stages.alloc::<Shared<T, BM, D, _, _>>(&mut cta);
    let k_s = stages.alloc::<Shared<T, BN, D, _, _>>(&mut cta);
    let v_s = stages.alloc::<Shared<T, BN, D, _, _>>(&mut cta);
    let stats_s = stages.alloc::<StatsTile>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let across = (ranges.get().keys.count as u32).div_ceil(BN as u32).max(1);
    let (m, j) = (block_x() / across, block_x() % across);
    let (own_head, own_sequence) = (block_y(), block_z());
    let side = || ranges.get().side::<BM>(false, own_sequence, m);
    // Whoever shares this part of the bias, head by head; nobody where no query sees a key.
    let of_all = |own: u32, all: u32| if own == 1 { all } else { 1 };
    let ([sequences, heads, ..], [batch, all_heads, ..]) = (d_bias.get().shape(), q.get().shape());
    let heads = of_all(heads, all_heads);
    let meets = side().meets::<BM, BN>(m, j);
    let count = if meets { of_all(sequences, batch) * heads } else { 0 };
    let who = move |i: u32| (own_sequence + i / heads.max(1), own_head + i % heads.max(1));
    let mut loads = pipe.loads(
        0..count,
        #[inline(always)]
        |s, i| {
            let (sequence, head) = who(i);
            let kv_head = head / ranges.get().shared_by.max(1);
            copy(q.get().tile([sequence, head, m, 0]), q_s.at(s));
            copy(d_o.get().tile([sequence, head, m, 0]), d_o_s.at(s));
            copy(k.get().tile([sequence, kv_head, j, 0]), k_s.at(s));
            copy(v.get().tile([sequence, kv_head, j, 0]), v_s.at(s));
            let line = m * BM as u32 / LINE;
            copy(stats.get().tile([sequence, head, 0, 0]).of_rows(line, u32::MAX), stats_s.at(s));
        },
    );
    if !cta.computes() {
        return;
    }
    let mut sum = Fragment::<f32, BM, BN, Y>::zero();
    let mut i = 0;
    while i < count {
        let turn = loads.acquire();
        let full = turn.full();
        let values = |stat| Stats::of(stats_s.at(full)).values::<T, Queries, BM, BN, D, Y>(stat);
        let logs = || values(Stat::LogSum);
        let s = begin::<T, BM, BN, Y>(logs, scales.first(), false, |s| s);
        let d_p = begin::<T, BM, BN, Y>(|| values(Stat::Mean), -1.0, false, |d_p| d_p);
        let s = product(q_s.at(full), k_s.at(full), s).commit();
        let d_p = product(d_o_s.at(full), v_s.at(full), d_p);
        let (s, d_p) = s.behind(d_p, || ());
        let (sequence, head) = who(i);
        let s = if scales.cap == 0.0 { s } else { s.map(|s| Capped::apply(s, scales.cap)) };
        let s = terms_added(s, (ranges, terms, bias), &side(), [sequence, head, m, j]);
        let p = exponentials::<T, BM, BN, Y>(side().mask(s, m, j), logs, scales);
        let d_p = d_p.wait();
        loads.release_read(turn);
        sum = sum.zip(&p.zip(&d_p, |p, d_p| p * d_p), |sum, d_s| sum + d_s);
        i += 1;
    }
    copy(sum.cast::<T>(), d_bias.get().tile([own_sequence, own_head, m, j]));
}
