//! Row softmax: threads that know of each other.
//!
//! A softmax takes the greatest number of its row, then the sum of the exponentials. Here a warp has a row in its registers, so
//! that memory is read once and written once. `reduce_rows` first combines what a thread has, then the threads' results by
//! shuffles, after which each of them has the row's: a [`Rows`](tilewright_device::tile::Rows), one value a row, which `zip_rows` brings back
//! to the elements. The layout [`Striped`] is what makes rows whole in a warp; a layout that does not would not compile.

use core::f32::consts::LOG2_E;

use tilewright_device::kernel;
use tilewright_device::tile::{Fragment, Global, GlobalMut, Striped, block_x, copy, math};

/// Rows of a CTA, one for each of its warps.
pub const ROWS: usize = 4;
/// The most columns.
pub const COLS: usize = 2048;

/// y = softmax(x) over rows of at most `COLS` numbers.
#[kernel(
    threads = 32 * ROWS as u32,
    expects(x.cols() <= COLS as u32, x.rows() == y.rows(), x.cols() == y.cols()),
)]
pub fn row_softmax(x: Global<f32, 2>, mut y: GlobalMut<f32, 2>) {
    let (place, cols) = ([block_x(), 0], x.cols());
    // Columns outside of the tensor are read as zeros, and must not count.
    let x = Fragment::<f32, ROWS, COLS, Striped<ROWS>>::load(x.tile(place))
        .map_indexed(|_, col, x| if col < cols { x } else { f32::NEG_INFINITY });
    let most = x.reduce_rows(f32::NEG_INFINITY, f32::max);
    let e = x.zip_rows(&most, |x, most| math::ex2((x - most) * LOG2_E));
    let scale = e.reduce_rows(0.0, |a, b| a + b).map(|sum| 1.0 / sum);
    copy(e.zip_rows(&scale, |e, scale| e * scale), y.tile(place));
}
