//! Results of tiles whose keys were divided among CTAs, put together.
//!
//! Sequences have as many parts as a list says, of whole tiles; those that were not cut are left alone.

use core::f32::consts::LN_2;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Element, FragmentLayout, GlobalMut, List, Overlaps, SplitParts, Striped, block_x, block_y, copy,
};

use super::B;

/// Rows of a CTA: one a warp.
pub const ROWS: usize = 4;

/// Merges the parts of rows, as [`PartsOfRows::merge`](tilewright_device::tile::PartsOfRows::merge) says.
///
/// Parts are tiles in `parts`. For every `block_y`, `list` has a sequence, the first tile of its first part, how many parts it has, and its first tile
/// of rows. O is \[batch, rows, DV\], the log-sum-exp \[batch, rows, 1\] in natural logarithms, unless `lse` has no rows.
#[kernel(program = P, shared = P::SPREAD)]
pub fn merge<P: Overlaps, T: Element, const DV: usize>(
    parts: SplitParts,
    mut o: GlobalMut<T, 3>,
    mut lse: GlobalMut<f32, 3>,
    list: List,
) where
    Striped<ROWS>: FragmentLayout<ROWS, DV>,
{
    let [sequence, tile, count, rows] = list.get4(block_y());
    let first = tile * B as u32 + block_x() * ROWS as u32;
    let parts = parts.of_columns::<DV>().rows::<ROWS, ROWS, DV>(first, count, 0);
    P::wait_for_preceding_grid();
    let (all, log2) = parts.merge();
    let place = [sequence, rows * (B / ROWS) as u32 + block_x(), 0];
    copy(all.cast::<T>(), o.tile(place));
    if lse.rows() > 0 {
        copy(log2.map(|log2| log2 * LN_2), lse.tile(place));
    }
}
