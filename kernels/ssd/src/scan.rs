//! The results of each chunk, from the state before it.

use tilewright_device::kernel;
use tilewright_device::kernel::Arch;
use tilewright_device::tile::{
    Activation, Cta, Element, Fragment, Fresh, Global, GlobalMut, InPlace, Parking, Pending, RowMajor,
    Schedule, Shared, Swizzle, copy, gemm,
};

use crate::products::Products;
use crate::sequences::{Chunks, Sequence, Sequences};
use crate::tokens::{BLOCK, Tokens, Value};

/// Registers of a state that are parked while y is computed.
const fn parked(arch: Arch, n: usize) -> usize {
    if matches!(arch, Arch::Sm80) && n > 128 { 64 } else { 0 }
}

/// y\[t\] = C\[t\] · H\[t\] + skip x\[t\], times silu(z\[t\]) if z has rows, with H\[t\] = exp(dt A) H\[t - 1\] + dt x\[t\] B\[t\]ᵀ (Dao & Gu 2024).
///
/// x, y and z \[matrices, heads, rows, P\], B and C \[matrices, groups, rows, N\], `steps` \[matrices, heads, 8 blocks, 32\] of
/// [`chunk_steps`](fn@crate::chunk_steps), `skip` (D) \[heads, 1\]; `initial` and `last` \[sequences, heads, P, N\], the states before the first
/// token and behind the last; `states` \[sequences, chunks, heads, P, N\], those behind each chunk but the last of
/// [`state_passing`](fn@crate::state_passing). What has no rows is not there.
///
/// A CTA walks over the blocks of 64 tokens of a chunk, 64 columns of one head, with the state in registers: the block's own part of y is
/// (C Bᵀ ∘ weights) x, what is left of the state before the block adds C Hᵀ. A whole sequence may be one chunk.
#[kernel(program = P)]
pub fn chunk_scan<P: Schedule, Y, T: Element, const N: usize, const STAGES: usize>(
    mut cta: Cta<P>,
    x: InPlace<Global<T, 4>>,
    b: InPlace<Global<T, 4>>,
    c: InPlace<Global<T, 4>>,
    steps: InPlace<Global<f32, 4, RowMajor, 8>>,
    z: InPlace<Global<T, 4, RowMajor, 0>>,
    skip: InPlace<Global<f32, 2, RowMajor, 0>>,
    initial: InPlace<Global<f32, 4, RowMajor, 0>>,
    states: InPlace<Global<f32, 5, RowMajor, 0>>,
    y: InPlace<GlobalMut<T, 4>>,
    last: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    sequences: Sequences,
    chunks: Chunks,
) where
    Y: Products<T, N>,
{
    let stages = cta.stages::<STAGES>();
    let x_s = stages.alloc::<Shared<T, 64, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, 64, N, _, _>>(&mut cta);
    let c_s = stages.alloc::<Shared<T, 64, N, _, _>>(&mut cta);
    let steps_s = stages.alloc::<Shared<f32, 8, 32, _, _>>(&mut cta);
    let mut h_s = cta.scratch::<Shared<T, 64, N, Swizzle<128>>>();
    // Elsewhere the room is a second stage's.
    let mut out = matches!(P::ARCH, Arch::Sm90a).then(|| cta.output::<T, 64, 64, Y>());
    let mut parking = Parking::<64, N, Y>::new(&mut cta, 1, parked(P::ARCH, N));
    let mut pipe = cta.pipeline(stages);
    let own = chunks.own(&sequences);
    let Sequence { matrix, first, rows, block } = own.sequence;
    let mut loads = pipe.loads(
        own.first..own.first + own.blocks,
        #[inline(always)]
        |s, i| {
            copy(x.get().tile([matrix, own.head, i, own.part]).of_rows(first, rows), x_s.at(s));
            copy(b.get().tile([matrix, own.group, i, 0]).of_rows(first, rows), b_s.at(s));
            copy(c.get().tile([matrix, own.group, i, 0]).of_rows(first, rows), c_s.at(s));
            copy(steps.get().tile([matrix, own.head, block + i, 0]), steps_s.at(s));
        },
    );
    if !cta.computes() || (own.blocks == 0 && !own.last) {
        return;
    }
    let mut h = if own.index == 0 {
        Fragment::<f32, 64, N, Y>::load(initial.get().tile([own.number, own.head, own.part, 0]))
    } else {
        Fragment::load(states.get().tile([own.number, own.index - 1, own.head, own.part, 0]))
    };
    let mut i = own.first;
    while i < own.first + own.blocks {
        // Read anew for each block, in no register over the loop; on its way while the block is.
        let skip = skip.get().tile([own.head, 0]).element::<1, 1>(0, 0);
        let turn = loads.acquire();
        // Rows of the next sequence, whose weight is 0.
        loads.clear_from(&turn, &x_s, rows - i * BLOCK);
        loads.clear_from(&turn, &b_s, rows - i * BLOCK);
        h.cast::<T>().copy_matrices(&mut h_s);
        let rest = parking.put(0, h);
        let (s, tokens) = (turn.full(), Tokens::of(steps_s.at(turn.full())));
        let scores = gemm(Y::default(), c_s.at(s), b_s.at(s).t(), Fresh::new()).commit();
        let before = gemm(Y::default(), c_s.at(s), h_s.full().t(), Fresh::new());
        let (scores, before) = scores.behind(before, || ());
        let weights = tokens.weigh(scores, skip).cast::<T>();
        let all = before.wait().zip_rows(&tokens.rows::<Y, 64>(Value::Left), |y, left| y * left);
        let all = gemm(Y::default(), weights, x_s.at(s), all);
        let next = || {
            let (remains, left) = (tokens.cols::<Y>(Value::Remains), tokens.at(Value::Left, BLOCK - 1));
            let x = Fragment::<T, 64, 64, Y>::load_matrices(x_s.at(s).t()).to_f32();
            let x = x.zip_cols(&remains, |x, w| x * w);
            // SAFETY: put above.
            let h = unsafe { parking.take(0, rest) };
            gemm(Y::default(), x.cast::<T>(), b_s.at(s), h.map(|h| h * left))
        };
        let place = [matrix, own.head, i, own.part];
        let mut write = |mut all: Fragment<f32, 64, 64, Y>| {
            if z.get().rows() > 0 {
                let z = Fragment::<T, 64, 64, Y>::load(z.get().tile(place).of_rows(first, rows));
                all = all.zip(&z.to_f32(), |y, z| y * Activation::Silu.apply(z));
            }
            let (all, mut y) = (all.cast::<T>(), y.get());
            let to = y.tile(place).of_rows(first, rows);
            match &mut out {
                Some(out) => out.store(all, to),
                None => copy(all, to),
            }
        };
        h = if parked(P::ARCH, N) > 0 {
            write(all.wait());
            next().wait()
        } else {
            let (all, next) = all.commit().behind(next(), || ());
            write(all);
            next.wait()
        };
        loads.release(turn);
        i += 1;
    }
    let mut last = last.get();
    if own.last && last.rows() > 0 {
        copy(h, last.tile([own.number, own.head, own.part, 0]));
    }
}
