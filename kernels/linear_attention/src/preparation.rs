//! What chunks need that no other chunk has a part in: computed for all of them at a time.

use core::marker::PhantomData;

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, FragmentLayout, Fresh, Gemm, Global, GlobalMut, InPlace, Pending, RowMajor,
    Rows, Scratch, Shared, Simt, Swizzle, Threads, copy, gemm,
};

use crate::anchors::Anchors;
use crate::channels::Channels;
use crate::column_pairs::ColumnPairs;
use crate::decays::{Decays, Factors};
use crate::inverse::Inverse;
use crate::policy::{CHUNK, Prepares};
use crate::work::{Part, Work};

/// A tensor that is read to registers, and one that is written from them.
pub type Read<T, const RANK: usize> = InPlace<Global<T, RANK, RowMajor, 0>>;
pub type Written<T, const RANK: usize> = InPlace<GlobalMut<T, RANK, RowMajor, 0>>;
/// A tile of a chunk.
pub type Tile<T, const N: usize> = Scratch<Simt<8>, Shared<T, CHUNK, N, Swizzle<128>>>;
/// 16 bytes of a row of 64 columns to a thread.
type Wide = Threads<32, 8, 8>;

/// A block of columns of a part's rows.
#[inline(always)]
fn load<T: Element, L: FragmentLayout<CHUNK, N>, const N: usize>(
    from: &Read<T, 4>,
    part: &Part,
    block: u32,
) -> Fragment<T, CHUNK, N, L> {
    Fragment::load(from.get().tile([part.matrix, part.head, 0, block]).of_rows(part.first, part.rows))
}

/// Writes it.
#[inline(always)]
pub fn store<T: Element, L: FragmentLayout<CHUNK, N>, const N: usize>(
    x: Fragment<T, CHUNK, N, L>,
    to: &Written<T, 4>,
    part: &Part,
    block: u32,
) {
    copy(x, to.get().tile([part.matrix, part.head, 0, block]).of_rows(part.first, part.rows));
}

