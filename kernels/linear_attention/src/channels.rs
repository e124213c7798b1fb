//! A chunk's products of rows that each channel decays by itself.

use core::marker::PhantomData;

use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{shared, warp};
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Fresh, Pending, Simt, copy, gemm, math,
};

use crate::anchors::{Anchors, Sums};
use crate::column_pairs::ColumnPairs;
use crate::policy::{CHUNK, Prepares};
use crate::preparation::{Tile, Written, store};
use crate::work::Part;

/// What makes the products of a chunk's rows, and the decayed rows.
///
/// (qᵢ · kⱼ) aᵢ / aⱼ is a product of qᵢ, decayed from an anchor's row on, and of kⱼ, decayed to there. Where nothing is decayed by more from the
/// middle of the chunk than elements have room for, one product has that as its anchor; else there are [levels](Self::by_levels).
pub struct Channels<'a, T: Element, L, const DK: usize, const DELTA: bool>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    pub anchors: Anchors<DK>,
    pub part: &'a Part,
    /// Q, K, the left and the right operand.
    pub tiles: [&'a mut Tile<T, DK>; 4],
    /// For -K ∘ a, by the delta rule.
    pub keys: Option<&'a mut Tile<T, DK>>,
    /// For scale Q ∘ a, and K ∘ what is left of it behind the chunk.
    pub to: [&'a Written<T, 4>; 2],
    pub scale: f32,
    /// How they are written.
    pub wide: PhantomData<L>,
}

/// The products of rows of Q, and by the delta rule of K, with those of K before them, decayed.
type Products<Z> = (Fragment<f32, CHUNK, CHUNK, Z>, Fragment<f32, CHUNK, CHUNK, Z>);
/// Rows of a chunk.
type Chunk<const DK: usize> = Fragment<f32, CHUNK, DK, ColumnPairs>;

#[inline(always)]
fn rows<T: Element, const DK: usize>(of: &Tile<T, DK>) -> Chunk<DK>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    Fragment::<T, CHUNK, DK, ColumnPairs>::load(of.full()).to_f32()
}

/// Writes rows, through a tile: where they are computed a thread has two neighbours of a row.
#[inline(always)]
fn write<T: Element, L: FragmentLayout<CHUNK, DK>, const DK: usize>(
    rows: Chunk<DK>,
    through: &mut Tile<T, DK>,
    to: &Written<T, 4>,
    part: &Part,
) where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    copy(rows.cast::<T>(), &mut *through);
    store(Fragment::<T, CHUNK, DK, L>::load(through.full()), to, part, 0);
}

/// Where it is on or below the diagonal.
#[inline(always)]
fn below<Z: FragmentLayout<CHUNK, CHUNK>>(
    x: Fragment<f32, CHUNK, CHUNK, Z>,
) -> Fragment<f32, CHUNK, CHUNK, Z> {
    x.map_indexed(|row, col, x| if col <= row { x } else { 0.0 })
}

