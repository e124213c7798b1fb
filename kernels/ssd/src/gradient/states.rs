//! States before each block, or gradients by the states behind each, on a walk over a sequence.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::kernel::Arch;
use tilewright_device::tile::{
    Cta, Element, Fragment, Global, GlobalMut, InPlace, OutputLayout, Parking, Pending, RowMajor, Schedule,
    Shared, Swizzle, copy, gemm,
};

use super::places::{Items, Sum};
use crate::products::Products;
use crate::sequences::{Chunks, Sequence, Sequences};
use crate::tokens::{BLOCK, Tokens, Value};

/// Registers of a state that are parked while another is multiplied by it.
const fn parked(n: usize) -> usize {
    if n > 128 { 64 } else { 0 }
}

/// The walk over a chunk with the state in registers: from the beginning with x and B, H = exp(dt A) H + dt x Bᵀ; where `reverse` is not 0 from
/// the end with dy and C, G = exp(dt A) (G + dy Cᵀ), the gradient by the state before a token.
///
/// x (or dy) \[matrices, heads, rows, P\], B (or C) \[matrices, groups, rows, N\], `steps` as in [`chunk_scan`](fn@crate::chunk_scan). What the state is before each
/// block, in the direction of the walk, goes to `before` \[matrices, heads, blocks · tiles of columns · 64, N\]; the last one to `last`
/// \[sequences, heads, P, N\], where the first one comes from `initial`. Chunks are counted in the direction of the walk, from `states`
/// \[sequences, chunks, heads, P, N\], those behind each.
///
/// With rows of `states` and none of `before` it computes `states` from zeros, but for the last chunk, and `decays`: see [`chunk_state`](fn@crate::chunk_state). If `others` has rows, the states
/// before the blocks in the other direction, their products with this one's, decayed over the block, go to `sums` by rows of the state.
#[kernel(program = P)]
pub fn block_states<P: Schedule, Y, T: Element, const N: usize, const STAGES: usize>(
    mut cta: Cta<P>,
    x: InPlace<Global<T, 4>>,
    b: InPlace<Global<T, 4>>,
    steps: InPlace<Global<f32, 4, RowMajor, 8>>,
    initial: InPlace<Global<f32, 4, RowMajor, 0>>,
    states: InPlace<GlobalMut<f32, 5, RowMajor, 0>>,
    decays: InPlace<GlobalMut<f32, 3, RowMajor, 0>>,
    before: InPlace<GlobalMut<T, 4>>,
    last: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    others: InPlace<Global<T, 4, RowMajor, 0>>,
    sums: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    sequences: Sequences,
    chunks: Chunks,
    items: Items,
    reverse: u32,
) where
    Y: Products<T, N> + OutputLayout<64, N>,
{
    let stages = cta.stages::<STAGES>();
    let x_s = stages.alloc::<Shared<T, 64, 64, Swizzle<128>, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, 64, N, _, _>>(&mut cta);
    let steps_s = stages.alloc::<Shared<f32, 8, 32, _, _>>(&mut cta);
    let mut out = matches!(P::ARCH, Arch::Sm90a).then(|| cta.output::<T, 64, N, Y>());
    let mut parking = Parking::<64, N, Y>::new(&mut cta, 1, parked(N));
    let mut pipe = cta.pipeline(stages);
    let own = chunks.own(&sequences);
    let Sequence { matrix, first, rows, block } = own.sequence;
    let totals = before.get().rows() == 0 && states.get().rows() > 0;
    let count = if totals && own.last { 0 } else { own.blocks };
    // The block that comes as the i-th.
    let nth = |i: u32| if reverse != 0 { rows.div_ceil(BLOCK) - 1 - i } else { i };
    let mut loads = pipe.loads(own.first..own.first + count, |s, i| {
        copy(x.get().tile([matrix, own.head, nth(i), own.part]).of_rows(first, rows), x_s.at(s));
        copy(b.get().tile([matrix, own.group, nth(i), 0]).of_rows(first, rows), b_s.at(s));
        copy(steps.get().tile([matrix, own.head, block + nth(i), 0]), steps_s.at(s));
    });
    if !cta.computes() || (count == 0 && (totals || !own.last)) {
        return;
    }
    let mut h = match (totals, own.index) {
        (true, _) => Fragment::<f32, 64, N, Y>::zero(),
        (false, 0) => Fragment::load(initial.get().tile([own.number, own.head, own.part, 0])),
        (false, i) => Fragment::load(states.get().read([own.number, i - 1, own.head, own.part, 0])),
    };
    let weight = if reverse != 0 { Value::Left } else { Value::Remains };
    let (mut decay, mut i) = (0.0, own.first);
    while i < own.first + count {
        let turn = loads.acquire();
        // Rows of the next sequence.
        loads.clear_from(&turn, &x_s, rows - nth(i) * BLOCK);
        loads.clear_from(&turn, &b_s, rows - nth(i) * BLOCK);
        let (s, tokens) = (turn.full(), Tokens::of(steps_s.at(turn.full())));
        let (weights, left) = (tokens.cols::<Y>(weight), tokens.at(Value::Left, BLOCK - 1));
        decay += tokens.at(Value::Sum, BLOCK - 1);
        let place = [matrix, own.head, items.state(block + nth(i), own.part), 0];
        let rest = parking.put(0, h);
        // SAFETY: put above.
        let state = || unsafe { parking.take(0, rest) };
        if others.get().rows() > 0 {
            let other = Fragment::<T, 64, N, Y>::load(others.get().tile(place)).to_f32();
            let whole = state().zip(&other, |g, h| g * h).reduce_rows(0.0, |a, b| a + b);
            let line = Sum::Whole.line(&items, own.head, own.part);
            copy(whole.map(|whole| whole * left), sums.get().tile([matrix, line, block + nth(i), 0]));
        }
        if !totals {
            match &mut out {
                Some(out) => out.store(state().cast::<T>(), before.get().tile(place)),
                None => copy(state().cast::<T>(), before.get().tile(place)),
            }
        }
        let x =
            Fragment::<T, 64, 64, Y>::load_matrices(x_s.at(s).t()).to_f32().zip_cols(&weights, |x, w| x * w);
        h = gemm(Y::default(), x.cast::<T>(), b_s.at(s), state().map(|h| h * left)).wait();
        loads.release(turn);
        i += 1;
    }
    if totals {
        copy(h, states.get().tile([own.number, own.index, own.head, own.part, 0]));
        if own.part == 0 && thread_x() == 0 {
            decays.get().tile([own.number, own.index, own.head]).put::<1, 1>(0, 0, decay);
        }
    } else if own.last {
        copy(h, last.get().tile([own.number, own.head, own.part, 0]));
    }
}
