//! Copies of matrices into lines that fast kernels read.

use tilewright_device::arch::special::{block_x, block_z};
use tilewright_device::kernel;
use tilewright_device::layout::Spread;
use tilewright_device::tile::{Element, Fragment, Global, GlobalMut, InPlace, Overlaps, RowMajor, copy};

/// Lines of a tile, and elements of each.
pub const TILE: [usize; 2] = [8, 256];

/// Copies of A and B, or of one of them, \[batch, lines, elements\] of any strides each: TMA reads no lines that begin off multiples of 16 bytes.
///
/// Elements alone are copied: what lies between the lines of a copy keeps its values, which TMA takes for zeros. CTA (a tile of A, of which there are
/// `tiles_of_a` for a matrix, or behind those one of B; matrix).
#[kernel(program = P)]
pub fn copy_lines<P: Overlaps, T: Element>(
    a: InPlace<Global<T, 3, RowMajor, 0>>,
    a_to: InPlace<GlobalMut<T, 3, RowMajor, 0>>,
    b: InPlace<Global<T, 3, RowMajor, 0>>,
    b_to: InPlace<GlobalMut<T, 3, RowMajor, 0>>,
    tiles_of_a: u32,
) {
    const { assert!(P::THREADS == 256, "a warp for each line of a tile") };
    let (first, from, to) = if block_x() < tiles_of_a { (0, a, a_to) } else { (tiles_of_a, b, b_to) };
    let tile = block_x() - first;
    let [_, lines, _] = from.get().shape();
    let down = lines.div_ceil(TILE[0] as u32).max(1);
    let place = [block_z(), tile % down, tile / down];
    P::wait_for_preceding_grid();
    let lines = Fragment::<T, { TILE[0] }, { TILE[1] }, Spread<8, 32, 8, 2>>::load(from.get().tile(place));
    copy(lines, to.get().tile(place));
}
