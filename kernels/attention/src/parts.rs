//! The results of attention over parts of the keys, put together.

use core::f32::consts::LN_2;

use tilewright_device::kernel;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{
    Element, FragmentLayout, GlobalMut, InPlace, Overlaps, SplitParts, Striped, block_x, block_y, copy,
};

/// Merges `splits` parts of every row, as [`PartsOfRows::merge`](tilewright_device::tile::PartsOfRows::merge) says.
///
/// The first parts lie in `parts` as rows of \[batch, heads, queries\]; O \[batch, heads, queries, DV\] and the log-sum-exp
/// \[batch, heads, queries, 1\] in natural logarithms, unless that has no rows. A warp takes `C` columns of a row, `R` parts at a
/// turn: CTA (row · column tiles + column tile, sequence), where `by_tiles` divides by the column tiles, `by_queries` by the
/// queries, and a sequence has `rows` rows.
#[kernel(program = P, shared = P::SPREAD)]
pub fn merge<P: Overlaps, T: Element, const R: usize, const C: usize>(
    parts: InPlace<SplitParts>,
    o: InPlace<GlobalMut<T, 4>>,
    lse: InPlace<GlobalMut<f32, 4>>,
    by_tiles: Division,
    by_queries: Division,
    rows: u32,
    splits: u32,
) where
    Striped<1>: FragmentLayout<R, C>,
{
    let (mut o, mut lse) = (o.get(), lse.get());
    let ((row, c), batch) = (by_tiles.of(block_x()), block_y());
    let (head, query) = by_queries.of(row);
    let parts = parts.get().rows::<1, R, C>(batch * rows + row, splits, c * C as u32);
    P::wait_for_preceding_grid();
    let (all, log2) = parts.merge();
    copy(all.cast::<T>(), o.scatter(|r| (r == 0).then_some([batch, head, query, c * C as u32])));
    if lse.rows() > 0 && c == 0 {
        copy(log2.map(|log2| log2 * LN_2), lse.scatter(|r| (r == 0).then_some([batch, head, query, 0])));
    }
}
