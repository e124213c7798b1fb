//! Decays that all channels of a head share: linear attention, retention, those with a gate for each row, and the delta rule with them.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::kernel::Arch;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, Fresh, Global, GlobalMut, InPlace, Pending, RowMajor, Schedule, Shared,
    Swizzle, copy, gemm,
};

use crate::decays::{Decays, Factors};
use crate::policy::{CHUNK, Scores, States};
use crate::state::State;
use crate::work::Work;

/// O = scale (Q Kᵀ ∘ decays) V, chunk by chunk, with a state carried over chunks (Sun et al. 2023; Yang et al. 2023).
///
/// Q, K \[batch, heads, rows, DK\], V, O \[batch, heads, rows, columns\]: a CTA takes `DV` of V's columns. Sᵀ \[DV, DK\] stays in
/// registers, `PARTS` parts of `D` columns; of a chunk Q, K and V
///
/// - Oᵀ = Sᵀ Qᵀ, each column times scale and what is left of the state there, + Vᵀ (scale Q Kᵀ ∘ decays)ᵀ,
/// - Sᵀ = what is left of Sᵀ + (what is left of V)ᵀ K.
///
/// So accumulators are the next gemm's left operands as they lie, and of what is computed Q Kᵀ alone goes through shared memory. No
/// exponent is above 0. By the delta rule V is what [`solve`](crate::solve()) leaves of values, and `known` is added to it: Vᵀ + Sᵀ `known`ᵀ is
/// written. The states before and behind a part lie transposed, \[segments x sequences, heads, columns, DK\]; `before`
/// without rows is zeros. Where `outputs` is 0 the state behind the part is all that is computed, and what the part leaves of one before it,
/// `left` \[segments x sequences, heads, 1\]; by the delta rule also, of blocks behind V's columns, what becomes of the identity where no V is added:
/// `transitions` \[segments x sequences, heads, DK, DK\].
#[kernel(program = P)]
pub fn retention<
    P: Schedule,
    Y,
    X,
    T: Element,
    const DV: usize,
    const DK: usize,
    const D: usize,
    const PARTS: usize,
    const STAGES: usize,
    const DELTA: bool,
