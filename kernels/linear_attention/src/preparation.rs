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
use crate::inverse::Inverse;
use crate::policy::{CHUNK, Prepares};
use crate::work::{Part, Work};

/// A tensor that is read to registers, and one that is written from them.
pub type Read<T, const RANK: usize> = InPlace<Global<T, RANK, RowMajor, 0>>;
pub type Written<T, const RANK: usize> = InPlace<GlobalMut<T, RANK, RowMajor, 0>>;
/// A tile of a chunk.
pub type Tile<T, const N: usize> = Scratch<Simt<8>, Shared<T, CHUNK, N, Swizzle<128>>>;
/// 16 bytes of a row of 64 columns to a thread.
pub type Wide = Threads<32, 8, 8>;

/// A block of columns of a part's rows.
#[inline(always)]
pub fn load<T: Element, L: FragmentLayout<CHUNK, N>, const N: usize>(
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

/// For each chunk of 64 rows whose channels of K decay by themselves, with decays a from its first row on and those between rows (Yang et al. 2023;
/// with `DELTA` Yang et al. 2024, "Gated delta networks"):
///
/// - `from_before` = scale Q ∘ a, `to_behind` = K ∘ what is left of the row behind the chunk, `whole` what is left of a state;
/// - `scores` = scale Q Kᵀ ∘ decays, lower triangular, \[rows, 64\];
/// - without `DELTA`, where `values` has columns, V in it;
/// - with `DELTA`, where A = β K Kᵀ ∘ decays below the diagonal: `known` = -(I + A)⁻¹ β (K ∘ a), `values` = (I + A)⁻¹ β V.
///
/// Products of decayed rows are taken of pairs of neighbouring blocks of 32, 16, … 1
/// rows, each side decayed from or to where the blocks meet: no exponent is above 0, whatever the gates are. Where they are mild,
/// rows are decayed from or to the middle of the chunk, or of each 16 rows.
///
/// Of tensors \[batch, heads, rows, columns\]; `whole` is \[heads x chunks, DK\]. CTA (chunk, head, sequence). `L` is a layout of wide rows.
#[kernel(program = Simt<8>, min_ctas = if DK <= 128 && !DELTA { 2 } else { 1 })]
pub fn prepare<T: Element, Z, F, L, const DK: usize, const DELTA: bool>(
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
    work: InPlace<Work>,
    scale: f32,
) where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
    L: FragmentLayout<CHUNK, DK>,
    Z: Prepares<T, DK> + Prepares<T, 64>,
    F: Gemm<f32, 32, 32, 32, A = Swizzle<128>, B = Swizzle<128>>,
{
    let mut q_s: Tile<T, DK> = cta.scratch();
    let mut k_s: Tile<T, DK> = cta.scratch();
    let mut left_s: Tile<T, DK> = cta.scratch();
    let mut right_s: Tile<T, DK> = cta.scratch();
    let mut keys_s: Option<Tile<T, DK>> = if DELTA { Some(cta.scratch()) } else { None };
    let mut square_s: Tile<T, CHUNK> = cta.scratch();
    let mut values_s: Option<Tile<T, CHUNK>> = if DELTA { Some(cta.scratch()) } else { None };
    let mut inverse = if DELTA { Some(Inverse::new(&mut cta)) } else { None };
    let part = work.get().part();
    if part.rows == 0 {
        return;
    }
    copy(load::<T, L, DK>(&q, &part, 0), &mut q_s);
    copy(load::<T, L, DK>(&k, &part, 0), &mut k_s);
    let anchors = Anchors::<DK>::new(&mut cta, load(&gates, &part, 0));
    if thread_x() < DK as u32 {
        whole.get().tile([part.slot, thread_x()]).put::<1, 1>(0, 0, anchors.whole(thread_x()));
    }
    let tiles = [&mut q_s, &mut k_s, &mut left_s, &mut right_s];
    let (keys, to) = (keys_s.as_mut(), [&from_before, &to_behind]);
    let mut channels =
        Channels::<'_, T, L, DK, DELTA> { anchors, part: &part, tiles, keys, to, scale, wide: PhantomData };
    let (seen, mut alike) = channels.products::<Z>(&mut cta);
    copy(seen.map(|x| x * scale).cast::<T>(), &mut square_s);
    store(Fragment::<T, CHUNK, CHUNK, Wide>::load(square_s.full()), &scores, &part, 0);

    if let (Some(keys_s), Some(inverse)) = (&keys_s, &mut inverse) {
        let beta = beta.get().tile([part.matrix, part.head, 0, 0]).of_rows(part.first, part.rows);
        let beta = |row: u32| beta.element::<CHUNK, 1>(row, 0);
        alike = alike.zip_rows(&Rows::indexed(beta), |x, beta: f32| x * beta);
        let t = inverse.of::<Z, F, T>(&cta, alike).zip_cols(&Cols::indexed(beta), |x, beta: f32| x * beta);
        copy(t.cast::<T>(), &mut square_s);
        let product = gemm(Z::default(), square_s.full(), keys_s.full(), Fresh::new()).wait();
        copy(product.cast::<T>(), &mut q_s);
        store(Fragment::<T, CHUNK, DK, L>::load(q_s.full()), &known, &part, 0);
    }
    let mut block = 0;
    while block * (CHUNK as u32) < values.get().shape()[3] {
        let mut rows = load::<T, Wide, CHUNK>(&v, &part, block);
        if let Some(values_s) = &mut values_s {
            copy(rows, &mut *values_s);
            let product = gemm(Z::default(), square_s.full(), values_s.full(), Fresh::new()).wait();
            copy(product.cast::<T>(), &mut *values_s);
            rows = Fragment::load(values_s.full());
        }
        store(rows, &values, &part, block);
        block += 1;
    }
}
