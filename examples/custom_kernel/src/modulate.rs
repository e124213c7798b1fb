//! A function of single elements.

use custom_kernel_device::modulate::{THREADS, modulate as kernel};
use tilewright::{Result, Stream, TensorView, TensorViewMut, f16};

use crate::KERNELS;

/// Elements that a thread takes at a time.
const EACH: usize = 16;

/// Queues y = x (1 + scale) + shift for x and y \[batch, tokens, columns\]; scale and shift have that shape or are stretched to it, as \[batch, 1, columns\]
/// are. Any strides; rows that are aligned to 16 bytes are read fast.
pub fn modulate(
    stream: &Stream,
    x: &TensorView<'_, f16>,
    scale: &TensorView<'_, f16>,
    shift: &TensorView<'_, f16>,
    y: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let (scale, shift) = (scale.clone().broadcast(y.shape())?, shift.clone().broadcast(y.shape())?);
    let ctas = y.len().div_ceil(THREADS as usize * EACH).clamp(1, 1 << 30) as u32;
    y.device().kernel::<kernel<f16>>(&KERNELS)?.launch(stream, [ctas, 1, 1], (x, &scale, &shift, y))
}
