//! What chunks need that no other chunk has a part in: computed for all of them at a time.

use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{shared, warp};
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, FragmentLayout, Fresh, Gemm, Global, GlobalMut, InPlace, Pending, RowMajor,
    Rows, Scratch, Shared, Simt, Swizzle, copy, gemm, math,
};

use crate::anchors::{Anchors, Sums};
use crate::column_pairs::ColumnPairs;
use crate::decays::{Decays, Factors};
use crate::inverse::Inverse;
use crate::policy::{CHUNK, Prepares};
use crate::work::Work;

/// A tensor that is read to registers, and one that is written from them.
pub(crate) type Read<T, const RANK: usize> = InPlace<Global<T, RANK, RowMajor, 0>>;
pub(crate) type Written<T, const RANK: usize> = InPlace<GlobalMut<T, RANK, RowMajor, 0>>;
/// A tile of a chunk.
pub(crate) type Tile<T, const N: usize> = Scratch<Simt<8>, Shared<T, CHUNK, N, Swizzle<128>>>;

/// For each chunk of 64 rows, with decays a from its first row on and those between rows (Yang et al. 2024, "Gated linear attention", "Gated
/// delta networks"):
///
/// - `from_before` = scale Q ∘ a, `to_behind` = K ∘ what is left of the row behind the chunk, `whole` what is left of a state;
/// - `scores` = scale Q Kᵀ ∘ decays, lower triangular, \[rows, 64\];
/// - with `DELTA`, where A = β K Kᵀ ∘ decays below the diagonal: `known` = (I + A)⁻¹ β (K ∘ a), `values` = (I + A)⁻¹ β V.
///
/// With `CHANNELS` each channel of K decays by itself. Products of decayed rows are then taken of pairs of neighbouring blocks of 32, 16, … 1
/// rows, each side decayed from or to where the blocks meet: no exponent is above 0, whatever the gates are. Where they are mild,
/// one product of rows decayed from or to the middle of each 16 takes the place of those of 8 and fewer: no exponent is above 4.
///
/// Of tensors \[batch, heads, rows, columns\]; `whole` is \[heads x chunks, DK\]. CTA (chunk, head, sequence).
#[kernel(program = Simt<8>)]
pub fn prepare<T: Element, Z, F, const DK: usize, const CHANNELS: bool, const DELTA: bool>(
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
    Z: Prepares<T, DK> + Prepares<T, 64>,
    F: Gemm<f32, 64, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Z>,
{
    let mut q_s: Tile<T, DK> = cta.scratch();
    let mut k_s: Tile<T, DK> = cta.scratch();
    let mut left_s: Tile<T, DK> = cta.scratch();
    let mut right_s: Tile<T, DK> = cta.scratch();
    let part = work.get().part();
    if part.rows == 0 {
        return;
    }
    let (matrix, head) = (part.matrix, part.head);
    let place = [matrix, head, 0, 0];
    let load = |from: Global<T, 4, RowMajor, 0>| {
        Fragment::<T, CHUNK, DK, ColumnPairs>::load(from.tile(place).of_rows(part.first, part.rows))
    };
    copy(load(q.get()), &mut q_s);
    copy(load(k.get()), &mut k_s);
    let rows = |of: &Tile<T, DK>| Fragment::<T, CHUNK, DK, ColumnPairs>::load(of.full()).to_f32();
    let store = |x: Fragment<f32, CHUNK, DK, ColumnPairs>, to: &Written<T, 4>| {
        copy(x.cast::<T>(), to.get().tile(place).of_rows(part.first, part.rows))
    };

    let mut seen = gemm(Z::default(), q_s.full(), k_s.full().t(), Fresh::new()).wait();
    let mut alike = Fragment::<f32, CHUNK, CHUNK, Z>::zero();
    if CHANNELS {
        let gates = Fragment::load(gates.get().tile(place).of_rows(part.first, part.rows));
        let anchors = Anchors::<DK>::new(&mut cta, gates);
        let from_first = anchors.powers::<CHUNK>(Sums::FromFirst);
        store(rows(&q_s).zip(&from_first, |x, by| x * by * scale), &from_before);
        let to_last = anchors.powers::<CHUNK>(Sums::ToLast);
        store(rows(&k_s).zip(&to_last, |x, by| x * by), &to_behind);
        if thread_x() < DK as u32 {
            whole.get().tile([part.slot, thread_x()]).put::<1, 1>(0, 0, anchors.whole(thread_x()));
        }
        // By the delta rule there are no registers for both ways.
        let mild = !DELTA && {
            let largest = largest(&rows(&q_s), largest(&rows(&k_s), 0.0));
            is_mild(&mut cta, largest, &anchors)
        };
        seen = seen.map_indexed(|row, col, x| if row == col { x } else { 0.0 });
        let tiles = [&mut q_s, &mut k_s, &mut left_s, &mut right_s];
        let mut pairs = Pairs::<'_, T, DK, DELTA> { anchors: &anchors, tiles };
        (seen, alike) = pairs.add::<Z, 32>(seen, alike);
        (seen, alike) = pairs.add::<Z, 16>(seen, alike);
        if mild {
            seen = pairs.add_diagonal::<Z>(seen);
        } else {
            (seen, alike) = pairs.add::<Z, 8>(seen, alike);
            (seen, alike) = pairs.add::<Z, 4>(seen, alike);
            (seen, alike) = pairs.add::<Z, 2>(seen, alike);
            (seen, alike) = pairs.add::<Z, 1>(seen, alike);
        }
        if DELTA {
            copy(rows(&k_s).zip(&from_first, |x, by| x * by).cast::<T>(), &mut left_s);
        }
    } else {
        let mut factors = Factors::new(&mut cta);
        factors.write(0, decays.get().of_rows(&part, 0), 1.0);
        cta.barrier();
        let (row, col) = (Rows::from_vector(factors.sums(0)), Cols::from_vector(factors.sums(0)));
        let decay = |x: Fragment<f32, CHUNK, CHUNK, Z>| {
            let with_row = x.map(|x| (x, 0.0)).zip_rows(&row, |(x, _), row| (x, row));
            let by = |row, col| math::ex2(math::min(row - col, 0.0));
            with_row.zip_cols(&col, |(x, row), col: f32| (x * by(row, col), row)).map(|(x, _)| x)
        };
        seen = decay(seen).map_indexed(|row, col, x| if col <= row { x } else { 0.0 });
        if DELTA {
            let products = gemm(Z::default(), k_s.full(), k_s.full().t(), Fresh::new()).wait();
            alike = decay(products).map_indexed(|row, col, x| if col < row { x } else { 0.0 });
        }
        let (before, behind) = (factors.of_before(0), factors.for_behind(0));
        let (before, behind) = (Rows::from_vector(before), Rows::from_vector(behind));
        store(rows(&q_s).zip_rows(&before, |x, by: f32| x * by * scale), &from_before);
        store(rows(&k_s).zip_rows(&behind, |x, by: f32| x * by), &to_behind);
        if thread_x() < DK as u32 {
            whole.get().tile([part.slot, thread_x()]).put::<1, 1>(0, 0, factors.whole(0));
        }
        if DELTA {
            copy(rows(&k_s).zip_rows(&before, |x, by: f32| x * by).cast::<T>(), &mut left_s);
        }
    }
    copy(seen.map(|x| x * scale).cast::<T>(), scores.get().tile(place).of_rows(part.first, part.rows));
    if !DELTA {
        return;
    }

    let mut inverse = Inverse::new(&mut cta);
    let mut inverse_s: Tile<T, CHUNK> = cta.scratch();
    let mut values_s: Tile<T, CHUNK> = cta.scratch();
    let beta = |row: u32| beta.get().tile(place).of_rows(part.first, part.rows).element::<CHUNK, 1>(row, 0);
    let alike = alike.zip_rows(&Rows::indexed(beta), |x, beta: f32| x * beta);
    let t = inverse.of::<Z, F, T>(&cta, alike);
    copy(t.zip_cols(&Cols::indexed(beta), |x, beta: f32| x * beta).cast::<T>(), &mut inverse_s);
    let product = gemm(Z::default(), inverse_s.full(), left_s.full(), Fresh::new()).wait();
    copy(product.cast::<T>(), known.get().tile(place).of_rows(part.first, part.rows));
    let mut block = 0;
    while block * (CHUNK as u32) < v.get().cols() {
        let place = [matrix, head, 0, block];
        let from = v.get().tile(place).of_rows(part.first, part.rows);
        copy(Fragment::<T, CHUNK, CHUNK, ColumnPairs>::load(from), &mut values_s);
        let product = gemm(Z::default(), inverse_s.full(), values_s.full(), Fresh::new()).wait();
        copy(product.cast::<T>(), values.get().tile(place).of_rows(part.first, part.rows));
        block += 1;
    }
}

/// Products of rows of neighbouring blocks.
struct Pairs<'a, T: Element, const DK: usize, const DELTA: bool>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    anchors: &'a Anchors<DK>,
    /// Q, K, the left and the right operand.
    tiles: [&'a mut Tile<T, DK>; 4],
}

impl<T: Element, const DK: usize, const DELTA: bool> Pairs<'_, T, DK, DELTA>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    /// Adds the products of rows of Q, and of K where `DELTA`, in the second of two blocks of `M` with rows of K in the first.
    #[inline(always)]
    fn add<Z: Prepares<T, DK>, const M: usize>(
        &mut self,
        seen: Fragment<f32, CHUNK, CHUNK, Z>,
        alike: Fragment<f32, CHUNK, CHUNK, Z>,
    ) -> (Fragment<f32, CHUNK, CHUNK, Z>, Fragment<f32, CHUNK, CHUNK, Z>) {
        let [q_s, k_s, left_s, right_s] = &mut self.tiles;
        let powers = self.anchors.powers::<M>(Sums::Pairs);
        let decayed = |of: &Tile<T, DK>, second: bool| {
            let rows = Fragment::<T, CHUNK, DK, ColumnPairs>::load(of.full()).to_f32();
            let side = |row: u32| (row / M as u32 % 2 == 1) == second;
            let rows = rows.zip(&powers, |x, by| x * by);
            rows.map_indexed(|row, _, x| if side(row) { x } else { 0.0 }).cast::<T>()
        };
        let add = |to: Fragment<f32, CHUNK, CHUNK, Z>, products: Fragment<f32, CHUNK, CHUNK, Z>| {
            let pair = |row: u32, col: u32| row / (2 * M as u32) == col / (2 * M as u32);
            to.zip(&products.map_indexed(|row, col, x| if pair(row, col) { x } else { 0.0 }), |to, x| to + x)
        };
        copy(decayed(k_s, false), &mut **right_s);
        copy(decayed(q_s, true), &mut **left_s);
        let products = gemm(Z::default(), left_s.full(), right_s.full().t(), Fresh::new()).wait();
        let seen = add(seen, products);
        if !DELTA {
            return (seen, alike);
        }
        copy(decayed(k_s, true), &mut **left_s);
        let products = gemm(Z::default(), left_s.full(), right_s.full().t(), Fresh::new()).wait();
        (seen, add(alike, products))
    }
}

