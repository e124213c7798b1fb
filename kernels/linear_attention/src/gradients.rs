//! Gradients of chunks whose states are known, of all chunks at a time.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, Cta, Element, FragmentLayout, InPlace, Pending, Rows, Simt, Striped, copy, gemm, math,
};

use crate::chunk::{Chunk, Columns, Products, in_registers};
use crate::decays::{Decays, Factors};
use crate::gate_sums::GateSums;
use crate::policy::{CHUNK, Prepares};
use crate::preparation::{Read, Written};
use crate::work::Work;

/// Gradients by Q, K and V of a chunk of 64 rows with decays a from its first row on, where S is the state before it and G the gradient by the one
/// behind it (Yang et al. 2023, section 4; Dao & Gu 2024):
///
/// - dP = scale dO Vᵀ ∘ decays, lower triangular,
/// - dQ = (scale dO Sᵀ) ∘ a + dP K,
/// - dK = (V Gᵀ) ∘ what is left of the row behind the chunk + dPᵀ Q,
/// - dV = (K ∘ what is left) G + (scale Q Kᵀ ∘ decays)ᵀ dO.
///
/// The gradient by the logarithm of a row's decay is the sum over all pairs that it lies between, a row of Q at or behind it and one of K before it.
/// A row's pair with itself is in no sum, and none goes over more than a chunk: differences of such sums are exact to f32, however strong
/// decays are.
///
/// Of tensors \[batch, heads, rows, columns\]; `states`, `d_states` \[heads x chunks, 1, columns, DK\] as [`chunk_states`](crate::chunk_states()) leaves
/// them; `d_gates` \[batch, heads, rows, 1\], without rows where it is not wanted. CTA (chunk and, faster, blocks of 64 of K's columns, of which the last
/// has gradients by V and gates; head; sequence).
#[kernel(program = Simt<8>, min_ctas = 2)]
pub fn gradient<T: Element, Z>(
    mut cta: Cta<Simt<8>>,
    q: Read<T, 4>,
    k: Read<T, 4>,
    v: Read<T, 4>,
    d_o: Read<T, 4>,
    states: Read<T, 4>,
    d_states: Read<T, 4>,
    d_q: Written<T, 4>,
    d_k: Written<T, 4>,
    d_v: Written<T, 4>,
    d_gates: Written<f32, 4>,
    decays: InPlace<Decays>,
    work: InPlace<Work>,
    scale: f32,
) where
    Striped<8>: FragmentLayout<CHUNK, 64>,
    Z: Prepares<T, 64>,
{
    let mut q_s: Columns<T> = cta.scratch();
    let mut k_s: Columns<T> = cta.scratch();
    let mut v_s: Columns<T> = cta.scratch();
    let mut d_o_s: Columns<T> = cta.scratch();
    let mut state_s: Columns<T> = cta.scratch();
    let mut d_state_s: Columns<T> = cta.scratch();
    let mut p_s: Columns<T> = cta.scratch();
    let mut factors = Factors::new(&mut cta);
    let mut sums = GateSums::<Z>::new(&mut cta);
    let chunk = Chunk { part: work.get().part() };
    let part = chunk.part;
    if part.rows == 0 {
        return;
    }
    let of_head = decays.get().of_head(&part);
    factors.write(0, of_head.of_rows(&part, 0, decays.get().gates_of(&part, 0)), scale);
    cta.barrier();
    // The lower triangle's decays, with the scale: computed where it is needed, in no register between.
    let decayed = |products: Products<Z>| {
        let (row, col) = (Rows::from_vector(factors.sums(0)), Cols::from_vector(factors.sums(0)));
        let with_row = products.map(|x| (x, 0.0)).zip_rows(&row, |(x, _), row: f32| (x, row));
        let by = |row, col| math::ex2(math::min(row - col, 0.0)) * scale;
        let all = with_row.zip_cols(&col, |(x, row), col: f32| (x * by(row, col), row)).map(|(x, _)| x);
        all.map_indexed(|row, col, x| if col <= row { x } else { 0.0 })
    };
    let before = |x: Products<Z>| x.zip_rows(&Rows::from_vector(factors.of_before(0)), |x, by: f32| x * by);
    let left = |x: Products<Z>| x.zip_rows(&Rows::from_vector(factors.for_behind(0)), |x, by: f32| x * by);

    let mut d_scores = Products::<Z>::zero();
    if part.block < Chunk::blocks(&k) {
        let (mut of_q, mut of_k) = (Products::<Z>::zero(), Products::<Z>::zero());
        let mut columns = 0;
        while columns < Chunk::blocks(&v) {
            // All on their way at a time.
            let loaded = [
                chunk.load(&v, columns),
                chunk.load(&d_o, columns),
                chunk.state(&states, columns, part.block),
                chunk.state(&d_states, columns, part.block),
            ];
            copy(loaded[0], &mut v_s);
            copy(loaded[1], &mut d_o_s);
            copy(loaded[2], &mut state_s);
            copy(loaded[3], &mut d_state_s);
            d_scores = gemm(Z::default(), d_o_s.full(), v_s.full().t(), d_scores).wait();
            of_q = gemm(Z::default(), d_o_s.full(), state_s.full(), of_q).wait();
            of_k = gemm(Z::default(), v_s.full(), d_state_s.full(), of_k).wait();
            columns += 1;
        }
        let loaded = [chunk.load(&q, part.block), chunk.load(&k, part.block)];
        copy(loaded[0], &mut q_s);
        copy(loaded[1], &mut k_s);
        copy(decayed(d_scores).cast::<T>(), &mut p_s);
        chunk.store(gemm(Z::default(), p_s.full(), k_s.full(), before(of_q)).wait(), &d_q, part.block);
        chunk.store(gemm(Z::default(), p_s.full().t(), q_s.full(), left(of_k)).wait(), &d_k, part.block);
        return;
    }

    let wanted = d_gates.get().rows() > 0;
    let mut seen = Products::<Z>::zero();
    let mut block = 0;
    while block < Chunk::blocks(&k) {
        let loaded = [chunk.load(&q, block), chunk.load(&k, block)];
        copy(loaded[0], &mut q_s);
        copy(loaded[1], &mut k_s);
        seen = gemm(Z::default(), q_s.full(), k_s.full().t(), seen).wait();
        block += 1;
    }
    copy(decayed(seen).cast::<T>(), &mut p_s);
    // Of each row what it has of those before the chunk, less what those behind it have of the row; and what all have of those before it.
    let mut rows = Rows::<f32, CHUNK, CHUNK, Z>::splat(0.0);
    let mut first = 0.0;
    let add = |a: f32, b: f32| a + b;
    let mut columns = 0;
    while columns < Chunk::blocks(&v) {
        let (d_outputs, values) = (chunk.load(&d_o, columns), wanted.then(|| chunk.load(&v, columns)));
        copy(d_outputs, &mut d_o_s);
        if let Some(values) = values {
            copy(values, &mut v_s);
            d_scores = gemm(Z::default(), d_o_s.full(), v_s.full().t(), d_scores).wait();
        }
        let mut of_v = Products::<Z>::zero();
        let mut block = 0;
        while block < Chunk::blocks(&k) {
            let loaded = [chunk.load(&k, block), chunk.state(&d_states, columns, block)];
            copy(loaded[0], &mut k_s);
            copy(loaded[1], &mut d_state_s);
            of_v = gemm(Z::default(), k_s.full(), d_state_s.full().t(), of_v).wait();
            block += 1;
        }
        let of_v = left(of_v);
        if wanted {
            let by_k = of_v.zip(&in_registers(&v_s), |x, y| x * y).fold_rows(0.0, add);
            rows = rows.zip(&by_k, |x, by_k| x - by_k);
        }
        chunk.store(gemm(Z::default(), p_s.full().t(), d_o_s.full(), of_v).wait(), &d_v, columns);

        let mut output = Products::<Z>::zero();
        let mut block = 0;
        while wanted && block < Chunk::blocks(&k) {
            let loaded = [chunk.load(&q, block), chunk.state(&states, columns, block)];
            copy(loaded[0], &mut q_s);
            copy(loaded[1], &mut state_s);
            copy(chunk.state(&d_states, columns, block), &mut d_state_s);
            output = gemm(Z::default(), q_s.full(), state_s.full().t(), output).wait();
            let products = in_registers::<Z, T>(&state_s).zip(&in_registers(&d_state_s), |x, y| x * y);
            first += sum(&products.fold_rows(0.0, add)) * factors.whole(0);
            block += 1;
        }
        if wanted {
            let by_q = before(output).zip(&in_registers(&d_o_s), |x, y| x * y).fold_rows(0.0, add);
            first += sum(&by_q);
            rows = rows.zip(&by_q, add);
        }
        columns += 1;
    }
    if wanted {
        let pairs = d_scores.zip(&in_registers(&p_s), |x, y| x * y);
        let pairs = pairs.map_indexed(|row, col, x| if col < row { x } else { 0.0 });
        let gradients = sums.of(&cta, &pairs, rows, first);
        let to = d_gates.get().tile(chunk.place(0)).of_rows(part.first, part.rows);
        let mut i = 0;
        while thread_x() < 32 && i < 2 {
            let row = 2 * thread_x() + i;
            // What is above 0 counts as 0, whatever it is.
            let counts =
                row < part.rows && decays.get().of_row([part.matrix, part.head], part.first + row) <= 0.0;
            to.put::<CHUNK, 1>(row, 0, if counts { gradients[i as usize] } else { 0.0 });
            i += 1;
        }
    }
}

/// The sum of what a thread has of rows.
#[inline(always)]
fn sum<Z: FragmentLayout<CHUNK, CHUNK>>(rows: &Rows<f32, CHUNK, CHUNK, Z>) -> f32 {
    let (mut sum, mut r) = (0.0, 0);
    while r < Z::Rows::<f32>::LEN {
        sum += rows.regs.get(r);
        r += 1;
    }
    sum
}
