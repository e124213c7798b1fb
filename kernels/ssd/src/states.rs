//! What each chunk adds to the state.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, Global, GlobalMut, InPlace, Pending, RowMajor, Schedule, Shared, Swizzle, copy,
    gemm,
};

use crate::products::Products;
use crate::sequences::{Chunks, Sequence, Sequences};
use crate::tokens::{BLOCK, Tokens, Value};

/// The state that a chunk leaves behind one of zeros: H \[P, N\] = Σ dt 2^(a of the end - a) x Bᵀ over its tokens (Dao & Gu 2024, section 6).
///
/// x \[matrices, heads, rows, P\], B \[matrices, groups, rows, N\], `steps` \[matrices, heads, 8 blocks, 32\] of
/// [`chunk_steps`](fn@crate::chunk_steps), `states` \[sequences, chunks, heads, P, N\], `decays` \[sequences, chunks, heads\], the log2 of what the
/// chunk leaves of the state before it. The last chunk of a sequence is left out.
#[kernel(program = P)]
pub fn chunk_state<P: Schedule, Y, T: Element, const N: usize, const STAGES: usize>(
    mut cta: Cta<P>,
    x: InPlace<Global<T, 4>>,
    b: InPlace<Global<T, 4>>,
    steps: InPlace<Global<f32, 4, RowMajor, 8>>,
    states: InPlace<GlobalMut<f32, 5, RowMajor, 0>>,
    decays: InPlace<GlobalMut<f32, 3, RowMajor, 0>>,
    sequences: Sequences,
    chunks: Chunks,
) where
    Y: Products<T, N>,
{
    let stages = cta.stages::<STAGES>();
    let x_s = stages.alloc::<Shared<T, 64, 64, Swizzle<128>, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, 64, N, _, _>>(&mut cta);
    let steps_s = stages.alloc::<Shared<f32, 8, 32, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let own = chunks.own(&sequences);
    let Sequence { matrix, first, rows, block } = own.sequence;
    let blocks = if own.last { 0 } else { own.blocks };
    let mut loads = pipe.loads(own.first..own.first + blocks, |s, i| {
        copy(x.get().tile([matrix, own.head, i, own.part]).of_rows(first, rows), x_s.at(s));
        copy(b.get().tile([matrix, own.group, i, 0]).of_rows(first, rows), b_s.at(s));
        copy(steps.get().tile([matrix, own.head, block + i, 0]), steps_s.at(s));
    });
    if !cta.computes() || blocks == 0 {
        return;
    }
    let (mut h, mut decay) = (Fragment::<f32, 64, N, Y>::zero(), 0.0);
    let mut i = 0;
    while i < blocks {
        let turn = loads.acquire();
        let (s, tokens) = (turn.full(), Tokens::of(steps_s.at(turn.full())));
        let (remains, left) = (tokens.cols::<Y>(Value::Remains), tokens.at(Value::Left, BLOCK - 1));
        decay += tokens.at(Value::Sum, BLOCK - 1);
        let x =
            Fragment::<T, 64, 64, Y>::load_matrices(x_s.at(s).t()).to_f32().zip_cols(&remains, |x, w| x * w);
        h = gemm(Y::default(), x.cast::<T>(), b_s.at(s), h.map(|h| h * left)).wait();
        loads.release(turn);
        i += 1;
    }
    copy(h, states.get().tile([own.number, own.index, own.head, own.part, 0]));
    if own.part == 0 && thread_x() == 0 {
        decays.get().tile([own.number, own.index, own.head]).put::<1, 1>(0, 0, decay);
    }
}
