//! The gradients of attention.

mod bias;
mod divided;
mod list;
mod products;
mod ranges;
mod rounding;
mod side;
mod sinks;
mod stats;
mod turns;
mod wanted;
mod wide;

pub use bias::{BiasGradientArgs, bias_gradient};
pub use divided::{Parts, SumPartsArgs, sum_parts};
pub use list::{
    BIAS, BiasKernel, GRADIENT, GradientKernel, ROUNDING, RoundingKernel, SINKS, STATS, SUMMING, SinksKernel,
    StatsKernel, SummingKernel,
};
pub use products::{AddedProducts, Products, adds_to_capped, caps};
pub use ranges::{ALIGNED, Range, Ranges};
pub use rounding::{RoundSumsArgs, round_sums};
pub use sinks::{SinkGradientArgs, sink_gradient};
pub use stats::{LINE, QueryStatsArgs, query_stats};
pub use turns::{Place, Places, Turns};
pub use wanted::{All, Keys, KeysAndValues, Queries, Values, Wanted};
pub use wide::{AttentionGradientWideArgs, WideProducts, attention_gradient_wide};

use tilewright_device::arch::special::{block_x, block_y, block_z};
use tilewright_device::arch::warp::uniform;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Accumulates, Cta, Element, Fragment, FragmentLayout, Fresh, Gemm, Global, GlobalMut, HandsOut, InPlace,
    Pending, RowMajor, Shared, Src, Swizzle, copy, gemm,
};

use side::{Side, Weights, begin, sums_of};
use stats::{Stat, Stats, StatsTile};

use crate::bias::with_bias;
use crate::terms::HeadTerms;

/// What scores are made of, and gradients by them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Q Kᵀ times it is what tanh is taken of; 0 where scores are not capped.
    pub cap: f32,
    /// Scores times it are those of the softmax, to base 2.
    pub log2: f32,
    /// By which gradients of Q and K are multiplied.
    pub factor: f32,
}

impl tilewright_device::abi::PassedAsIs for Scales {}

/// In which order CTAs take the tiles of heads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeadOrder {
    /// Heads that are taken together: of each its tile with the most blocks, then of each the next one.
    pub together: u32,
    /// Tiles of a head.
    pub tiles: u32,
}

impl tilewright_device::abi::PassedAsIs for HeadOrder {}

impl HeadOrder {
    /// The tile, head and, with its part, sequence of this CTA's place in the grid. Under a causal mask the first keys meet the most queries, and the last queries the most keys.
    #[inline(always)]
    fn place(&self, of_keys: bool) -> Place {
        // Not 0, which needs no panic's call.
        let together = self.together.max(1);
        let (step, head) = (block_x() / together, block_x() % together);
        let tile = if of_keys { step } else { self.tiles - 1 - step };
        Place([tile, block_y() * together + head, block_z()])
    }
}

impl Scales {
    /// The least `log2` for whose inverse, times a log-sum-exp, f32 has room.
    const LEAST: f32 = 1.0 / (1u64 << 63) as f32;

    /// Times their query's log-sum-exp it is what the sums of scores begin with; 0 where they begin with zeros, since they are capped or the scale is too small.
    #[inline(always)]
    pub(crate) fn first(&self) -> f32 {
        if self.cap == 0.0 && self.log2 >= Self::LEAST { -1.0 / self.log2 } else { 0.0 }
    }
}

