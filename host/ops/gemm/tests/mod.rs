//! Tests without a GPU: what is accepted, which kernel is chosen, what it is launched with.

use std::fmt;
use std::sync::Arc;

use tilewright_device::abi::GlobalAbi;
use tilewright_device::tile::RasterOrder;

use super::*;
use crate::backend::fake::{self, Journal, VAST};
use crate::{Device, Error, Tensor, bf16, f16};

mod arguments;
mod batches;
mod choice;
mod launches;
mod plan;

/// Addresses so far apart that no matrix reaches the next one.
const A: u64 = VAST;
const B: u64 = VAST + (1 << 56);
const C: u64 = VAST + (2 << 56);
const BIAS: u64 = VAST + (3 << 56);

fn view<T: Element>(device: &Device, at: u64, shape: &[usize], strides: &[usize]) -> TensorView<'static, T> {
    // SAFETY: nothing reads the memory of a fake device.
    unsafe { TensorView::from_raw_parts(device, at, shape, strides) }.unwrap()
}

fn view_mut<T: Element>(
    device: &Device,
    at: u64,
    shape: &[usize],
    strides: &[usize],
) -> TensorViewMut<'static, T> {
    // SAFETY: as above.
    unsafe { TensorViewMut::from_raw_parts(device, at, shape, strides) }.unwrap()
}

/// The views of a product; matrices whose name has a `t` are transposed in memory.
struct Views<T: 'static = f16, U: 'static = f16> {
    a: TensorView<'static, T>,
    b: TensorView<'static, T>,
    c: TensorViewMut<'static, U>,
}

impl<T: GemmInput, U: FloatElement> Views<T, U> {
    fn new(device: &Device, layout: &str, [m, n, k]: [usize; 3]) -> Self {
        let strides = |transposed, rows, cols| if transposed { [1, rows] } else { [cols, 1] };
        let (a, b) = (layout.starts_with('t'), layout.ends_with('t'));
        Views {
            a: view(device, A, &[m, k], &strides(a, m, k)),
            b: view(device, B, &[k, n], &strides(b, k, n)),
            c: view_mut(device, C, &[m, n], &[n, 1]),
        }
    }

    fn plan(&self) -> GemmPlan {
        Gemm::<U>::new().plan(&self.a, &self.b, &self.c).unwrap()
    }
    fn name(&self) -> &'static str {
        self.plan().kernel().name()
    }
    fn candidates(&self) -> Vec<GemmCandidate> {
        Gemm::<U>::new().candidates(&self.a, &self.b, &self.c).unwrap()
    }
    fn run(&mut self, gemm: &Gemm<'_, U>, stream: &Stream) -> Result<()> {
        gemm.run(stream, &self.a, &self.b, &mut self.c)
    }
}

fn message<T: fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}