impl<T: Element, L: FragmentLayout<CHUNK, DK>, const DK: usize, const DELTA: bool>
    Channels<'_, T, L, DK, DELTA>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    /// The products, on and below the diagonal, and by the delta rule those of K below it; and writes the decayed rows.
    #[inline(always)]
    pub fn products<Z: Prepares<T, DK>>(&mut self, cta: &mut Cta<Simt<8>>) -> Products<Z> {
        let [q_s, k_s, ..] = &self.tiles;
        let element = largest(&rows(q_s), largest(&rows(k_s), 0.0));
        // No row's exponent from the middle of the chunk is beyond what its half has in all. Of wider rows there are no registers for all ways.
        let [first, second] = self.anchors.halves();
        let of_column = |i| math::max(-first.regs.get(i), -second.regs.get(i));
        if DK <= 128 && is_mild::<T>(cta, math::max(of_column(0), of_column(1)), element) {
            return self.at_once();
        }
        let mild = is_mild::<T>(cta, largest(&self.anchors.of_middle::<8>(), 0.0), element);
        self.by_levels(mild)
    }

    /// With the middle of the chunk as the anchor.
    #[inline(always)]
    fn at_once<Z: Prepares<T, DK>>(&mut self) -> Products<Z> {
        let [q_s, k_s, left_s, right_s] = &mut self.tiles;
        let exponents = self.anchors.of_middle::<32>();
        let [first, second] = self.anchors.halves().map(|half| half.map(math::ex2));
        let keys = rows(k_s) * exponents.map(|x| math::ex2(-x));
        copy(keys.cast::<T>(), &mut **right_s);
        let behind = keys.zip_cols(&second, |x, by: f32| x * by);
        write::<T, L, DK>(behind, left_s, self.to[1], self.part);
        let from_middle = exponents.map(math::ex2);
        let queries = rows(q_s) * from_middle;
        copy(queries.cast::<T>(), &mut **left_s);
        let before = queries.zip_cols(&first, |x, by: f32| x * by).map(|x| x * self.scale);
        write::<T, L, DK>(before, q_s, self.to[0], self.part);
        let seen = gemm(Z::default(), left_s.full(), right_s.full().t(), Fresh::new()).wait();
        let Some(keys_s) = &mut self.keys else { return (below(seen), Fragment::zero()) };
        let keys = rows(k_s) * from_middle;
        copy(keys.cast::<T>(), &mut **left_s);
        copy(keys.zip_cols(&first, |x, by: f32| -x * by).cast::<T>(), &mut **keys_s);
        let alike = gemm(Z::default(), left_s.full(), right_s.full().t(), Fresh::new()).wait();
        (below(seen), alike.map_indexed(|row, col, x| if col < row { x } else { 0.0 }))
    }

    /// Of pairs of neighbouring blocks of 32, 16, … 1 rows, where they meet as the anchor: no exponent is above 0, whatever the gates are. Where they are
    /// `mild` the middle of each 16 rows takes the place of those of 8 and fewer.
    #[inline(always)]
    fn by_levels<Z: Prepares<T, DK>>(&mut self, mild: bool) -> Products<Z> {
        let [q_s, k_s, left_s, right_s] = &mut self.tiles;
        let from_first = self.anchors.powers::<CHUNK>(Sums::FromFirst);
        let queries = (rows(q_s) * from_first).map(|x| x * self.scale);
        write::<T, L, DK>(queries, left_s, self.to[0], self.part);
        if let Some(keys_s) = &mut self.keys {
            copy((rows(k_s) * from_first).map(|x| -x).cast::<T>(), &mut **keys_s);
        }
        let keys = rows(k_s) * self.anchors.powers::<CHUNK>(Sums::ToLast);
        write::<T, L, DK>(keys, right_s, self.to[1], self.part);
        let seen = gemm(Z::default(), q_s.full(), k_s.full().t(), Fresh::new()).wait();
        let seen = seen.map_indexed(|row, col, x| if row == col { x } else { 0.0 });
        let (mut products, mut m) = ((seen, Fragment::zero()), CHUNK as u32 / 2);
        while m >= if mild { 16 } else { 1 } {
            products = self.add(m, products);
            m /= 2;
        }
        if mild { self.add_middles::<Z>(products) } else { products }
    }

    /// Adds the products of rows in the second of two blocks of `m` with rows of K in the first.
    #[inline(always)]
    fn add<Z: Prepares<T, DK>>(&mut self, m: u32, (seen, alike): Products<Z>) -> Products<Z> {
        let [q_s, k_s, left_s, right_s] = &mut self.tiles;
        let (powers, blocks) = (self.anchors.of_blocks(m), !(2 * m - 1));
        let decayed = |of: &Tile<T, DK>, second: bool| {
            let side = |row: u32| (row & m > 0) == second;
            (rows(of) * powers).map_indexed(|row, _, x| if side(row) { x } else { 0.0 }).cast::<T>()
        };
        let pair = |row: u32, col: u32| row & blocks == col & blocks;
        let inside = |products: Fragment<f32, CHUNK, CHUNK, Z>| {
            products.map_indexed(|row, col, x| if pair(row, col) { x } else { 0.0 })
        };
        copy(decayed(k_s, false), &mut **right_s);
        copy(decayed(q_s, true), &mut **left_s);
        let products = gemm(Z::default(), left_s.full(), right_s.full().t(), Fresh::new()).wait();
        let seen = seen + inside(products);
        if !DELTA {
            return (seen, alike);
        }
        copy(decayed(k_s, true), &mut **left_s);
        let products = gemm(Z::default(), left_s.full(), right_s.full().t(), Fresh::new()).wait();
        (seen, alike + inside(products))
    }

    /// Adds the products of rows with those of K before them in each 16 rows.
    #[inline(always)]
    fn add_middles<Z: Prepares<T, DK>>(&mut self, (seen, alike): Products<Z>) -> Products<Z> {
        let [q_s, k_s, left_s, right_s] = &mut self.tiles;
        let exponents = self.anchors.of_middle::<8>();
        copy((rows(k_s) * exponents.map(|x| math::ex2(-x))).cast::<T>(), &mut **right_s);
        let from_middle = exponents.map(math::ex2);
        let mut inside = |of: &Tile<T, DK>| {
            copy((rows(of) * from_middle).cast::<T>(), &mut **left_s);
            let products = gemm(Z::default(), left_s.full(), right_s.full().t(), Fresh::new()).wait();
            let pair = |row: u32, col: u32| row / 16 == col / 16 && col < row;
            products.map_indexed(|row, col, x| if pair(row, col) { x } else { 0.0 })
        };
        (seen + inside(q_s), if DELTA { alike + inside(k_s) } else { alike })
    }
}

/// The largest of a fragment's elements and `x`, without their signs.
#[inline(always)]
pub fn largest<const DK: usize>(of: &Chunk<DK>, x: f32) -> f32
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    let mut x = x;
    let mut i = 0;
    while i < <<ColumnPairs as FragmentLayout<CHUNK, DK>>::Regs<f32> as Registers<f32>>::LEN {
        x = math::max(x, of.regs.get(i).abs());
        i += 1;
    }
    x
}

/// The largest exponent that elements are given, and the largest element that has room for it: what is rounded away is 2^-20 of the largest
/// that a small one is multiplied by in f16, and nothing in bf16.
const fn room<T: Element>() -> [f32; 2] {
    match T::NAME.as_bytes() {
        b"f16" => [4.0, 65504.0 / 16.0],
        _ => [60.0, 1e20],
    }
}

/// Whether no row is decayed by more from its anchor than elements have room for. The same in all threads.
#[inline(always)]
pub fn is_mild<T: Element>(cta: &mut Cta<Simt<8>>, exponent: f32, element: f32) -> bool {
    let [most, room] = const { room::<T>() };
    let address = cta.reserve(8 * 4, 16);
    let mut worst = math::max(exponent, element * (most / room));
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
    worst <= most
}
