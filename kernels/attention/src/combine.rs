//! The results of attention over parts of the keys, put together.

use core::f32::consts::{LN_2, LOG2_E};

use tilewright_device::kernel;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, GlobalMut, InPlace, Overlaps, Rows, Striped, block_x, block_y, copy,
    math,
};

use crate::split_parts::SplitParts;

/// O = Σ exp(Lₛ - L) Oₛ, L = log Σ exp(Lₛ), over the parts s of the keys (Dao et al. 2023, "Flash-Decoding").
///
/// Oₛ and their log-sum-exps Lₛ in `parts`, whose rows are those of \[batch, heads, queries\]; O \[batch, heads, queries, DV\] and L
/// \[batch, heads, queries, 1\], unless that has no rows. Where no part saw a key, O is 0 and L -inf. A warp takes `C` columns of
/// a row, `S` splits at a time: CTA (row · column tiles + column tile, sequence), where `by_tiles` divides by the column tiles,
/// `by_queries` by the queries, and a sequence has `rows` rows.
#[kernel(program = P)]
pub fn merge<P: Overlaps, T: Element, const S: usize, const C: usize>(
    parts: InPlace<SplitParts>,
    o: InPlace<GlobalMut<T, 4>>,
    lse: InPlace<GlobalMut<f32, 4>>,
    by_tiles: Division,
    by_queries: Division,
    rows: u32,
) where
    Striped<1>: FragmentLayout<S, C>,
{
    let (mut o, mut lse) = (o.get(), lse.get());
    let ((row, c), batch) = (by_tiles.of(block_x()), block_y());
    let (head, query) = by_queries.of(row);
    let parts = parts.get().row::<S, C>(batch * rows + row, c * C as u32);
    P::wait_for_preceding_grid();
    let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
    let mut acc = Fragment::<f32, S, C, Striped<1>>::zero();
    for (l, x) in parts {
        let new = math::max(max, l.reduce(math::max));
        // Without any key: 2 ^ (-inf - 0), not 2 ^ (-inf + inf).
        let shift = if new == f32::NEG_INFINITY { 0.0 } else { new };
        let (weight, rescale) =
            (l.map(|l| math::ex2((l - shift) * LOG2_E)), math::ex2((max - shift) * LOG2_E));
        (max, sum) = (new, sum * rescale + weight.reduce(|a, b| a + b));
        acc = acc.map(|x| x * rescale).zip(&x.zip_rows(&weight, |x, w| x * w), |acc, x| acc + x);
    }
    let inverse = if sum == 0.0 { 0.0 } else { math::rcp(sum) };
    let sums = acc.sum_rows().map(|x| x * inverse).cast::<T>();
    copy(sums, o.scatter(|r| (r == 0).then_some([batch, head, query, c * C as u32])));
    if lse.rows() > 0 && c == 0 {
        let all = if sum == 0.0 { f32::NEG_INFINITY } else { max + math::lg2(sum) * LN_2 };
        let all = Rows::<f32, S, C, Striped<1>>::splat(all);
        copy(all, lse.scatter(|r| (r == 0).then_some([batch, head, query, 0])));
    }
}
