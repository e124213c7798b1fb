//! Softmax over the rows of a matrix.

use custom_kernel_device::softmax::{ROWS, softmax as kernel};
use tilewright::{Instance, Launch, Result, Stream, TensorView, TensorViewMut, f16};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::tile::{Global, GlobalMut};

use crate::{KERNELS, check_output, wrong};

/// Queues y = softmax(x) over the rows of a matrix with at most 4096 columns.
///
/// Any strides are correct; rows aligned to 16 bytes are read fast.
pub fn softmax(stream: &Stream, x: &TensorView<'_, f16>, y: &mut TensorViewMut<'_, f16>) -> Result<()> {
    let &[rows, cols] = x.shape() else { return Err(wrong("x", x.shape(), "a matrix")) };
    check_output(y, [rows, cols], &[x])?;
    match cols {
        ..=256 => launch::<kernel<f16, 256>>(stream, x, y, kernel::<f16, 256>::args),
        257..=1024 => launch::<kernel<f16, 1024>>(stream, x, y, kernel::<f16, 1024>::args),
        1025..=4096 => launch::<kernel<f16, 4096>>(stream, x, y, kernel::<f16, 4096>::args),
        _ => Err(wrong("x", x.shape(), "a matrix of at most 4096 columns")),
    }
}

fn launch<K: Instance>(
    stream: &Stream,
    x: &TensorView<'_, f16>,
    y: &mut TensorViewMut<'_, f16>,
    args: fn(GlobalAbi<f16, 2>, GlobalAbi<f16, 2>) -> K::Args,
) -> Result<()> {
    let args = args(x.arg::<2, Global<f16, 2>>()?, y.arg::<2, GlobalMut<f16, 2>>()?);
    let ctas = x.shape()[0].div_ceil(ROWS) as u32;
    if ctas == 0 {
        return Ok(());
    }
    let function = x.device().kernel::<K>(&KERNELS)?;
    // SAFETY: the arguments are the borrowed views', y's exclusively, and the kernel keeps to their shapes.
    unsafe { function.launch(stream, &Launch::grid([ctas, 1, 1]), &args) }
}
