//! The results of attention over parts of the keys, put together.

use core::f32::consts::LOG2_E;

use crate::kernel;
use crate::tile::division::Division;
use crate::tile::{
    Element, Fragment, FragmentLayout, Global, GlobalMut, InPlace, Program, Rows, Striped, block_x, block_y,
    copy, math,
};

/// O = Σ exp(Lₛ - L) Oₛ, L = log Σ exp(Lₛ), over the parts s of the keys (Dao et al. 2023, "Flash-Decoding").
///
/// Oₛ in `parts`, \[batch, heads · queries, splits, DV\], their log-sum-exps Lₛ in `lses`, \[batch, heads · queries, splits, 1\]; O
/// \[batch, heads, queries, DV\] and L \[batch, heads, queries, 1\], unless that has no rows. Where no part saw a key, O is 0 and L
/// -inf. A warp takes `C` columns of a row, `S` splits at a time: CTA (row · column tiles + column tile, sequence), where
/// `by_tiles` divides by the column tiles.
#[kernel(program = P)]
pub fn merge<P: Program, T: Element, const S: usize, const C: usize>(
    parts: InPlace<Global<f32, 4>>,
    lses: InPlace<Global<f32, 4>>,
    o: InPlace<GlobalMut<T, 4>>,
    lse: InPlace<GlobalMut<f32, 4>>,
    by_tiles: Division,
) where
    Striped<1>: FragmentLayout<S, C>,
{
    let (parts, lses, mut o, mut lse) = (parts.get(), lses.get(), o.get(), lse.get());
    let ((row, c), batch) = (by_tiles.of(block_x()), block_y());
    let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
    let mut acc = Fragment::<f32, S, C, Striped<1>>::zero();
    for s in 0..parts.rows().div_ceil(S as u32) {
        let l = Rows::<f32, S, C, Striped<1>>::load(lses.tile([batch, row, s, 0]), f32::NEG_INFINITY);
        let x = Fragment::<f32, S, C, Striped<1>>::load(parts.tile([batch, row, s, c]));
        let new = math::max(max, l.reduce(math::max));
        // Without any key: 2 ^ (-inf - 0), not 2 ^ (-inf + inf).
        let shift = if new == f32::NEG_INFINITY { 0.0 } else { new };
        let (weight, rescale) =
            (l.map(|l| math::ex2((l - shift) * LOG2_E)), math::ex2((max - shift) * LOG2_E));
        (max, sum) = (new, sum * rescale + weight.reduce(|a, b| a + b));
        acc = acc.map(|x| x * rescale).zip(&x.zip_rows(&weight, |x, w| x * w), |acc, x| acc + x);
    }
    let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
    let (head, query) = (row / o.rows(), row % o.rows());
    let sums = acc.sum_rows().map(|x| x * inverse).cast::<T>();
    copy(sums, o.scatter(|r| (r == 0).then_some([batch, head, query, c * C as u32])));
    if lse.rows() > 0 && c == 0 {
        let all = if sum == 0.0 { f32::NEG_INFINITY } else { max + math::lg2(sum) / LOG2_E };
        let all = Rows::<f32, S, C, Striped<1>>::splat(all);
        copy(all, lse.scatter(|r| (r == 0).then_some([batch, head, query, 0])));
    }
}
