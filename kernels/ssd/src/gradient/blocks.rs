//! Gradients within each block, from the state before it or the gradient by the one behind it.

use tilewright_device::kernel;
use tilewright_device::kernel::Arch;
use tilewright_device::tile::{
    Cta, Element, Fragment, Fresh, Global, GlobalMut, InPlace, Parking, Pending, RowMajor, Scan, Schedule,
    Shared, Src, Swizzle, block_y, block_z, copy, gemm,
};

use super::places::{Items, Sum};
use crate::products::Products;
use crate::sequences::{Sequence, Sequences};
use crate::tokens::{BLOCK, Tokens, Value};

/// Registers of dB or dC that are parked while a head's results are computed, and of C Bᵀ while nothing needs it: where they do not suffice.
const fn parked(n: usize, arch: Arch, keys: bool) -> [usize; 2] {
    match (n > 128, arch) {
        (false, _) => [0, 0],
        (true, Arch::Sm90a) if !keys => [64, 0],
        _ => [64, 32],
    }
}

/// A tile of a stage, whose addresses are the same for all heads where it is the only one: not held beside wide sums.
#[inline(always)]
fn read<T: Element, const N: usize>(
    tile: Src<'_, Shared<T, 64, 64, Swizzle<128>>>,
) -> Src<'_, Shared<T, 64, 64, Swizzle<128>>> {
    if N > 128 { tile.anew() } else { tile }
}