/// The gradients of O = softmax(scale score(Q Kᵀ) + mask) V by tiles of keys or of queries (Dao et al. 2022, algorithm 4; Dao 2023; Shah et al. 2024).
///
/// With P = exp(scores - their log-sum-exp), dP = dO Vᵀ and dS = P ∘ (dP - dO · O) ∘ the score's slope:
///
/// - dV = Pᵀ dO and dK = factor dSᵀ Q, of a tile of `BM` keys that walks over blocks of `BN` queries, those of all heads that share it,
/// - dQ = factor dS K, of a tile of queries that walks over keys; or by the tiles of keys, each adding its part in `sums`, in f32.
///
/// Scores have slopes and biases added by `terms` and `bias`, \[batch, heads, queries, keys\] for tiles of queries and \[batch, heads, keys, queries\] for
/// those of keys, where `W` does not add dQ up: registers of that have no room for it. [`adds_to_capped`](fn@adds_to_capped) says whether capped ones have.
/// [`caps`](fn@caps) says whether it takes such at all. `turns` puts what is added to dQ in an order, or does not.
///
/// `W` says which of them. Scores of keys are computed transposed, Sᵀ = K Qᵀ: then each product's result is the left operand of the next one where it lies
/// in registers. Q, dQ \[batch, heads, queries, D\], K and dK \[batch, KV heads, keys, D\], V, dV, dO likewise; `stats` and `sums` as
/// [`query_stats`](fn@query_stats) leaves them. `by_scores` is dK or dQ. Columns that are not there are zeros. A CTA computes `R` columns: CTA (head of those that go together and, slower, tile; KV heads or heads in the groups of `order`;
/// sequence and, faster, part of the columns). Where `W` adds dQ up, CTAs are as many as the device holds, and take tile after tile from a queue.
#[kernel(program = P)]
pub fn attention_gradient<
    P: HandsOut,
    Y,
    T: Element,
    W,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const R: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    q: InPlace<Global<T, 4>>,
    k: InPlace<Global<T, 4>>,
    v: InPlace<Global<T, 4>>,
    d_o: InPlace<Global<T, 4>>,
    stats: InPlace<Global<f32, 4, RowMajor, 8>>,
    sums: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    by_scores: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    by_values: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    ranges: InPlace<Ranges>,
    scales: Scales,
    terms: InPlace<HeadTerms>,
    bias: InPlace<Global<T, 4, RowMajor, 0>>,
    order: HeadOrder,
    turns: InPlace<Turns>,
    parts: InPlace<Parts>,
) where
    Y: Products<T, BM, BN, D, R>,
    W: Wanted<T, BM, BN, D>,
{
    const {
        assert!(W::ADDS || !Weights::<T, BM, BN, Y>::MANY, "sums begin with what is added to scores");
        assert!(!W::ADDS || STAGES.is_multiple_of(2), "every other step has an odd stage");
    };
    let scales = if caps::<W, Y, T, BM, BN, D>() { scales } else { Scales { cap: 0.0, ..scales } };
    let (once, stages) = (cta.stages::<1>(), cta.stages::<STAGES>());
    // Of scores' columns and of values': K and V of a tile of keys, Q and dO of one of queries; then the other way around.
    let own_s = once.alloc::<Shared<T, BM, D, _, _>>(&mut cta);
    let own_vs = once.alloc::<Shared<T, BM, D, _, _>>(&mut cta);
    let other_s = stages.alloc::<Shared<T, BN, D, _, _>>(&mut cta);
    let other_vs = stages.alloc::<Shared<T, BN, D, _, _>>(&mut cta);
    let own_stats = once.alloc_if::<StatsTile>(!W::OF_KEYS, &mut cta);
    let other_stats = stages.alloc_if::<StatsTile>(W::OF_KEYS, &mut cta);
    let (mut room, slots) = (W::room(&mut cta), cta.tile_slots_if(W::ADDS));
    let (mut once_pipe, mut pipe) = (cta.pipeline(once), cta.pipeline(stages));
    let turns = || if W::ADDS { turns.get() } else { Turns::NONE };
    let mut tiles = W::tiles(slots, turns(), order);
    let mut next = tiles.next();
    while let Some(Place(place)) = next {
        let [tile, own_head, z] = place.map(uniform);
        let (z, part) = (z / (D / R) as u32, z % (D / R) as u32);
        // Computed anew wherever it is needed: in no register over the loop.
        let (of, side) = (|| ranges.get().sequence(z), || ranges.get().side::<BM>(W::OF_KEYS, z, tile));
        if side().own_inside == 0 {
            next = tiles.next();
            continue;
        }
        // A part of a head where walks are divided.
        let of_head = || if W::ADDS { parts.get().of(own_head) } else { [own_head, 0] };
        let walk = || {
            let (shared_by, in_turn) = (ranges.get().shared_by, turns().ordered != 0);
            let ([head, part], count) = (of_head(), if W::ADDS { parts.get().count } else { 1 });
            side().walk::<BM, BN>(tile, head, shared_by, in_turn, [part, count])
        };
        let mut base = once_pipe.loads(0..1, |s, _| {
            let ([own, own_v], of) = (if W::OF_KEYS { [k, v] } else { [q, d_o] }, of());
            let (place, first) = ([of.matrix, of_head()[0], tile, 0], side().own_first);
            copy(own.get().tile(place).of_rows(first, u32::MAX), own_s.at(s));
            copy(own_v.get().tile(place).of_rows(first, u32::MAX), own_vs.at(s));
            if !W::OF_KEYS {
                let line = of.first_line + tile * BM as u32 / LINE;
                copy(stats.get().tile([of.matrix, own_head, 0, 0]).of_rows(line, u32::MAX), own_stats.at(s));
            }
        });
        let (mut ahead, loaded, first) = (walk(), of(), side().other_first);
        let mut loads = pipe.loads(
            0..ahead.left,
            #[inline(always)]
            |s, _| {
                let [other, other_v] = if W::OF_KEYS { [q, d_o] } else { [k, v] };
                let place = [loaded.matrix, ahead.head, ahead.j, 0];
                copy(other.get().tile(place).of_rows(first, u32::MAX), other_s.at(s));
                copy(other_v.get().tile(place).of_rows(first, u32::MAX), other_vs.at(s));
                if W::OF_KEYS {
                    let (place, line) =
                        ([place[0], place[1], 0, 0], loaded.first_line + ahead.j * BN as u32 / LINE);
                    copy(stats.get().tile(place).of_rows(line, u32::MAX), other_stats.at(s));
                }
                ahead.advance();
            },
        );
        if !cta.computes() {
            let mut walk = walk();
            W::add(&mut room, &cta, walk.left, || {
                let (of, head, j) = (of(), walk.head, walk.j);
                walk.advance();
                let turns = turns();
                // Of the tiles that meet a block none is left out, from the first one on.
                let turn = if turns.ordered != 0 {
                    let number = tile - side().first_to_meet::<BM, BN>(j);
                    Some(turns.turn::<BN>(&of, head, j, number))
                } else {
                    None
                };
                (sums_of::<BN>(&sums.get(), &of, head, j), turn)
            });
            next = tiles.next();
            continue;
        }
        let mut walk = walk();
        let own = base.acquire();
        // Of the next sequence: what is not a number there would not be 0 times 0.
        base.clear_from(&own, &own_s, side().own_inside);
        base.clear_from(&own, &own_vs, side().own_inside);
        let mut scores = Fragment::<f32, BM, R, Y>::zero();
        let mut values = Fragment::<f32, BM, R, Y>::zero();
        let adds = !W::ADDS && scales.cap == 0.0 && (terms.get().sloped() || bias.get().rows() > 0);
        while walk.left > 0 {
            let turn = loads.acquire();
            let (masked, j) = (walk.masked(), walk.j);
            if masked {
                let inside = side().other_rows - j * BN as u32;
                loads.clear_from(&turn, &other_s, inside);
                loads.clear_from(&turn, &other_vs, inside);
            }
            let (once, full) = (own.full(), turn.full());
            let stats = || Stats::of(if W::OF_KEYS { other_stats.at(full) } else { own_stats.at(once) });
            let mask = |s| if masked { side().mask(s, tile, j) } else { s };
            let head = if W::OF_KEYS { walk.head } else { own_head };
            let added = |s| terms_added(s, (ranges, terms, bias), &side(), [z, head, tile, j]);
            let logs = || stats().values::<T, W, BM, BN, D, Y>(Stat::LogSum);
            let means = || stats().values::<T, W, BM, BN, D, Y>(Stat::Mean);
            let s = begin::<T, BM, BN, Y>(logs, scales.first(), adds, added);
            let d_p = if W::SCORES { begin::<T, BM, BN, Y>(means, -1.0, false, |d_p| d_p) } else { None };
            let added = if adds_to_capped::<W, Y, T, BM, BN, D, R>() { Some(added) } else { None };
            let s = product(own_s.at(once), other_s.at(full), s).commit();
            if !W::SCORES {
                let s = s.wait();
                let weights = Weights::<T, BM, BN, Y>::of(s, logs, scales, added, mask);
                let of_values = other_vs.at(full).part::<R>(part).aligned();
                values = gemm(Y::default(), weights.p, of_values, values).wait();
            } else {
                let d_p = product(own_vs.at(once), other_vs.at(full), d_p);
                let (s, d_p) = s.behind(d_p, || ());
                let weights = Weights::<T, BM, BN, Y>::of(s, logs, scales, added, mask);
                let gradient = |d_s: Fragment<T, BM, BN, Y>| {
                    gemm(Y::default(), d_s.operand(), other_s.at(full).part::<R>(part).aligned(), scores)
                };
                if W::VALUES {
                    let of_values = other_vs.at(full).part::<R>(part).aligned();
                    let weighted = gemm(Y::default(), weights.p, of_values, values);
                    let (d_p, weighted) = d_p.behind(weighted, || ());
                    let d_s = weights.slopes(d_p, means);
                    let then = || gradient(d_s);
                    (values, scores) = W::follow::<P, _, _, _>(
                        &mut room,
                        full.is_odd(),
                        d_s,
                        own_s.at(once),
                        weighted,
                        then,
                    );
                } else {
                    let d_s = weights.slopes(d_p.wait(), means);
                    scores = gradient(d_s).wait();
                }
            }
            if W::ADDS {
                // All threads have met behind their last read.
                loads.release(turn);
            } else {
                loads.release_read(turn);
            }
            walk.advance();
        }
        if W::ADDS {
            // The next tile's rows come while this one's gradients are stored.
            base.release(own);
        }
        let to = |gradients: InPlace<GlobalMut<T, 4, RowMajor, 0>>| {
            let side = side();
            let tile = gradients.get().tile([of().matrix, own_head, tile, part]);
            tile.of_rows(side.own_first, side.own_rows)
        };
        let place = [tile, own_head, z];
        if W::SCORES {
            W::store(parts, place, false, scores.map(|x| x * scales.factor), || to(by_scores));
        }
        if W::VALUES {
            W::store(parts, place, true, values, || to(by_values));
        }
        next = tiles.next();
    }
}

