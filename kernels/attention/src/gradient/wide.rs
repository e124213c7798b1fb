//! The gradients of attention with heads of many columns.

use core::convert::identity;

use tilewright_device::arch::warp::uniform;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Accumulates, BlockSums, Cta, Element, Fragment, Fresh, Gemm, Global, GlobalMut, HandsOut, InPlace,
    Pending, RowMajor, Shared, Swizzle, Turn, copy, gemm,
};

use super::divided::Parts;
use super::ranges::Ranges;
use super::side::{Walk, Weights, begin, sums_of};
use super::stats::{LINE, Stat, Stats, StatsTile, Values};
use super::turns::{Place, Turns};
use super::{HeadOrder, Scales, product};

/// The products of a tile of `BM` keys and a block of `BN` queries of `D` columns, divided among warpgroups by columns: Sᵀ and dPᵀ, what they
/// add to dV and dK, and `H` columns of dQ.
pub trait WideProducts<T: Element, const BM: usize, const BN: usize, const D: usize, const H: usize>:
    Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Self>
    + Gemm<T, BM, D, BN, A = Swizzle<128>, B = Swizzle<128>, D = Self>
    + Gemm<T, BN, H, BM, A = Swizzle<128>, B = Swizzle<128>, D = Self>
    + Accumulates<BM, BN>
    + Accumulates<BM, D>
    + Accumulates<BN, H>
{
}

impl<Y, T: Element, const BM: usize, const BN: usize, const D: usize, const H: usize>
    WideProducts<T, BM, BN, D, H> for Y
where
    Y: Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Self>
        + Gemm<T, BM, D, BN, A = Swizzle<128>, B = Swizzle<128>, D = Self>
        + Gemm<T, BN, H, BM, A = Swizzle<128>, B = Swizzle<128>, D = Self>
        + Accumulates<BM, BN>
        + Accumulates<BM, D>
        + Accumulates<BN, H>,
{
}

