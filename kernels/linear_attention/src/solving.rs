//! The triangles of chunks by the delta rule, where all channels of a head decay alike: solved for all chunks at a time.

use tilewright_device::arch::shared;
use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, FragmentLayout, Fresh, Gemm, InPlace, Pending, RowVector, Rows, Simt,
    Swizzle, copy, gemm,
};

use crate::decays::{Decays, Factors};
use crate::inverse::Inverse;
use crate::policy::{CHUNK, Prepares};
use crate::preparation::{Read, Tile, Wide, Written, load, store};
use crate::work::Work;

/// For each chunk of 64 rows with decays a from its first row on, where A = β K Kᵀ ∘ decays below the diagonal (Yang et al. 2024, "Gated delta
/// networks"): `known` = -(I + A)⁻¹ β (K ∘ a), and `values` = (I + A)⁻¹ β V. What [`retention`](crate::retention()) writes to a state S before the
/// chunk is then `values` + `known` S.
///
/// Of tensors \[batch, heads, rows, columns\]. CTA (chunk, head, sequence). `L` is a layout of wide rows.
#[kernel(program = Simt<8>, min_ctas = if DK <= 128 { 3 } else { 2 })]
pub fn solve<T: Element, Z, F, L, const DK: usize>(
    mut cta: Cta<Simt<8>>,
    k: Read<T, 4>,
    v: Read<T, 4>,
    beta: Read<f32, 4>,
    known: Written<T, 4>,
    values: Written<T, 4>,
    decays: InPlace<Decays>,
    work: InPlace<Work>,
) where
    L: FragmentLayout<CHUNK, DK>,
    Z: Prepares<T, DK> + Prepares<T, 64>,
    F: Gemm<f32, 32, 32, 32, A = Swizzle<128>, B = Swizzle<128>>,
{
    let mut k_s: Tile<T, DK> = cta.scratch();
    let mut v_s: Tile<T, CHUNK> = cta.scratch();
    let mut for_values_s: Tile<T, CHUNK> = cta.scratch();
    let mut for_keys_s: Tile<T, CHUNK> = cta.scratch();
    let mut inverse = Inverse::new(&mut cta);
    let mut factors = Factors::new(&mut cta);
    let betas = cta.reserve(CHUNK as u32 * 4, 16);
    let part = work.get().part();
    if part.rows == 0 {
        return;
    }
    // All that is read first is on its way at a time.
    let (keys, first) = (load::<T, L, DK>(&k, &part, 0), load::<T, Wide, CHUNK>(&v, &part, 0));
    let (of_head, gates) = (decays.get().of_head(&part), decays.get().gates_of(&part, 0));
    if thread_x() < CHUNK as u32 {
        let beta = beta.get().tile([part.matrix, part.head, 0, 0]).of_rows(part.first, part.rows);
        // SAFETY: a value for each of these threads, in the memory that was just taken.
        unsafe { shared::store_f32(betas + thread_x() * 4, beta.element::<CHUNK, 1>(thread_x(), 0)) };
    }
    factors.write(0, of_head.of_rows(&part, 0, gates), 1.0);
    copy(keys, &mut k_s);
    copy(first, &mut v_s);
    cta.barrier();
    // SAFETY: written in front of the barrier, and not again.
    let betas = || unsafe { RowVector::<f32, CHUNK>::at(betas) };

    let products = gemm(Z::default(), k_s.full(), k_s.full().t(), Fresh::new()).wait();
    let a = factors.decay(0, products).zip_rows(&Rows::from_vector(betas()), |x, beta: f32| x * beta);
    let a = a.map_indexed(|row, col, x| if col < row { x } else { 0.0 });
    let t = inverse.of::<Z, F, T>(&cta, a).zip_cols(&Cols::from_vector(betas()), |x, beta: f32| x * beta);
    copy(t.cast::<T>(), &mut for_values_s);
    let of_before = Cols::from_vector(factors.of_before(0));
    copy(t.zip_cols(&of_before, |x, by: f32| -x * by).cast::<T>(), &mut for_keys_s);
    let mut block = 0;
    while block * (CHUNK as u32) < values.get().shape()[3] {
        let next = load::<T, Wide, CHUNK>(&v, &part, block + 1);
        let product = gemm(Z::default(), for_values_s.full(), v_s.full(), Fresh::new()).wait();
        copy(product.cast::<T>(), &mut v_s);
        store(Fragment::<T, CHUNK, CHUNK, Wide>::load(v_s.full()), &values, &part, block);
        copy(next, &mut v_s);
        block += 1;
    }
    block = 0;
    while block < (DK / CHUNK) as u32 {
        let keys = k_s.full().part::<CHUNK>(block);
        let product = gemm(Z::default(), for_keys_s.full(), keys, Fresh::new()).wait();
        copy(product.cast::<T>(), &mut v_s);
        store(Fragment::<T, CHUNK, CHUNK, Wide>::load(v_s.full()), &known, &part, block);
        block += 1;
    }
}
