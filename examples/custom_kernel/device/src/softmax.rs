//! A kernel without tensor cores: each row is read once, and stays in a warp's registers.

use core::f32::consts::LOG2_E;

use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, Global, GlobalMut, Striped, block_x, copy, math,
};
use tilewright_device::{f16, kernel, kernels};

/// Rows of a CTA: one for each of its warps.
pub const ROWS: usize = 4;

/// y = softmax(x) over rows of at most `COLS` elements.
#[kernel(threads = 32 * ROWS as u32, expects(x.shape() == y.shape(), x.cols() <= COLS as u32))]
pub fn softmax<T: Element, const COLS: usize>(x: Global<T, 2>, mut y: GlobalMut<T, 2>)
where
    Striped<ROWS>: FragmentLayout<ROWS, COLS>,
{
    let place = [block_x(), 0];
    let cols = x.cols();
    // Columns outside of the tensor are read as zeros, and must not count.
    let x = Fragment::<T, ROWS, COLS, Striped<ROWS>>::load(x.tile(place))
        .map(T::to_f32)
        .map_indexed(|_, col, v| if col < cols { v } else { f32::NEG_INFINITY });
    let most = x.reduce_rows(f32::NEG_INFINITY, f32::max);
    let e = x.zip_rows(&most, |v, most| math::ex2((v - most) * LOG2_E));
    let scale = e.reduce_rows(0.0, |a, b| a + b).map(|sum| 1.0 / sum);
    copy(e.zip_rows(&scale, |e, scale| e * scale).cast::<T>(), y.tile(place));
}

kernels! {
    softmax_f16_256: softmax<f16, 256>;
    softmax_f16_1024: softmax<f16, 1024>;
    softmax_f16_4096: softmax<f16, 4096>;
}
