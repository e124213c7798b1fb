//! Sums over CTAs, in one order.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Collective, Cta, Element, Fragment, Global, GlobalMut, RowMajor, Threads, block_x, block_y, copy,
};

/// Lines at a time, and columns of a CTA.
pub(crate) const TILE: [usize; 2] = [16, 32];
type Lanes = Threads<16, 8, 4>;

/// y = the sums of x's lines, rounded: x \[kinds, lines, columns\], y \[kinds, columns\]. CTA (tile of columns, kind).
#[kernel(program = P)]
pub fn line_sums<P: Collective, T: Element>(
    mut cta: Cta<P>,
    x: Global<f32, 3, RowMajor, 0>,
    mut y: GlobalMut<T, 2, RowMajor, 0>,
) {
    let mut reducer = cta.col_reducer::<f32, Lanes, 16, 32>();
    let (mut sums, mut i) = (Fragment::<f32, 16, 32, Lanes>::zero(), 0);
    while i * (TILE[0] as u32) < x.rows() {
        sums = sums.zip(&Fragment::load(x.tile([block_y(), i, block_x()])), |a, b| a + b);
        i += 1;
    }
    let sums = reducer.reduce_cols(&sums, 0.0, |a, b| a + b);
    copy(sums.map(|sum| T::from_f32x2(sum, 0.0)[0]), y.tile([block_y(), block_x()]));
}