/// For each chunk of 64 rows, with decays a from its first row on and those between rows (Yang et al. 2024, "Gated linear attention", "Gated
/// delta networks"):
///
/// - `from_before` = scale Q ∘ a, `to_behind` = K ∘ what is left of the row behind the chunk, `whole` what is left of a state;
/// - `scores` = scale Q Kᵀ ∘ decays, lower triangular, \[rows, 64\];
/// - without `DELTA`, where `values` has columns, V in it;
/// - with `DELTA`, where A = β K Kᵀ ∘ decays below the diagonal: `known` = -(I + A)⁻¹ β (K ∘ a), `values` = (I + A)⁻¹ β V.
///
/// With `CHANNELS` each channel of K decays by itself. Products of decayed rows are then taken of pairs of neighbouring blocks of 32, 16, … 1
/// rows, each side decayed from or to where the blocks meet: no exponent is above 0, whatever the gates are. Where they are mild,
/// rows are decayed from or to the middle of the chunk, or of each 16 rows.
///
/// Of tensors \[batch, heads, rows, columns\]; `whole` is \[heads x chunks, DK\]. CTA (chunk, head, sequence). `L` is a layout of wide rows.
#[kernel(program = Simt<8>)]
pub fn prepare<T: Element, Z, F, L, const DK: usize, const CHANNELS: bool, const DELTA: bool>(
    mut cta: Cta<Simt<8>>,
    q: Read<T, 4>,
    k: Read<T, 4>,
    v: Read<T, 4>,
    gates: Read<f32, 4>,
    beta: Read<f32, 4>,
    from_before: Written<T, 4>,
    to_behind: Written<T, 4>,
    scores: Written<T, 4>,
    known: Written<T, 4>,
    values: Written<T, 4>,
    whole: Written<f32, 2>,
    decays: InPlace<Decays>,
    work: InPlace<Work>,
    scale: f32,
) where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
    L: FragmentLayout<CHUNK, DK>,
    Z: Prepares<T, DK> + Prepares<T, 64>,
    F: Gemm<f32, 64, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Z>,
{
    let mut q_s: Tile<T, DK> = cta.scratch();
    let mut k_s: Tile<T, DK> = cta.scratch();
    let mut keys_s: Tile<T, DK> = cta.scratch();
    let mut square_s: Tile<T, CHUNK> = cta.scratch();
    let part = work.get().part();
    if part.rows == 0 {
        return;
    }
    copy(load::<T, L, DK>(&q, &part, 0), &mut q_s);
    copy(load::<T, L, DK>(&k, &part, 0), &mut k_s);
    let (seen, mut alike);
    if CHANNELS {
        let anchors = Anchors::<DK>::new(&mut cta, load(&gates, &part, 0));
        if thread_x() < DK as u32 {
            whole.get().tile([part.slot, thread_x()]).put::<1, 1>(0, 0, anchors.whole(thread_x()));
        }
        let mut right_s: Tile<T, DK> = cta.scratch();
        let mut more_s: Option<Tile<T, DK>> = if DELTA { Some(cta.scratch()) } else { None };
        let (left_s, keys) = match &mut more_s {
            Some(left_s) => (left_s, Some(&mut keys_s)),
            None => (&mut keys_s, None),
        };
        let tiles = [&mut q_s, &mut k_s, left_s, &mut right_s];
        let (part, to) = (&part, [&from_before, &to_behind]);
        let mut channels =
            Channels::<'_, T, L, DK, DELTA> { anchors, part, tiles, keys, to, scale, wide: PhantomData };
        (seen, alike) = channels.products::<Z>(&mut cta);
    } else {
        let mut factors = Factors::new(&mut cta);
        factors.write(0, decays.get().of_rows(&part, 0), 1.0);
        cta.barrier();
        let products = gemm(Z::default(), q_s.full(), k_s.full().t(), Fresh::new()).wait();
        seen = factors.decay(0, products).map_indexed(|row, col, x| if col <= row { x } else { 0.0 });
        let products = gemm(Z::default(), k_s.full(), k_s.full().t(), Fresh::new()).wait();
        alike = factors.decay(0, products).map_indexed(|row, col, x| if col < row { x } else { 0.0 });
        let (before, behind) = (factors.of_before(0), factors.for_behind(0));
        let (before, behind) = (Rows::from_vector(before), Rows::from_vector(behind));
        let rows = |of: &Tile<T, DK>| Fragment::<T, CHUNK, DK, L>::load(of.full()).to_f32();
        let queries = rows(&q_s).zip_rows(&before, |x, by: f32| x * by * scale);
        store(queries.cast::<T>(), &from_before, &part, 0);
        let keys = rows(&k_s);
        copy(keys.zip_rows(&before, |x, by: f32| -x * by).cast::<T>(), &mut keys_s);
        store(keys.zip_rows(&behind, |x, by: f32| x * by).cast::<T>(), &to_behind, &part, 0);
        if thread_x() < DK as u32 {
            whole.get().tile([part.slot, thread_x()]).put::<1, 1>(0, 0, factors.whole(0));
        }
    }
    copy(seen.map(|x| x * scale).cast::<T>(), &mut square_s);
    store(Fragment::<T, CHUNK, CHUNK, Wide>::load(square_s.full()), &scores, &part, 0);

    if DELTA {
        let mut inverse = Inverse::new(&mut cta);
        let beta = beta.get().tile([part.matrix, part.head, 0, 0]).of_rows(part.first, part.rows);
        let beta = |row: u32| beta.element::<CHUNK, 1>(row, 0);
        alike = alike.zip_rows(&Rows::indexed(beta), |x, beta: f32| x * beta);
        let t = inverse.of::<Z, F, T>(&cta, alike).zip_cols(&Cols::indexed(beta), |x, beta: f32| x * beta);
        copy(t.cast::<T>(), &mut square_s);
        let product = gemm(Z::default(), square_s.full(), keys_s.full(), Fresh::new()).wait();
        copy(product.cast::<T>(), &mut q_s);
        store(Fragment::<T, CHUNK, DK, L>::load(q_s.full()), &known, &part, 0);
    }
    let mut values_s: Tile<T, CHUNK> = cta.scratch();
    let mut block = 0;
    while block * (CHUNK as u32) < values.get().shape()[3] {
        let mut rows = load::<T, Wide, CHUNK>(&v, &part, block);
        if DELTA {
            copy(rows, &mut values_s);
            let product = gemm(Z::default(), square_s.full(), values_s.full(), Fresh::new()).wait();
            copy(product.cast::<T>(), &mut values_s);
            rows = Fragment::load(values_s.full());
        }
        store(rows, &values, &part, block);
        block += 1;
    }
}
