//! What is added to scores, \[batch, heads, queries, keys\]: read to registers as the fragment's threads need it.

use tilewright_device::arch::global;
use tilewright_device::arch::special::same_number;
use tilewright_device::layout::FragmentLayout;
use tilewright_device::tile::{Element, Fragment, Global, InPlace, RowMajor, math};

use crate::score::Score;
use crate::sequences::Sequences;
use crate::terms::HeadTerms;

/// Scores with their tile of the bias, if there is one: packed sequences have none.
#[inline(always)]
pub(crate) fn added<
    F: Score,
    S: Sequences,
    T: Element,
    const M: usize,
    const N: usize,
    L: FragmentLayout<M, N>,
>(
    s: Fragment<f32, M, N, L>,
    bias: InPlace<Global<T, 4, RowMajor, 0>>,
    terms: InPlace<HeadTerms>,
    tile: [u32; 4],
) -> Fragment<f32, M, N, L> {
    if !F::CHANGES || S::PACKED { s } else { with_bias(s, bias, terms, tile) }
}

/// Scores with their tile of the bias, whose matrices have the fragment's rows and columns, if there is one.
///
/// Where the tile is whole, and lines are contiguous and begin at multiples of 4 bytes, two elements are one access; else each is one.
#[inline(always)]
pub(crate) fn with_bias<T: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>>(
    s: Fragment<f32, M, N, L>,
    bias: InPlace<Global<T, 4, RowMajor, 0>>,
    terms: InPlace<HeadTerms>,
    tile: [u32; 4],
) -> Fragment<f32, M, N, L> {
    const { assert!(T::BYTES == 2, "two elements are one access of 4 bytes") };
    if bias.get().rows() == 0 {
        return s;
    }
    let (of, unit) = (bias.get(), terms.get().unit);
    let [batch, head, m, j] = tile;
    // Anew for each block: what addresses are made of fills no registers over the loop.
    let (first, from) = (same_number(m * M as u32), same_number(j * N as u32));
    let [of_batch, of_heads, of_queries, of_keys] = of.strides();
    let start = batch as u64 * of_batch + head as u64 * of_heads + first as u64 * of_queries + from as u64;
    let start = of.pointer().wrapping_add(start as usize);
    let whole = first + M as u32 <= of.rows() && from + N as u32 <= of.cols();
    let in_pairs = of_keys == 1 && of_queries.is_multiple_of(2) && (start as u64).is_multiple_of(4);
    if !whole || !in_pairs {
        return s.zip_global(of.tile(tile), |s, bias| math::fma(bias, unit, s));
    }
    s.map_indexed(|row, column, s| (s, row, column)).zip_pairs(
        #[inline(always)]
        |(a, row, column), (b, _, _)| {
            let at = start.wrapping_add((row as u64 * of_queries + column as u64) as usize);
            // SAFETY: two neighbours in a tile that is inside of the tensor, at a multiple of their size.
            let both = unsafe { global::ld_global_u32(at.cast()) };
            let [low, high] = [both & 0xffff, both >> 16].map(|bits| T::from_bits(bits).to_f32());
            (math::fma(low, unit, a), math::fma(high, unit, b))
        },
    )
}
