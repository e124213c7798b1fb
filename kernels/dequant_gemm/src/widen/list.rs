//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{Decode, GemmRegisters, Half, Multistage, Schedule, Vectors, Zeros, warp};
use tilewright_device::{bf16, f16, kernels};

use super::widen_weights;
use crate::named::*;

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct WidenKernel {
    /// The element type that weights become.
    pub element: &'static str,
    /// The weights' format.
    pub format: &'static str,
    /// Where the zero of a group enters.
    pub zeros: &'static str,
    /// Rows of a tile.
    pub rows: u32,
    /// Stages of the pipeline.
    pub stages: u32,
}

#[rustfmt::skip]
impl<P: Schedule, Y, F, Z: Zeros, T: Half, const BM: usize, const STAGES: usize> Described for widen_weights<P, Y, F, Z, T, BM, STAGES>
where
    F: Decode<T>,
    Y: GemmRegisters<T, BM, 16, 64>,
{
    type Description = WidenKernel;
    const DESCRIPTION: WidenKernel =
        WidenKernel { element: T::NAME, format: F::NAME, zeros: Z::NAME, rows: BM as u32, stages: STAGES as u32 };
}

#[rustfmt::skip]
kernels! {
    /// The kernels of [`widen_weights`](fn@widen_weights).
    pub static WIDEN: WidenKernel;

    for (F, Z) in [(u4, none), (u4, original), (u4, rescaled), (i4, none), (i4, original), (i4, rescaled), (u2, none), (u2, original), (u2, rescaled), (i2, none), (i2, original), (i2, rescaled), (u1, none), (u1, original), (u1, rescaled), (i1, none), (i1, original), (i1, rescaled), (i8_, none), (i8_, original), (i8_, rescaled), (nf4, none), (fp4, none), (e4m3, none), (e5m2, none)], T in [f16, bf16] {
        sm_80: [widen_weights_sm_80_ T _ F _ Z]: widen_weights<Multistage<4, Vectors>, warp::FullRow<4>, F, Z, T, 64, 4>;
    }
}
