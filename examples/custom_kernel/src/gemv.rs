//! The product of packed u4 weights and a vector.

use custom_kernel_device::gemv::{GROUP, Gemv, ROWS};
use tilewright::quant::{Format, Group, HalfType, Order, PackedWeights, Zeros};
use tilewright::{Device, Error, Launch, Result, Stream, Tensor, TensorView, TensorViewMut, f16};

use crate::{KERNELS, wrong};

/// The most columns that the kernel's shared memory has room for.
const MOST: usize = 16384;

/// Weights W \[N, K\] of u4 on a device.
pub struct Weights {
    codes: Tensor<u8>,
    scales: Tensor<u8>,
    shape: [usize; 2],
}

impl Weights {
    /// Copies weights of format u4 to a device, packed in order `B16`, without zeros, with f16 scales of groups of 128.
    pub fn upload(device: &Device, packed: &PackedWeights) -> Result<Self> {
        let header = packed.header();
        let scheme = header.scheme;
        let fits = scheme.format == Format::U4
            && scheme.group == Group::K128
            && scheme.zeros == Zeros::None
            && scheme.scales == HalfType::F16
            && header.order == Order::B16
            && header.k <= MOST;
        if !fits {
            let was =
                format!("{} of {}, zeros {}, K = {}", scheme.format, scheme.group, scheme.zeros, header.k);
            let allowed =
                format!("u4 of groups of {GROUP} without zeros, scales f16, order b16, K up to {MOST}");
            return Err(Error::Argument { argument: "packed".into(), was, allowed: allowed.into() });
        }
        let scales = packed.scales().to_bytes();
        Ok(Weights {
            codes: Tensor::from_slice(device, packed.codes(), &[packed.codes().len()])?,
            scales: Tensor::from_slice(device, &scales, &[scales.len()])?,
            shape: [header.n, header.k],
        })
    }

    /// Bytes of codes and scales: what a product reads.
    pub fn bytes(&self) -> usize {
        self.codes.len() + self.scales.len()
    }
}

/// Queues y = W x for a vector x \[K\] of f16, contiguous, and y \[N\] of f32, contiguous.
pub fn gemv(
    stream: &Stream,
    w: &Weights,
    x: &TensorView<'_, f16>,
    y: &mut TensorViewMut<'_, f32>,
) -> Result<()> {
    let [n, k] = w.shape;
    if *x.shape() != [k] || !x.is_contiguous() {
        return Err(wrong("x", x.shape(), format!("contiguous, of shape {:?}", [k])));
    }
    if *y.shape() != [n] || !y.is_contiguous() {
        return Err(wrong("y", y.shape(), format!("contiguous, of shape {:?}", [n])));
    }
    if y.overlaps(x) {
        return Err(wrong("y", y.shape(), "apart from `x` in memory"));
    }
    let device = w.codes.device();
    for (argument, other) in [("x", x.device()), ("y", y.device())] {
        if other != device {
            let (was, expected) = (other.label().into(), device.label().into());
            return Err(Error::WrongDevice { argument: argument.into(), was, expected });
        }
    }
    let (rows, columns) = (n as u32, k as u32);
    let blocks = columns.div_ceil(64);
    let arguments = (w.codes.address(), w.scales.address(), x.address(), y.address(), rows, columns, blocks);
    let launch = Launch::grid([rows.div_ceil(ROWS), 1, 1]);
    // SAFETY: the addresses are the borrowed tensors', y's exclusively, of the sizes that were checked.
    unsafe { device.kernel::<Gemv>(&KERNELS)?.launch_with(stream, &launch, arguments) }
}
