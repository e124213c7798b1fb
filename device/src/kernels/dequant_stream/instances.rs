//! The kernels that are compiled: one list, from which entry points and the host's table are made.

use half::{bf16, f16};

use super::dequant_stream;
use crate::abi::GlobalAbi;
use crate::instantiate;
use crate::kernel::{Instance, Kernel};
use crate::tile::{
    Decode, E4M3, E5M2, GemmRegisters, Half, I2, I4, I8, Multistage, NoZeros, Original, Overlapping, Reads,
    Shares, Swizzle, U1, U2, U4, WeightsAbi, ZerosFirst, warp,
};

/// What the host needs to know of a kernel, read off its type.
pub trait DequantStreamKernel: Kernel {
    /// The activations' and the output's element type.
    type Element: Half;
    /// The weights' format.
    const FORMAT: &'static str;
    /// Where the zero of a group enters.
    const ZEROS: &'static str;
    /// Rows of A of a tile.
    const ROWS: u32;
    /// Depth of A that is in shared memory at a time.
    const PANEL: u32;
    /// Chunks that a warp has on their way.
    const AHEAD: u32;

    /// The arguments of a launch; see [`dequant_stream`](fn@dequant_stream).
    fn arguments(
        w: WeightsAbi,
        a: GlobalAbi<Self::Element, 2>,
        c: GlobalAbi<Self::Element, 2>,
        bias: GlobalAbi<Self::Element, 2>,
        shares: Shares,
        activation: u32,
        alpha: f32,
    ) -> Self::Args;
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
> DequantStreamKernel for dequant_stream<P, Y, F, Z, T, BM, BN, PANEL, AHEAD>
where
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>>,
{
    type Element = T;
    const FORMAT: &'static str = F::NAME;
    const ZEROS: &'static str = Z::NAME;
    const ROWS: u32 = BN as u32;
    const PANEL: u32 = PANEL as u32;
    const AHEAD: u32 = AHEAD as u32;

    fn arguments(
        w: WeightsAbi,
        a: GlobalAbi<T, 2>,
        c: GlobalAbi<T, 2>,
        bias: GlobalAbi<T, 2>,
        shares: Shares,
        activation: u32,
        alpha: f32,
    ) -> Self::Args {
        Self::args(w, a, c, bias, shares, activation, alpha)
    }
}

/// Something to do with each of the compiled kernels' types.
pub trait Visitor {
    /// Called once for each kernel.
    fn stream_kernel<K: DequantStreamKernel + Instance + 'static>(&mut self);
}

macro_rules! kernel_type {
    ($f:ident $z:ident $t:ident $n:literal $panel:literal $ahead:literal) => {
        dequant_stream<Multistage<16, Overlapping>, warp::FullRow<16>, $f, $z, $t, 512, $n, $panel, $ahead>
    };
}

/// The list: formats and zeros with their names, element types, rows of A with the depth of a panel, and chunks
/// that a warp has on their way.
macro_rules! kernels {
    ($($f:ident $fname:ident $z:ident $zname:ident $t:ident $n:literal $panel:literal $ahead:literal;)*) => {
        $( instantiate! {
            sm_90: [dequant_stream_sm_90_ $t _ $fname _ $zname _ $n x $panel]: kernel_type!($f $z $t $n $panel $ahead);
        } )*

        /// Shows `visitor` every compiled kernel's type.
        pub fn visit<V: Visitor>(visitor: &mut V) {
            $( visitor.stream_kernel::<kernel_type!($f $z $t $n $panel $ahead)>(); )*
        }
    };
}

// A panel and the sums fill the shared memory. Eight bits fill the registers by one chunk, and are as many bytes on their way as two
// of four; nf4 and fp4 take more than are left to decode.
#[rustfmt::skip]
kernels! {
    U4 u4 NoZeros none f16 8 8192 2;
    U4 u4 NoZeros none bf16 8 8192 2;
    U4 u4 Original original f16 8 8192 2;
    U4 u4 Original original bf16 8 8192 2;
    U4 u4 NoZeros none f16 16 4096 2;
    U4 u4 NoZeros none bf16 16 4096 2;
    U4 u4 Original original f16 16 4096 2;
    I4 i4 NoZeros none f16 8 8192 2;
    U2 u2 NoZeros none f16 8 8192 2;
    U2 u2 Original original f16 8 8192 2;
    I2 i2 NoZeros none f16 8 8192 2;
    U1 u1 NoZeros none f16 8 8192 2;
    I8 i8_ NoZeros none f16 8 8192 1;
    E4M3 e4m3 NoZeros none f16 8 8192 1;
    E5M2 e5m2 NoZeros none f16 8 8192 1;
}
