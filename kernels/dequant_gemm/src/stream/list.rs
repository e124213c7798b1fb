//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Decode, GemmRegisters, Half, Multistage, Overlapping, Reads, Swizzle, ZerosFirst, warp,
};
use tilewright_device::{bf16, f16, kernels};

use super::{dequant_stream, has_gates};
use crate::named::*;

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct DequantStreamKernel {
    /// The activations' and the output's element type.
    pub element: &'static str,
    /// The weights' format.
    pub format: &'static str,
    /// Where the zero of a group enters.
    pub zeros: &'static str,
    /// Rows of A of a tile.
    pub rows: u32,
    /// Depth of A that is in shared memory at a time.
    pub panel: u32,
    /// Chunks that a warp has on their way.
    pub ahead: u32,
    /// Whether it has gated units.
    pub gated: bool,
}

impl<
    P: Reads,
    Y,
    F: Decode<T>,
    Z: ZerosFirst,
    T: Half,
    const BM: usize,
    const BN: usize,
    const PANEL: usize,
    const AHEAD: usize,
    const LATER: usize,
> Described for dequant_stream<P, Y, F, Z, T, BM, BN, PANEL, AHEAD, LATER>
where
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>>,
{
    type Description = DequantStreamKernel;
    const DESCRIPTION: DequantStreamKernel = DequantStreamKernel {
        element: T::NAME,
        format: F::NAME,
        zeros: Z::NAME,
        rows: BN as u32,
        panel: PANEL as u32,
        ahead: AHEAD as u32,
        gated: has_gates::<Z>(BN),
    };
}

/// Sixteen warps, each with rows of its own.
type Warps = Multistage<16, Overlapping>;
/// How they divide a tile.
type Rows = warp::FullRow<16>;

// A panel and the sums fill the shared memory. Eight bits fill the registers by one chunk, and are as many bytes on their way as two
// of four; nf4 and fp4 take more than are left to decode.
#[rustfmt::skip]
kernels! {
    /// The kernels of [`dequant_stream`](fn@dequant_stream).
    pub static STREAM: DequantStreamKernel;

    for (F, Z) in [(u4, none), (u4, original)], T in [f16, bf16] {
        sm_90: [dequant_stream_sm_90_ T _ F _ Z _8x8192]: dequant_stream<Warps, Rows, F, Z, T, 512, 8, 8192, 2, 2>;
    }
    for (F, Z, T) in [(u4, none, f16), (u4, none, bf16), (u4, original, f16)] {
        sm_90: [dequant_stream_sm_90_ T _ F _ Z _16x4096]: dequant_stream<Warps, Rows, F, Z, T, 512, 16, 4096, 2, 1>;
    }
    for (F, Z) in [(i4, none), (u2, none), (u2, original), (i2, none), (u1, none)] {
        sm_90: [dequant_stream_sm_90_f16_ F _ Z _8x8192]: dequant_stream<Warps, Rows, F, Z, f16, 512, 8, 8192, 2, 2>;
    }
    for F in [i8_, e4m3, e5m2] {
        sm_90: [dequant_stream_sm_90_f16_ F _none_8x8192]: dequant_stream<Warps, Rows, F, none, f16, 512, 8, 8192, 1, 2>;
    }
}
