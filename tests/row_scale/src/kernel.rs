//! The kernel, and the list of those that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, Global, GlobalMut, Rows, Striped, block_x, block_y, copy,
};
use tilewright_device::{f16, kernel, kernels};

/// Rows of a tile.
pub const ROWS: usize = 16;

/// y = x · s: x and y \[rows, columns\], s \[rows, 1\]. CTA (i, j) takes tile (i, j) of `ROWS` rows and `C` columns.
#[kernel(threads = 128)]
pub fn row_scale<T: Element, const C: usize>(x: Global<T, 2>, s: Global<f32, 2>, mut y: GlobalMut<T, 2>)
where
    Striped<4>: FragmentLayout<ROWS, C>,
{
    let place = [block_x(), block_y()];
    let factors = Rows::<f32, ROWS, C, Striped<4>>::load(s.tile([block_x(), 0]), 0.0);
    let tile = Fragment::<T, ROWS, C, Striped<4>>::load(x.tile(place)).map(T::to_f32);
    copy(tile.zip_rows(&factors, |x, s| x * s).cast::<T>(), y.tile(place));
}

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct RowScaleKernel {
    pub element: &'static str,
    pub columns: u32,
}

impl<T: Element, const C: usize> Described for row_scale<T, C>
where
    Striped<4>: FragmentLayout<ROWS, C>,
{
    type Description = RowScaleKernel;
    const DESCRIPTION: RowScaleKernel = RowScaleKernel { element: T::NAME, columns: C as u32 };
}

kernels! {
    pub static ROW_SCALE: RowScaleKernel;

    for T in [f16, f32], C in [64, 256] {
        [row_scale_ T _ C]: row_scale<T, C>;
    }
}
