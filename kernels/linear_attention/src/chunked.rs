//! Decays that all channels of a head share: linear attention, retention, and those with a gate for each row.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, Fresh, Global, GlobalMut, InPlace, Pending, RowMajor, Rows, Schedule,
    Shared, Swizzle, copy, gemm, math,
};

use crate::decays::{Decays, Factors};
use crate::policy::{CHUNK, Scores, States};
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
/// exponent is above 0. The states before and behind a part lie transposed, \[segments x sequences, heads, columns, DK\]; `before`
/// without rows is zeros. Without `OUTPUTS` the state behind the part is all that is computed, and its decay.
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
    const OUTPUTS: bool,
>(
    mut cta: Cta<P>,
    q: InPlace<Global<T, 4>>,
    k: InPlace<Global<T, 4>>,
    v: InPlace<Global<T, 4>>,
    o: InPlace<GlobalMut<T, 4>>,
    before: InPlace<Global<f32, 4, RowMajor, 0>>,
    behind: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    left: InPlace<GlobalMut<f32, 2, RowMajor, 0>>,
    decays: InPlace<Decays>,
    work: InPlace<Work>,
    scale: f32,
) where
    Y: States<T, DV, D>,
    X: Scores<T, DK>,
{
    let stages = cta.stages::<STAGES>();
    let q_s = stages.alloc_if::<Shared<T, CHUNK, DK, Swizzle<128>>>(OUTPUTS, &mut cta);
    let k_s = stages.alloc::<Shared<T, CHUNK, DK, Swizzle<128>>>(&mut cta);
    let v_s = stages.alloc::<Shared<T, CHUNK, DV, Swizzle<128>>>(&mut cta);
    let mut p_s = cta.scratch::<Shared<T, CHUNK, CHUNK, Swizzle<128>>>();
    let mut out = cta.output::<T, CHUNK, DV, Y::Transposed>();
    let mut factors = Factors::new(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let part = work.get().part();
    let (matrix, head) = (part.matrix, part.head);
    let mut chunks = pipe.loads(
        0..part.chunks(),
        #[inline(always)]
        |s, c| {
            if OUTPUTS {
                copy(q.get().tile([matrix, head, c, 0]).of_rows(part.first, part.rows), q_s.at(s));
            }
            copy(k.get().tile([matrix, head, c, 0]).of_rows(part.first, part.rows), k_s.at(s));
            copy(v.get().tile([matrix, head, c, part.block]).of_rows(part.first, part.rows), v_s.at(s));
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
    let mut sum = factors.write(0, decays.get().of_rows(&part, 0), scale);
    cta.barrier();
    let mut c = 0;
    while c < part.chunks() {
        let next = decays.get().of_rows(&part, c + 1);
        let full = chunks.acquire();
        let inside = part.rows - c * CHUNK as u32;
        chunks.clear_from(&full, &k_s, inside);
        chunks.clear_from(&full, &v_s, inside);
        let mut output = Fragment::<f32, DV, CHUNK, Y>::zero();
        if OUTPUTS {
            let (q, k) = (q_s.at(full.full()), k_s.at(full.full()));
            let p = if PARTS == 1 {
                let from_state = gemm(Y::default(), state[0].cast::<T>(), q.part::<D>(0).t(), output);
                let p;
                (output, p) = (from_state, gemm(X::default(), q, k.t(), Fresh::new())).wait();
                p
            } else {
                gemm(X::default(), q, k.t(), Fresh::new()).wait()
            };
            let p = if decays.get().any() {
                let (row, col) = (Rows::from_vector(factors.sums(c)), Cols::from_vector(factors.sums(c)));
                let with_row = p.map(|p| (p, 0.0)).zip_rows(&row, |(p, _), row| (p, row));
                let decay = |row, col| math::ex2(math::min(row - col, 0.0));
                with_row.zip_cols(&col, |(p, row), col: f32| (p * decay(row, col), row)).map(|(p, _)| p)
            } else {
                p
            };
            let seen = p.map_indexed(|row, col, p| if col <= row { p * scale } else { 0.0 });
            factors.write(c + 1, next, scale);
            copy(seen.cast::<T>(), &mut p_s);
            // A state of several parts leaves no room for its products beside those of Q Kᵀ.
            let mut i = 0;
            while PARTS > 1 && i < PARTS {
                let q = q_s.at(full.full()).part::<D>(i as u32);
                output = gemm(Y::default(), state[i].cast::<T>(), q.t(), output).wait();
                i += 1;
            }
        } else {
            sum += factors.write(c + 1, next, scale);
            cta.barrier();
        }
        if OUTPUTS {
            let values = Fragment::<T, DV, CHUNK, Y>::load_transposed(v_s.at(full.full()).t());
            let from_before = Cols::from_vector(factors.of_before(c));
            let output = output.zip_cols(&from_before, |x, by: f32| x * by);
            let output = gemm(Y::default(), values, p_s.full().t(), output).wait();
            let to = o.get().tile([matrix, head, c, part.block]).of_rows(part.first, part.rows);
            out.store(output.cast::<T>().transposed(), to);
        }
        // Loaded again: in no register while outputs are computed.
        let values = Fragment::<T, DV, CHUNK, Y>::load_transposed(v_s.at(full.full()).t());
        let to_behind = Cols::from_vector(factors.for_behind(c));
        let values = values.to_f32().zip_cols(&to_behind, |x, by: f32| x * by).cast::<T>();
        let whole = factors.whole(c);
        let mut i = 0;
        while i < PARTS {
            let k = k_s.at(full.full()).part::<D>(i as u32);
            state[i] = gemm(Y::default(), values, k, state[i].map(|x| x * whole)).wait();
            i += 1;
        }
        chunks.release(full);
        c += 1;
    }
    let mut i = 0;
    while i < PARTS {
        copy(state[i], behind.get().tile([part.state, head, part.block, i as u32]));
        i += 1;
    }
    if !OUTPUTS && thread_x() == 0 && part.block == 0 {
        left.get().tile([part.state, head]).put::<1, 1>(0, 0, sum);
    }
}
