//! The gate in front of the scan's gradients.

use core::f32::consts::LOG2_E;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Activation, Element, Fragment, Global, GlobalMut, Program, RowMajor, Striped, block_x, block_y, block_z,
    copy, math,
};

use crate::sequences::{Sequence, Sequences};

/// Rows and columns of a CTA's tile.
pub(crate) const TILE: [usize; 2] = [16, 64];
type Tile<T> = Fragment<T, 16, 64, Striped<4>>;

/// The derivative of z / (1 + e^-z).
#[inline(always)]
pub(crate) fn slope(z: f32) -> f32 {
    let sigmoid = math::rcp(1.0 + math::ex2(-z * LOG2_E));
    sigmoid * (1.0 + z * (1.0 - sigmoid))
}

/// The gradient by y before the gate, dy silu(z), and what the gradient by z is, over y: dy silu'(z). All \[matrices, heads, rows, P\].
///
/// CTA (tile of rows · tiles of columns + tile of columns, head, sequence).
#[kernel(program = P)]
pub fn gate_gradient<P: Program, T: Element>(
    dy: Global<T, 4, RowMajor, 0>,
    z: Global<T, 4, RowMajor, 0>,
    mut to: GlobalMut<T, 4, RowMajor, 0>,
    mut slopes: GlobalMut<T, 4, RowMajor, 0>,
    sequences: Sequences,
) {
    let Sequence { matrix, first, rows, .. } = sequences.get(block_z());
    let tiles = z.cols().div_ceil(TILE[1] as u32).max(1);
    let place = [matrix, block_y(), block_x() / tiles, block_x() % tiles];
    let z = Tile::<T>::load(z.tile(place).of_rows(first, rows)).to_f32();
    let dy = Tile::<T>::load(dy.tile(place).of_rows(first, rows)).to_f32();
    copy(dy.zip(&z, |dy, z| dy * slope(z)).cast::<T>(), slopes.tile(place).of_rows(first, rows));
    let dy = dy.zip(&z, |dy, z| dy * Activation::Silu.apply(z));
    copy(dy.cast::<T>(), to.tile(place).of_rows(first, rows));
}