/// Scores less the distances of their head's slope, and with their bias, in the order of a side's rows and columns.
#[inline(always)]
fn terms_added<T: Element, const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
    s: Fragment<f32, BM, BN, L>,
    (ranges, terms, bias): (InPlace<Ranges>, InPlace<HeadTerms>, InPlace<Global<T, 4, RowMajor, 0>>),
    side: &Side,
    [z, head, tile, j]: [u32; 4],
) -> Fragment<f32, BM, BN, L> {
    let s = if terms.get().sloped() {
        side.sloped(s, terms.get().slope(z, head), ranges.get().own_key(z), [tile, j])
    } else {
        s
    };
    with_bias(s, bias, terms, [z, head, tile, j])
}

/// S or dP of a step, A Bᵀ, whose sums begin with `first`.
#[inline(always)]
fn product<T: Element, Y, const BM: usize, const BN: usize, const D: usize>(
    a: Src<'_, Shared<T, BM, D, Swizzle<128>>>,
    b: Src<'_, Shared<T, BN, D, Swizzle<128>>>,
    first: Option<Fragment<f32, BM, BN, Y>>,
) -> impl Pending<Done = Fragment<f32, BM, BN, Y>>
where
    Y: Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Y> + Accumulates<BM, BN>,
{
    match first {
        Some(first) => gemm(Y::default(), a.aligned(), b.aligned().t(), first),
        None => gemm(Y::default(), a.aligned(), b.aligned().t(), Fresh::new()),
    }
}
