//! Softmax over the rows of a matrix.

use custom_kernel_device::softmax::{ROWS, softmax as kernel};
use tilewright::{Instance, Result, SafeKernel, Stream, TensorView, TensorViewMut, f16};
use tilewright_device::tile::{Global, GlobalMut};

use crate::{KERNELS, wrong};

/// Queues y = softmax(x) over the rows of a matrix with at most 4096 columns.
///
/// Any strides are correct; rows aligned to 16 bytes are read fast.
pub fn softmax(stream: &Stream, x: &TensorView<'_, f16>, y: &mut TensorViewMut<'_, f16>) -> Result<()> {
    let &[rows, cols] = x.shape() else { return Err(wrong("x", x.shape(), "a matrix")) };
    match cols {
        _ if rows == 0 => Ok(()),
        ..=256 => launch::<kernel<f16, 256>>(stream, x, y),
        257..=1024 => launch::<kernel<f16, 1024>>(stream, x, y),
        1025..=4096 => launch::<kernel<f16, 4096>>(stream, x, y),
        _ => Err(wrong("x", x.shape(), "a matrix of at most 4096 columns")),
    }
}

fn launch<K: Instance + SafeKernel<Parameters = (Global<f16, 2>, GlobalMut<f16, 2>)>>(
    stream: &Stream,
    x: &TensorView<'_, f16>,
    y: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let ctas = x.shape()[0].div_ceil(ROWS) as u32;
    x.device().kernel::<K>(&KERNELS)?.launch(stream, [ctas, 1, 1], (x, y))
}
