//! The state over chunks that have been prepared.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, Fresh, Global, GlobalMut, InPlace, Linear, Pending, RowMajor, RowVector,
    Schedule, Shared, Swizzle, copy, gemm,
};

use crate::policy::{CHUNK, States};
use crate::work::Work;

/// O and the state behind each sequence, of what [`prepare`](crate::prepare()) leaves of each chunk: with Sᵀ \[DV, DK\] in registers
///
/// - Uᵀ = Vᵀ, with `DELTA` `values`ᵀ - Sᵀ `known`ᵀ,
/// - Oᵀ = Sᵀ `from_before`ᵀ + Uᵀ `scores`ᵀ,
/// - Sᵀ = Sᵀ ∘ `whole` + Uᵀ `to_behind`.
///
/// Each left operand is what a gemm leaves in registers, each right one lies as it was loaded: nothing that is computed goes through shared memory.
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
    work: InPlace<Work>,
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
    let mut pipe = cta.pipeline(stages);
    let part = work.get().part();
    let (matrix, head) = (part.matrix, part.head);
    let mut chunks = pipe.loads(
        0..part.chunks(),
        #[inline(always)]
        |s, c| {
            let (first, rows) = (part.first, part.rows);
            copy(from_before.get().tile([matrix, head, c, 0]).of_rows(first, rows), q_s.at(s));
            copy(to_behind.get().tile([matrix, head, c, 0]).of_rows(first, rows), k_s.at(s));
            copy(scores.get().tile([matrix, head, c, 0]).of_rows(first, rows), p_s.at(s));
            copy(values.get().tile([matrix, head, c, part.block]).of_rows(first, rows), v_s.at(s));
            if DELTA {
                copy(known.get().tile([matrix, head, c, 0]).of_rows(first, rows), w_s.at(s));
            }
            let (whole, to) = (whole.get(), whole_s.at(s));
            let line = whole.pointer().wrapping_add((part.slot + c) as usize * DK);
            // SAFETY: the stage's room for the line is this role's to fill; the host passes DK values for each chunk, aligned to 16 bytes.
            unsafe { P::load_bytes(line.cast(), to.address(), DK as u32 * 4, to.ticket()) };
        },
    );
    if !cta.computes() {
        return;
    }
    let mut state = [Fragment::<f32, DV, D, Y>::zero(); PARTS];
    let mut i = 0;
    while i < PARTS {
        state[i] = Fragment::load(before.get().tile([part.state, head, part.block, i as u32]));
        i += 1;
    }
    let mut c = 0;
    while c < part.chunks() {
        let full = chunks.acquire();
        let inside = part.rows - c * CHUNK as u32;
        chunks.clear_from(&full, &k_s, inside);
        chunks.clear_from(&full, &v_s, inside);
        if DELTA {
            chunks.clear_from(&full, &w_s, inside);
        }
        let mut output = Fragment::<f32, DV, CHUNK, Y>::zero();
        let mut values = Fragment::<T, DV, CHUNK, Y>::load_matrices(v_s.at(full.full()).t());
        let mut i = 0;
        while i < PARTS {
            let operand = state[i].cast::<T>();
            let q = q_s.at(full.full()).part::<D>(i as u32);
            if DELTA {
                const { assert!(!DELTA || PARTS == 1, "what is known is subtracted in one piece") };
                let w = w_s.at(full.full()).part::<D>(i as u32);
                let from_state = gemm(Y::default(), operand, q.t(), output);
                let of_keys = gemm(Y::default(), operand, w.t(), Fresh::new());
                let subtracted;
                (subtracted, output) = (of_keys, from_state).wait();
                values = values.to_f32().zip(&subtracted, |v, known| v - known).cast::<T>();
            } else {
                output = gemm(Y::default(), operand, q.t(), output).wait();
            }
            i += 1;
        }
        let output = gemm(Y::default(), values, p_s.at(full.full()).t(), output).wait();
        let mut i = 0;
        while i < PARTS {
            let left = whole_s.at(full.full()).address() + (i * D * 4) as u32;
            // SAFETY: part of the stage's line of factors, which is full.
            let left = Cols::from_vector(unsafe { RowVector::<f32, D>::at(left) });
            let decayed = state[i].zip_cols(&left, |x, by: f32| x * by);
            let k = k_s.at(full.full()).part::<D>(i as u32);
            state[i] = gemm(Y::default(), values, k, decayed).wait();
            i += 1;
        }
        // Threads have read factors of the stage, not gemms alone.
        cta.barrier();
        chunks.release(full);
        let to = o.get().tile([matrix, head, c, part.block]).of_rows(part.first, part.rows);
        out.store(output.cast::<T>().transposed(), to);
        c += 1;
    }
    let mut i = 0;
    while i < PARTS {
        copy(state[i], behind.get().tile([part.state, head, part.block, i as u32]));
        i += 1;
    }
}
