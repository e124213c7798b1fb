//! A filter for each channel.

use tilewright_device::kernel;
use tilewright_device::tile::{
    ByElement, Cols, Element, Epilogue, Fragment, Global, GlobalMut, Patches, RowMajor, Striped, Tap,
    block_x, block_y, copy,
};

/// y = act(Σ over taps of x w + bias + beta residual), channel by channel (Howard et al. 2017).
///
/// `w` is \[filter rows of all slices, filter columns, channels\], `y` \[1, pixels, channels\], and the terms of the epilogue have `y`'s shape. A CTA of `W` warps takes a
/// tile of `BM` pixels and `BN` channels.
#[kernel(threads = 32 * W as u32)]
pub fn conv_depthwise<T: Element, const BM: usize, const BN: usize, const W: usize>(
    x: Patches<T>,
    w: Global<T, 3, RowMajor, 0>,
    mut y: GlobalMut<T, 3, RowMajor, 0>,
    epilogue: Epilogue<ByElement<T, 3>, ByElement<T, 3>>,
) where
    Striped<W>: tilewright_device::tile::FragmentLayout<BM, BN>,
{
    let place = [0, block_x(), block_y()];
    let mut acc = Fragment::<f32, BM, BN, Striped<W>>::zero();
    for k in 0..x.steps() {
        let tap = Tap { block: block_y(), ..x.tap(k) };
        let pixels = Fragment::<T, BM, BN, Striped<W>>::load(x.tile(0, block_x(), tap)).to_f32();
        let filters = w.tile([x.line(tap), tap.column, block_y()]);
        let weights = Cols::<T, BM, BN, Striped<W>>::indexed(|channel| filters.element::<1, BN>(0, channel));
        acc = acc + pixels.zip_cols(&weights, |x, w| x * w.to_f32());
    }
    copy(epilogue.apply::<T, 3, BM, BN, _>(acc, place), y.tile(place));
}