/// The gradients of a block by C, or with `KEYS` by B and x, summed over heads; and what those by dt, A and D are made of.
///
/// The two are one another's mirror: with M\[l, s\] = exp(a\[l\] - a\[s\]) for s <= l,
///
/// | | without `KEYS`: tokens l that ask | with `KEYS`: tokens s that enter |
/// | --- | --- | --- |
/// | `own`, `other` | dy, x | x, dy |
/// | `own_n`, `other_n` | C, B | B, C |
/// | `states` | H₀, before the block | G₁, the gradient behind it |
/// | `result` | y = (C Bᵀ ∘ M dt) x + exp(a) C H₀ᵀ + D x, of which that by z | dx = dt ((C Bᵀ ∘ M)ᵀ dy + exp(a\[end\] - a) B G₁ᵀ) + D dy |
/// | `gradient` | dC = (dy xᵀ ∘ M dt) B + exp(a) dy H₀ | dB = dt ((dy xᵀ ∘ M)ᵀ C + exp(a\[end\] - a) x G₁) |
///
/// `own`, `other`, `result` and `slopes`, the gradient by the gated y times the gate's derivative, \[matrices, heads, rows, P\], `own_n` and `other_n` \[matrices, groups, rows, N\], `states` of
/// [`block_states`](fn@super::block_states), `steps` as in [`chunk_scan`](fn@crate::chunk_scan), `gradient` \[splits, matrices, groups, rows, N\], `sums` \[matrices, lines,
/// tokens, 1\] and `columns`, the same memory as \[matrices, lines, tokens\]. A CTA has a block and some heads of a group. Without `KEYS` there is a result where `slopes` has rows.
#[kernel(program = P)]
pub fn block_gradient<P: Schedule, Y, T: Element, const N: usize, const KEYS: bool, const STAGES: usize>(
    mut cta: Cta<P>,
    own: InPlace<Global<T, 4>>,
    other: InPlace<Global<T, 4>>,
    own_n: InPlace<Global<T, 4>>,
    other_n: InPlace<Global<T, 4>>,
    states: InPlace<Global<T, 4>>,
    steps: InPlace<Global<f32, 4, RowMajor, 8>>,
    skip: InPlace<Global<f32, 2, RowMajor, 0>>,
    slopes: InPlace<Global<T, 4, RowMajor, 0>>,
    result: InPlace<GlobalMut<T, 4>>,
    gradient: InPlace<GlobalMut<f32, 5, RowMajor, 0>>,
    sums: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    columns: InPlace<GlobalMut<f32, 3, RowMajor, 0>>,
    sequences: Sequences,
    items: Items,
) where
    Y: Products<T, N>,
{
    let once = cta.stages::<1>();
    let own_ns = once.alloc::<Shared<T, 64, N, _, _>>(&mut cta);
    let other_ns = once.alloc::<Shared<T, 64, N, _, _>>(&mut cta);
    let stages = cta.stages::<STAGES>();
    let own_s = stages.alloc::<Shared<T, 64, 64, _, _>>(&mut cta);
    let other_s = stages.alloc::<Shared<T, 64, 64, _, _>>(&mut cta);
    let state_s = stages.alloc::<Shared<T, 64, N, _, _>>(&mut cta);
    let steps_s = stages.alloc::<Shared<f32, 8, 32, _, _>>(&mut cta);
    let mut reducer = cta.col_reducer::<f32, Y, 64, 64>();
    let mut parking = Parking::<64, N, Y>::new(&mut cta, 1, parked(N, P::ARCH, KEYS)[0]);
    let mut of_scores = Parking::<64, 64, Y>::new(&mut cta, 1, parked(N, P::ARCH, KEYS)[1]);
    let mut out = matches!(P::ARCH, Arch::Sm90a).then(|| cta.output::<T, 64, 64, Y>());
    let (mut once_pipe, mut pipe) = (cta.pipeline(once), cta.pipeline(stages));
    let Sequence { matrix, first, rows, block } = sequences.get(block_z());
    let ((group, split, range), i) = (items.own(), block_y());
    let range = if i * BLOCK < rows { range } else { 0..0 };
    let mut base = once_pipe.loads(0..u32::from(!range.is_empty()), |s, _| {
        copy(own_n.get().tile([matrix, group, i, 0]).of_rows(first, rows), own_ns.at(s));
        copy(other_n.get().tile([matrix, group, i, 0]).of_rows(first, rows), other_ns.at(s));
    });
    let mut loads = pipe.loads(
        range.clone(),
        #[inline(always)]
        |s, item| {
            let (head, part) = items.item(group, item);
            copy(own.get().tile([matrix, head, i, part]).of_rows(first, rows), own_s.at(s));
            copy(other.get().tile([matrix, head, i, part]).of_rows(first, rows), other_s.at(s));
            copy(states.get().tile([matrix, head, items.state(block + i, part), 0]), state_s.at(s));
            copy(steps.get().tile([matrix, head, block + i, 0]), steps_s.at(s));
        },
    );
    if !cta.computes() || range.is_empty() {
        return;
    }
    let inside = rows - i * BLOCK;
    let both = base.acquire();
    // Rows of the next sequence.
    base.clear_from(&both, &other_ns, inside);
    let scores =
        gemm(Y::default(), own_ns.at(both.full()), other_ns.at(both.full()).t(), Fresh::new()).wait();
    let rest = of_scores.put(0, scores);
    // SAFETY: put above.
    let scores = || unsafe { of_scores.take(0, rest) };
    let mut all = parking.put(0, Fragment::<f32, 64, N, Y>::zero());
    let mut item = range.start;
    while item < range.end {
        let (head, part) = items.item(group, item);
        let turn = loads.acquire();
        loads.clear_from(&turn, &other_s, inside);
        let (s, tokens) = (turn.full(), Tokens::of(steps_s.at(turn.full())));
        let line = |sum: Sum| sum.line(&items, head, part);
        // What the state adds at each token, decayed from or to the block's other end.
        let edge = || if KEYS { tokens.left_behind::<Y, 64>() } else { tokens.rows(Value::Left) };
        let of_state = gemm(Y::default(), own_ns.at(both.full()), state_s.at(s).t(), Fresh::new()).wait();
        let of_state = of_state.zip_rows(&edge(), |x, left| x * left);
        // Loaded anew wherever it is needed, and so the factors below: registers do not hold them over what lies between.
        let of_own = |x: &Fragment<f32, 64, 64, Y>| {
            let own = Fragment::<T, 64, 64, Y>::load(read::<T, N>(own_s.at(s)));
            x.zip(&own, |x, own| x * own.to_f32()).reduce_rows(0.0, |a, b| a + b)
        };
        let edges = of_own(&of_state);
        if KEYS {
            let behind = edges.zip(&tokens.steps(), |sum, dt| sum * dt);
            copy(behind, sums.get().tile([matrix, line(Sum::Behind), block + i, 0]));
        }
        if KEYS || slopes.get().rows() > 0 {
            let weights = scores().zip(&tokens.factors::<Y, KEYS>(), |score, by| score * by).cast::<T>();
            let mut y = gemm(Y::default(), weights, other_s.at(s), of_state).wait();
            if KEYS {
                copy(of_own(&y), sums.get().tile([matrix, line(Sum::Weight), block + i, 0]));
                y = y.zip_rows(&tokens.steps(), |y, dt| y * dt);
            }
            let skip = skip.get().tile([head, 0]).element::<1, 1>(0, 0);
            let others = Fragment::<T, 64, 64, Y>::load(read::<T, N>(other_s.at(s)));
            y = y.zip(&others, |y, x| y + skip * x.to_f32());
            let place = [matrix, head, i, part];
            if !KEYS {
                let slopes = Fragment::<T, 64, 64, Y>::load(slopes.get().tile(place).of_rows(first, rows));
                y = y.zip(&slopes, |y, slope| y * slope.to_f32());
            }
            let (y, mut result) = (y.cast::<T>(), result.get());
            match &mut out {
                Some(out) => out.store(y, result.tile(place).of_rows(first, rows)),
                None => copy(y, result.tile(place).of_rows(first, rows)),
            }
        }
        let pairs = gemm(Y::default(), own_s.at(s), other_s.at(s).t(), Fresh::new()).wait();
        if !KEYS {
            let diagonal = pairs.map_indexed(|row, col, x| if row == col { x } else { 0.0 });
            let diagonal = diagonal.reduce_rows(0.0, |a, b| a + b);
            copy(diagonal, sums.get().tile([matrix, line(Sum::Skip), block + i, 0]));
        }
        let mut pairs = pairs.zip(&tokens.factors::<Y, KEYS>(), |x, by| x * by);
        if KEYS {
            pairs = pairs.zip_rows(&tokens.steps(), |x, dt| x * dt);
        }
        let weights = pairs.cast::<T>().operand();
        if !KEYS {
            // Of each token l, what comes over each token t at or before it: from the state, and from the tokens before t.
            let crossing = pairs.zip(&scores(), |a, b| a * b);
            let (crossing, _) = crossing.scan_rows(edges, Scan::Exclusive, |a, b| a + b);
            let crossing = crossing.map_indexed(|l, t, x| if t <= l && l < inside { x } else { 0.0 });
            let across = reducer.reduce_cols(&crossing, 0.0, |a, b| a + b);
            copy(across, columns.get().tile([matrix, line(Sum::Across), block + i]));
        }
        // SAFETY: put in front of the loop, and at the end of each turn.
        let sum = unsafe { parking.take(0, all) };
        let sum = gemm(Y::default(), weights, other_ns.at(both.full()), sum).wait();
        // The last of the steps before the last load: behind that all threads have read the stage.
        let by = if KEYS { edge().zip(&tokens.steps(), |left, dt| left * dt) } else { edge() };
        let own = Fragment::<T, 64, 64, Y>::load(read::<T, N>(own_s.at(s))).to_f32();
        let weighted = own.zip_rows(&by, |x, by| x * by).cast::<T>();
        all = parking.put(0, gemm(Y::default(), weighted, state_s.at(s), sum).wait());
        loads.release(turn);
        item += 1;
    }
    // SAFETY: put behind the last turn.
    let all = unsafe { parking.take(0, all) };
    copy(all, gradient.get().tile([split, matrix, group, i, 0]).of_rows(first, rows));
}
