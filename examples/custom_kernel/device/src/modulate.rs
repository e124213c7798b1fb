//! A kernel of single elements: a function of three numbers, on tensors of any shape and strides.

use tilewright_device::tile::{Element, Global, GlobalMut, RowMajor, elementwise};
use tilewright_device::{f16, kernel, kernels};

/// Threads of a CTA.
pub const THREADS: u32 = 256;

/// y = x (1 + scale) + shift, as blocks of diffusion transformers have it (Peebles & Xie 2023).
#[kernel(threads = THREADS, expects(x.shape() == y.shape(), scale.shape() == y.shape(), shift.shape() == y.shape()))]
pub fn modulate<T: Element>(
    x: Global<T, 3, RowMajor, 0>,
    scale: Global<T, 3, RowMajor, 0>,
    shift: Global<T, 3, RowMajor, 0>,
    mut y: GlobalMut<T, 3, RowMajor, 0>,
) {
    elementwise([x, scale, shift], &mut y, |[x, scale, shift]| x * (1.0 + scale) + shift);
}

kernels! {
    modulate_f16: modulate<f16>;
}
