//! The state over chunks that have been prepared.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, Fresh, Global, GlobalMut, InPlace, Linear, Pending, RowMajor, RowVector,
    Schedule, Shared, Swizzle, copy, gemm,
};

use crate::left::Left;
use crate::policy::{CHUNK, States};
use crate::state::State;
use crate::work::Work;

/// O and the state behind each sequence, of what [`prepare`](crate::prepare()) leaves of each chunk: with Sᵀ \[DV, DK\] in registers
///
/// - Uᵀ = Vᵀ, with `DELTA` `values`ᵀ + Sᵀ `known`ᵀ,
/// - Oᵀ = Sᵀ `from_before`ᵀ + Uᵀ `scores`ᵀ,
/// - Sᵀ = Sᵀ ∘ `whole` + Uᵀ `to_behind`.
///
/// Each left operand is what a gemm leaves in registers, each right one lies as it was loaded: nothing that is computed goes through shared memory.
///
/// Where `outputs` is 0 it computes no O, but what passes states from segment to segment: the state that each makes of nothing, and `left`
/// \[segments x sequences, heads, DK\], the products of `whole`. By the delta rule blocks behind V's columns compute what becomes of the
/// identity, where no V is added: `transitions` \[segments x sequences, heads, DK, DK\].
#[kernel(program = P)]
pub fn scan<
    P: Schedule,
    Y,
    T: Element,
    const DV: usize,
    const DK: usize,
    const D: usize,
    const PARTS: usize,
    const STAGES: usize,
    const DELTA: bool,
>(
    mut cta: Cta<P>,
    from_before: InPlace<Global<T, 4>>,
    to_behind: InPlace<Global<T, 4>>,
    scores: InPlace<Global<T, 4>>,
    known: InPlace<Global<T, 4>>,
    values: InPlace<Global<T, 4>>,
    o: InPlace<GlobalMut<T, 4>>,
    whole: InPlace<Global<f32, 2, RowMajor, 0>>,
    before: InPlace<Global<f32, 4, RowMajor, 0>>,
    behind: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    transitions: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    left: InPlace<GlobalMut<f32, 3, RowMajor, 0>>,
    work: InPlace<Work>,
    outputs: u32,
) where
    Y: States<T, DV, D>,
{
    let stages = cta.stages::<STAGES>();
    let q_s = stages.alloc::<Shared<T, CHUNK, DK, Swizzle<128>>>(&mut cta);
    let k_s = stages.alloc::<Shared<T, CHUNK, DK, Swizzle<128>>>(&mut cta);
    let p_s = stages.alloc::<Shared<T, CHUNK, CHUNK, Swizzle<128>>>(&mut cta);
    let v_s = stages.alloc::<Shared<T, CHUNK, DV, Swizzle<128>>>(&mut cta);
    let whole_s = stages.alloc::<Shared<f32, 1, DK, Linear>>(&mut cta);
    let w_s = stages.alloc_if::<Shared<T, CHUNK, DK, Swizzle<128>>>(DELTA, &mut cta);
    let mut out = cta.output::<T, CHUNK, DV, Y::Transposed>();
    let parking = State::<Y, DV, D, PARTS>::parking(&mut cta, DELTA);
    let mut pipe = cta.pipeline(stages);
    let part = work.get().part();
    let outputs = outputs != 0;
    let mut chunks = pipe.loads(
        0..part.chunks(),
        #[inline(always)]
        |s, c| {
            let (at, first, rows) = ([part.matrix, part.head, c, 0], part.first, part.rows);
            if DELTA {
                copy(known.get().tile(at).of_rows(first, rows), w_s.at(s));
            }
            let columns = [part.matrix, part.head, c, part.block];
            copy(values.get().tile(columns).of_rows(first, rows), v_s.at(s));
            if outputs {
                copy(from_before.get().tile(at).of_rows(first, rows), q_s.at(s));
                copy(scores.get().tile(at).of_rows(first, rows), p_s.at(s));
            }
            copy(to_behind.get().tile(at).of_rows(first, rows), k_s.at(s));
            let (whole, to) = (whole.get(), whole_s.at(s));
            let line = whole.pointer().wrapping_add((part.slot + c) as usize * DK);
            // SAFETY: the stage's room for the line is this role's to fill; the host passes DK values for each chunk, aligned to 16 bytes.
            unsafe { P::load_bytes(line.cast(), to.address(), DK as u32 * 4, to.ticket()) };
        },
    );
    if !cta.computes() {
        return;
    }
    // Of the blocks behind those of V, which a pass over states alone has.
    let block_of_transitions = part.block.checked_sub(values.get().cols().div_ceil(DV as u32));
    let mut state = match block_of_transitions {
        Some(block) if DELTA => State::<Y, DV, D, PARTS>::identity(parking, block),
        _ => State::load(parking, before.get(), [part.state, part.head, part.block]),
    };
    let mut kept = Left::<DK>::all();
    let mut c = 0;
    while c < part.chunks() {
        let full = chunks.acquire();
        let inside = part.rows - c * CHUNK as u32;
        chunks.clear_from(&full, &k_s, inside);
        chunks.clear_from(&full, &v_s, inside);
        let mut values = Fragment::<T, DV, CHUNK, Y>::load_matrices(v_s.at(full.full()).t());
        if DELTA {
            chunks.clear_from(&full, &w_s, inside);
            values = state.seen_by(w_s.at(full.full()), values.to_f32()).cast::<T>();
        }
        let values = values.operand();
        if outputs {
            let (q, p) = (q_s.at(full.full()), p_s.at(full.full()));
            // A state of several parts leaves no room for two products.
            let output = if PARTS == 1 {
                let within = || gemm(Y::default(), values, p.t(), Fresh::new());
                let (from_before, from_chunk) = state.seen_beside(q, within);
                from_before + from_chunk
            } else {
                gemm(Y::default(), values, p.t(), state.seen_by(q, Fragment::zero())).wait()
            };
            let to = o.get().tile([part.matrix, part.head, c, part.block]).of_rows(part.first, part.rows);
            out.store(output.cast::<T>().transposed(), to);
        }
        let whole = whole_s.at(full.full()).address();
        let decayed = state.map(|first, state| {
            // SAFETY: a part of the stage's line of factors, which is full.
            let by = Cols::from_vector(unsafe { RowVector::<f32, D>::at(whole + first * 4) });
            state.zip_cols(&by, |x, by: f32| x * by)
        });
        state = decayed.plus(values, k_s.at(full.full()));
        if !outputs {
            // SAFETY: as above.
            unsafe { kept.multiply::<P>(whole) };
        }
        chunks.release(full);
        c += 1;
    }
    match block_of_transitions {
        Some(block) if DELTA => state.store(transitions.get(), [part.state, part.head, block]),
        _ => state.store(behind.get(), [part.state, part.head, part.block]),
    }
    if !outputs && part.block == 0 {
        kept.store::<P>(&left.get().tile([part.state, part.head, 0]));
    }
}
