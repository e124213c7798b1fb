//! Tests without a GPU: which kernel is chosen, and what it is launched with.

use super::*;
use crate::backend::fake::{self, VAST};
use crate::{Device, f16};

mod choice;
mod launches;

/// Addresses so far apart that no tensor reaches the next one.
const X: u64 = VAST;
const W: u64 = VAST + (1 << 56);
const Y: u64 = VAST + (2 << 56);

/// Row-major strides.
fn packed<const RANK: usize>(shape: [usize; RANK]) -> [usize; RANK] {
    std::array::from_fn(|i| shape[i + 1..].iter().product())
}

fn view<T: FloatElement, const RANK: usize>(
    device: &Device,
    at: u64,
    shape: [usize; RANK],
) -> TensorView<'static, T> {
    // SAFETY: nothing reads the memory of a fake device.
    unsafe { TensorView::from_raw_parts(device, at, &shape, &packed(shape)) }.unwrap()
}

fn view_mut<T: FloatElement, const RANK: usize>(
    device: &Device,
    at: u64,
    shape: [usize; RANK],
) -> TensorViewMut<'static, T> {
    // SAFETY: as above.
    unsafe { TensorViewMut::from_raw_parts(device, at, &shape, &packed(shape)) }.unwrap()
}

/// The views of a convolution of square images with a square filter, packed.
struct Views {
    x: TensorView<'static, f16>,
    w: TensorView<'static, f16>,
    y: TensorViewMut<'static, f16>,
}

impl Views {
    fn new(device: &Device, [n, size, c, k, r]: [usize; 5], stride: usize, padding: usize) -> Self {
        let out = (size + 2 * padding - r) / stride + 1;
        Views {
            x: view(device, X, [n, size, size, c]),
            w: view(device, W, [k, r, r, c]),
            y: view_mut(device, Y, [n, out, out, k]),
        }
    }
}