>(
    mut cta: Cta<P>,
    q: InPlace<Global<T, 4>>,
    k: InPlace<Global<T, 4>>,
    v: InPlace<Global<T, 4>>,
    known: InPlace<Global<T, 4>>,
    o: InPlace<GlobalMut<T, 4>>,
    before: InPlace<Global<f32, 4, RowMajor, 0>>,
    behind: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    transitions: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    left: InPlace<GlobalMut<f32, 3, RowMajor, 0>>,
    decays: InPlace<Decays>,
    work: InPlace<Work>,
    scale: f32,
    outputs: u32,
) where
    Y: States<T, DV, D>,
    X: Scores<T, DK>,
{
    let stages = cta.stages::<STAGES>();
    let q_s = stages.alloc::<Shared<T, CHUNK, DK, Swizzle<128>>>(&mut cta);
    let k_s = stages.alloc::<Shared<T, CHUNK, DK, Swizzle<128>>>(&mut cta);
    let v_s = stages.alloc::<Shared<T, CHUNK, DV, Swizzle<128>>>(&mut cta);
    let w_s = stages.alloc_if::<Shared<T, CHUNK, DK, Swizzle<128>>>(DELTA, &mut cta);
    let mut p_s = cta.scratch::<Shared<T, CHUNK, CHUNK, Swizzle<128>>>();
    let mut out = cta.output::<T, CHUNK, DV, Y::Transposed>();
    let mut factors = Factors::new(&mut cta);
    let parking = State::<Y, DV, D, PARTS>::parking(&mut cta, DELTA);
    let mut pipe = cta.pipeline(stages);
    let part = work.get().part();
    let (matrix, head, outputs) = (part.matrix, part.head, outputs != 0);
    let mut chunks = pipe.loads(
        0..part.chunks(),
        #[inline(always)]
        |s, c| {
            if outputs {
                copy(q.get().tile([matrix, head, c, 0]).of_rows(part.first, part.rows), q_s.at(s));
            }
            copy(k.get().tile([matrix, head, c, 0]).of_rows(part.first, part.rows), k_s.at(s));
            copy(v.get().tile([matrix, head, c, part.block]).of_rows(part.first, part.rows), v_s.at(s));
            if DELTA {
                copy(known.get().tile([matrix, head, c, 0]).of_rows(part.first, part.rows), w_s.at(s));
            }
        },
    );
    if !cta.computes() {
        return;
    }
    // Of the blocks behind those of V, which a pass over states alone has.
    let block_of_transitions = part.block.checked_sub(v.get().cols().div_ceil(DV as u32));
    let mut state = match block_of_transitions {
        Some(block) if DELTA => State::<Y, DV, D, PARTS>::identity(parking, block),
        _ => State::load(parking, before.get(), [part.state, head, part.block]),
    };
    let first = decays.get().of_head(&part).of_rows(&part, 0, decays.get().gates_of(&part, 0));
    factors.write(0, first, scale);
    // Of the next chunk: loaded a chunk before they are needed.
    let mut next = decays.get().gates_of(&part, 1);
    cta.barrier();
    let mut c = 0;
    while c < part.chunks() {
        let (of_head, after_next) = (decays.get().of_head(&part), decays.get().gates_of(&part, c + 2));
        let full = chunks.acquire();
        let inside = part.rows - c * CHUNK as u32;
        chunks.clear_from(&full, &k_s, inside);
        chunks.clear_from(&full, &v_s, inside);
        if DELTA {
            chunks.clear_from(&full, &w_s, inside);
        }
        let values = || Fragment::<T, DV, CHUNK, Y>::load_matrices(v_s.at(full.full()).t());
        // By the delta rule less what the state has for the keys.
        let corrected = || state.sees(w_s.at(full.full()), values().to_f32());
        let late = || match (DELTA, PARTS) {
            (false, _) => values(),
            (true, 1) => corrected().wait().cast::<T>(),
            (true, _) => state.seen_by(w_s.at(full.full()), values().to_f32()).cast::<T>(),
        };
        let mut written = None;
        if outputs {
            let (q, k) = (q_s.at(full.full()), k_s.at(full.full()));
            let products = || gemm(X::default(), q_s.at(full.full()), k.t(), Fresh::new());
            // A state of several parts leaves no room for its products beside these.
            let (early, mut scores);
            if DELTA && PARTS == 1 && matches!(P::ARCH, Arch::Sm90a) {
                let (from_before, (seen, values)) = state.seen_beside(q, || (products(), corrected()));
                (early, scores, written) = (Some(from_before), seen, Some(values.cast::<T>()));
            } else if PARTS == 1 {
                let (from_before, seen) = state.seen_beside(q, products);
                (early, scores) = (Some(from_before), seen);
            } else {
                (early, scores) = (None, products().wait());
            }
            if decays.get().any() {
                scores = factors.decay(c, scores);
            }
            let seen = scores.map_indexed(|row, col, x| if col <= row { x * scale } else { 0.0 });
            factors.write(c + 1, of_head.of_rows(&part, c + 1, next), scale);
            copy(seen.cast::<T>(), &mut p_s);
            let from_before = match early {
                Some(from_before) => from_before,
                None if DELTA => {
                    let (q, w) = (q_s.at(full.full()), w_s.at(full.full()));
                    let (from_before, values) = state.seen_by_both(q, w, values().to_f32());
                    written = Some(values.cast::<T>());
                    from_before
                }
                None => state.seen_by(q_s.at(full.full()), Fragment::zero()),
            };
            let output = from_before.zip_cols(&Cols::from_vector(factors.of_before(c)), |x, by: f32| x * by);
            let output = gemm(Y::default(), written.unwrap_or_else(late), p_s.full().t(), output).wait();
            let to = o.get().tile([matrix, head, c, part.block]).of_rows(part.first, part.rows);
            out.store(output.cast::<T>().transposed(), to);
        } else {
            factors.write(c + 1, of_head.of_rows(&part, c + 1, next), scale);
            cta.barrier();
        }
        let for_behind = Cols::from_vector(factors.for_behind(c));
        // If not early, made again: in no register while outputs are computed.
        let written = written
            .unwrap_or_else(late)
            .to_f32()
            .zip_cols(&for_behind, |x, by: f32| x * by)
            .cast::<T>()
            .operand();
        let whole = factors.whole(c);
        state = state.map(|_, s| s.map(|x| x * whole)).plus(written, k_s.at(full.full()));
        chunks.release(full);
        (next, c) = (after_next, c + 1);
    }
    match block_of_transitions {
        Some(block) if DELTA => state.store(transitions.get(), [part.state, head, block]),
        _ => state.store(behind.get(), [part.state, head, part.block]),
    }
    if !outputs && thread_x() == 0 && part.block == 0 {
        left.get().tile([part.state, head, 0]).put::<1, 1>(0, 0, factors.left());
    }
}