/// As [`attention_gradient`](fn@super::attention_gradient) of [`All`](super::All), for heads whose dK and dV are more than a warpgroup can hold of keys of its own.
///
/// Warpgroups share a tile's keys and divide the columns: of Sᵀ and dPᵀ those of queries, of dK, dV and dQ those of the heads. P and dS go to all of them
/// through shared memory. dQ is computed and added up by `H` of its columns at a time, of a block of queries \[`BN`, `H`\] behind \[`BN`, `H`\]. Q has
/// `STAGES` stages and dO one: the products that read dO are the first of a step.
///
/// A step's S is computed behind the last product of the step before, so that P is computed under dP.
#[kernel(program = P)]
pub fn attention_gradient_wide<
    P: HandsOut,
    Y,
    T: Element,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const H: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    q: InPlace<Global<T, 4>>,
    k: InPlace<Global<T, 4>>,
    v: InPlace<Global<T, 4>>,
    d_o: InPlace<Global<T, 4>>,
    stats: InPlace<Global<f32, 4, RowMajor, 8>>,
    sums: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    d_k: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    d_v: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    ranges: InPlace<Ranges>,
    scales: Scales,
    order: HeadOrder,
    turns: InPlace<Turns>,
    parts: InPlace<Parts>,
) where
    Y: WideProducts<T, BM, BN, D, H>,
{
    const {
        assert!(D == 2 * H, "dQ is added up by halves");
        assert!(!Weights::<T, BM, BN, Y>::MANY, "sums begin with what is taken off them");
    }
    let (once, values, stages) = (cta.stages::<1>(), cta.stages::<1>(), cta.stages::<STAGES>());
    let k_s = once.alloc::<Shared<T, BM, D, _, _>>(&mut cta);
    let v_s = once.alloc::<Shared<T, BM, D, _, _>>(&mut cta);
    let d_o_s = values.alloc::<Shared<T, BN, D, _, _>>(&mut cta);
    let q_s = stages.alloc::<Shared<T, BN, D, _, _>>(&mut cta);
    let stats_s = stages.alloc::<StatsTile>(&mut cta);
    let mut weights_s = cta.scratch_pair::<Shared<T, BM, BN, Swizzle<128>>>();
    let mut slopes_s = cta.scratch_pair::<Shared<T, BM, BN, Swizzle<128>>>();
    let (mut room, slots) = (cta.block_sums::<BN, H, Y>(), cta.tile_slots());
    let (mut once_pipe, mut values_pipe, mut pipe) =
        (cta.pipeline(once), cta.pipeline(values), cta.pipeline(stages));
    let mut tiles = turns.get().tiles(slots, order);
    let mut next = tiles.next();
    while let Some(Place(place)) = next {
        let [tile, head, z] = place.map(uniform);
        // Computed anew wherever it is needed: in no register over the loop.
        let (of, side) = (|| ranges.get().sequence(z), || ranges.get().side::<BM>(true, z, tile));
        if side().own_inside == 0 {
            next = tiles.next();
            continue;
        }
        // A part of a head where walks are divided.
        let [whole_head, of_walk] = parts.get().of(head);
        let walk = || {
            let (shared_by, in_turn) = (ranges.get().shared_by, turns.get().ordered != 0);
            side().walk::<BM, BN>(tile, whole_head, shared_by, in_turn, [of_walk, parts.get().count])
        };
        let mut base = once_pipe.loads(0..1, |s, _| {
            let (place, first) = ([of().matrix, whole_head, tile, 0], side().own_first);
            copy(k.get().tile(place).of_rows(first, u32::MAX), k_s.at(s));
            copy(v.get().tile(place).of_rows(first, u32::MAX), v_s.at(s));
        });
        let (mut ahead, loaded, first) = (walk(), of(), side().other_first);
        let mut values_loads = values_pipe.loads(
            0..ahead.left,
            #[inline(always)]
            |s, _| {
                let place = [loaded.matrix, ahead.head, ahead.j, 0];
                copy(d_o.get().tile(place).of_rows(first, u32::MAX), d_o_s.at(s));
                ahead.advance();
            },
        );
        let mut ahead = walk();
        let mut loads = pipe.loads(
            0..ahead.left,
            #[inline(always)]
            |s, _| {
                let place = [loaded.matrix, ahead.head, ahead.j, 0];
                copy(q.get().tile(place).of_rows(first, u32::MAX), q_s.at(s));
                let (place, line) =
                    ([place[0], place[1], 0, 0], loaded.first_line + ahead.j * BN as u32 / LINE);
                copy(stats.get().tile(place).of_rows(line, u32::MAX), stats_s.at(s));
                ahead.advance();
            },
        );
        if !cta.computes() {
            let (mut walk, mut half) = (walk(), 0);
            let count = 2 * walk.left;
            let to = || {
                let (of, head, j) = (of(), walk.head, walk.j);
                let at = sums_of::<BN>(&sums.get(), &of, head, j).wrapping_add(half as usize * BN * H);
                // Of the tiles that meet a block none is left out, from the first one on.
                let turn = if turns.get().ordered != 0 {
                    let number = tile - side().first_to_meet::<BM, BN>(j);
                    Some(turns.get().turn::<BN>(&of, head, j, number))
                } else {
                    None
                };
                if half == 1 {
                    walk.advance();
                }
                half = 1 - half;
                (at, turn)
            };
            // SAFETY: the host gives as much memory as all blocks of queries take, where they are only added to, in all tiles of a call with turns or in none.
            unsafe { room.add::<2>(&cta, count, to) };
            next = tiles.next();
            continue;
        }
        let mut walk = walk();
        let own = base.acquire();
        // Of the next sequence: what is not a number there would not be 0 times 0.
        base.clear_from(&own, &k_s, side().own_inside);
        base.clear_from(&own, &v_s, side().own_inside);
        let once = own.full();
        let mut by_scores = Fragment::<f32, BM, D, Y>::zero();
        let mut by_values = Fragment::<f32, BM, D, Y>::zero();
        let values = |turn: &Turn<STAGES>, stat| Values::Cols(Stats::of(stats_s.at(turn.full())).cols(stat));
        let first_s = |turn: &Turn<STAGES>| {
            begin::<T, BM, BN, Y>(|| values(turn, Stat::LogSum), scales.first(), false, |s| s)
        };
        let first_d_p =
            |turn: &Turn<STAGES>| begin::<T, BM, BN, Y>(|| values(turn, Stat::Mean), -1.0, false, |d_p| d_p);
        let inside =
            |walk: &Walk| if walk.masked() { side().other_rows - walk.j * BN as u32 } else { BN as u32 };
        // A step whose S is there, and what dP begins with. The second half of what it adds to dQ stays in flight.
        let mut step = identity(
            #[inline(always)]
            |room: &mut BlockSums<P, BN, H, Y>,
             turn: &Turn<STAGES>,
             walk: &Walk,
             (s, d_p),
             by_scores,
             by_values| {
                let (masked, j) = (walk.masked(), walk.j);
                let value = values_loads.acquire();
                values_loads.clear_from(&value, &d_o_s, inside(walk));
                let (q, d_o) = (q_s.at(turn.full()), d_o_s.at(value.full()).anew());
                let means = || values(turn, Stat::Mean);
                let d_p = product(v_s.at(once).anew(), d_o, d_p).commit();
                let mask = |s| if masked { side().mask(s, tile, j) } else { s };
                let logs = || values(turn, Stat::LogSum);
                let weights = Weights::<T, BM, BN, Y>::of(s, logs, scales, None::<fn(_) -> _>, mask);
                // SAFETY: gemms that read the tiles are waited for before the next step's calls.
                let p = unsafe { weights_s.put(weights.p.unpacked()) };
                let weighted = gemm(Y::default(), p.aligned(), d_o.aligned(), by_values);
                let (d_p, weighted) = d_p.behind(weighted, || ());
                // SAFETY: as above.
                let d_s = unsafe { slopes_s.put(weights.slopes(d_p, means)) };
                let queries = |half| {
                    let keys = k_s.at(once).part::<H>(half).anew().aligned();
                    gemm(Y::default(), d_s.aligned().t(), keys, Fresh::new())
                };
                let (by_values, first) = weighted.behind(queries(0), || ());
                values_loads.release(value);
                let keys = gemm(Y::default(), d_s.aligned(), q.aligned(), by_scores);
                let (first, keys) = first.behind(keys, || ());
                // SAFETY: two a step are put there and added.
                unsafe { room.put(first, 0) };
                let (by_scores, second) = keys.behind(queries(1), || ());
                (by_scores, by_values, second)
            },
        );
        if walk.left > 0 {
            let mut turn = loads.acquire();
            loads.clear_from(&turn, &q_s, inside(&walk));
            let s = product(k_s.at(once).anew(), q_s.at(turn.full()), first_s(&turn)).commit().wait();
            let mut begun = (s, first_d_p(&turn));
            let mut second;
            while walk.left > 1 {
                (by_scores, by_values, second) = step(&mut room, &turn, &walk, begun, by_scores, by_values);
                walk.advance();
                let following = loads.acquire();
                loads.clear_from(&following, &q_s, inside(&walk));
                let scores = product(k_s.at(once).anew(), q_s.at(following.full()), first_s(&following));
                let (last, scores) = second.behind(scores, || ());
                // SAFETY: as above.
                unsafe { room.put(last, 1) };
                loads.release(turn);
                let d_p = first_d_p(&following);
                begun = (scores.wait(), d_p);
                turn = following;
            }
            (by_scores, by_values, second) = step(&mut room, &turn, &walk, begun, by_scores, by_values);
            // SAFETY: as above.
            unsafe { room.put(second.wait(), 1) };
            loads.release(turn);
        }
        // The next tile's rows come while this one's gradients are stored.
        base.release(own);
        let to = |gradients: InPlace<GlobalMut<T, 4, RowMajor, 0>>| {
            let side = side();
            let tile = gradients.get().tile([of().matrix, head, tile, 0]);
            tile.of_rows(side.own_first, side.own_rows)
        };
        let place = [tile, head, z];
        parts.get().store(place, false, by_scores.map(|x| x * scales.factor), || to(d_k));
        parts.get().store(place, true, by_values, || to(d_v));
        next = tiles.next();
    }
}