impl<T: Element, const DK: usize, const DELTA: bool> Pairs<'_, T, DK, DELTA>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    /// Adds the products of rows of Q with those of K before them in each 16 rows.
    #[inline(always)]
    fn add_diagonal<Z: Prepares<T, DK>>(
        &mut self,
        seen: Fragment<f32, CHUNK, CHUNK, Z>,
    ) -> Fragment<f32, CHUNK, CHUNK, Z> {
        let [q_s, k_s, left_s, right_s] = &mut self.tiles;
        let exponents = self.anchors.of_middle();
        let decayed = |of: &Tile<T, DK>, by: f32| {
            let rows = Fragment::<T, CHUNK, DK, ColumnPairs>::load(of.full()).to_f32();
            rows.zip(&exponents, |x, exponent| x * math::ex2(by * exponent)).cast::<T>()
        };
        copy(decayed(k_s, -1.0), &mut **right_s);
        copy(decayed(q_s, 1.0), &mut **left_s);
        let products = gemm(Z::default(), left_s.full(), right_s.full().t(), Fresh::new()).wait();
        let inside = |row: u32, col: u32| row / 16 == col / 16 && col < row;
        let products = products.map_indexed(|row, col, x| if inside(row, col) { x } else { 0.0 });
        seen.zip(&products, |to, x| to + x)
    }
}

