//! The gradients by B and C, from those of some heads.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Element, Fragment, Global, GlobalMut, Program, RowMajor, Striped, block_x, block_y, block_z, copy,
};

use crate::sequences::{Sequence, Sequences};

/// Rows and columns of a CTA's tile.
pub(crate) const TILE: [usize; 2] = [16, 64];
type Tile<T> = Fragment<T, 16, 64, Striped<4>>;

/// y = the sum of x over its first dimension, rounded: x \[splits, matrices, groups, rows, N\], y without the splits.
///
/// CTA (tile of rows · tiles of columns + tile of columns, group, sequence).
#[kernel(program = P)]
pub fn split_sums<P: Program, T: Element>(
    x: Global<f32, 5, RowMajor, 0>,
    mut y: GlobalMut<T, 4, RowMajor, 0>,
    sequences: Sequences,
) {
    let Sequence { matrix, first, rows, .. } = sequences.get(block_z());
    let tiles = x.cols().div_ceil(TILE[1] as u32).max(1);
    let (group, row, col) = (block_y(), block_x() / tiles, block_x() % tiles);
    let (mut sum, mut split) = (Tile::<f32>::zero(), 0);
    while split < x.shape()[0] {
        let part = Tile::<f32>::load(x.tile([split, matrix, group, row, col]).of_rows(first, rows));
        sum = sum.zip(&part, |a, b| a + b);
        split += 1;
    }
    copy(sum.cast::<T>(), y.tile([matrix, group, row, col]).of_rows(first, rows));
}