/// The largest of a fragment's elements and `x`, without their signs.
#[inline(always)]
pub(crate) fn largest<const DK: usize>(of: &Fragment<f32, CHUNK, DK, ColumnPairs>, x: f32) -> f32
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    let mut x = x;
    let mut i = 0;
    while i < <<ColumnPairs as FragmentLayout<CHUNK, DK>>::Regs<f32> as Registers<f32>>::LEN {
        x = math::max(x, math::max(of.regs.get(i), -of.regs.get(i)));
        i += 1;
    }
    x
}

/// The largest exponent from the middle of 16 rows, and by how much elements of f16 leave room for it.
const MILD: f32 = 4.0;

/// Whether no row is decayed by more than 2^-[`MILD`] from the middle of its 16 rows, and the largest element has room for as much. The same
/// in all threads.
#[inline(always)]
pub(crate) fn is_mild<const DK: usize>(cta: &mut Cta<Simt<8>>, element: f32, anchors: &Anchors<DK>) -> bool
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    let address = cta.reserve(8 * 4, 16);
    // 65504 is the largest f16.
    let mut worst = largest(&anchors.of_middle(), element * (MILD * 16.0 / 65504.0));
    let mut lane = 1;
    while lane < 32 {
        // SAFETY: all lanes execute it.
        worst = math::max(worst, unsafe { warp::shfl_bfly_f32(worst, lane) });
        lane *= 2;
    }
    // SAFETY: a value for each warp, in the memory that was just taken.
    unsafe {
        if thread_x().is_multiple_of(32) {
            shared::store_f32(address + thread_x() / 32 * 4, worst);
        }
        cta.barrier();
        let mut warp = 0;
        while warp < 8 {
            worst = math::max(worst, shared::load_f32(address + warp * 4));
            warp += 1;
        }
    }
    worst <= MILD
}
