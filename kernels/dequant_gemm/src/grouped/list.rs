//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    ColumnsLayout, Elements, Format, FullRow, GemmRegisters, Half, Multistage, Reads, Swizzle,
    TwoConsumersJointProducers, Vectors, WarpSpecialized, Zeros, warp,
};
use tilewright_device::{bf16, f16, kernels};

use super::grouped_dequant_gemm;
use crate::named::*;
use crate::weights::Scaling;
use crate::weights::scaled::{early_plain, queue_plain, sums, wait};

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct GroupedDequantKernel {
    /// The activations' and the output's element type.
    pub element: &'static str,
    /// The weights' format.
    pub format: &'static str,
    /// Where the zero of a group of weights enters.
    pub zeros: &'static str,
    /// Rows of A, rows of W and depth of a tile.
    pub tile: [u32; 3],
    /// Stages of the pipeline.
    pub stages: u32,
    /// Lines of a TMA box of C.
    pub box_c: u32,
    /// See [`Scaling::SUMS`].
    pub sums: bool,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
}

#[rustfmt::skip]
impl<
    P: Reads, Y, S, F: Format, Z: Zeros, T: Half, const BM: usize, const BN: usize, const BK: usize, const BOX: usize,
    const STAGES: usize,
> Described for grouped_dequant_gemm<P, Y, S, F, Z, T, BM, BN, BK, BOX, STAGES>
where
    S: Scaling<Y, F, Z, T, BM, BN, BK>,
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    type Description = GroupedDequantKernel;
    const DESCRIPTION: GroupedDequantKernel = GroupedDequantKernel {
        element: T::NAME,
        format: F::NAME,
        zeros: Z::NAME,
        tile: [BN as u32, BM as u32, BK as u32],
        stages: STAGES as u32,
        box_c: BOX as u32,
        sums: S::SUMS,
        any_strides: P::ANY_STRIDES,
    };
}

// Tiles of few rows of A for what a token's experts get of a small batch, whose speed is that of the weights' bytes; wide ones for prompts.
#[rustfmt::skip]
kernels! {
    /// The kernels of [`grouped_dequant_gemm`](fn@grouped_dequant_gemm).
    pub static GROUPED: GroupedDequantKernel;

    for (F, Z) in [(u4, none), (u4, original)], T in [f16, bf16] {
        sm_90: [grouped_dequant_sums_sm_90_ T _ F _ Z _16x256x128s8]:
            grouped_dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, sums, F, Z, T, 256, 16, 128, 16, 8>;
        sm_90: [grouped_dequant_sm_90_ T _ F _ Z _64x256x128s5]:
            grouped_dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, queue_plain, F, Z, T, 256, 64, 128, 64, 5>;
        sm_90: [grouped_dequant_sm_90_ T _ F _ Z _128x256x128s3]:
            grouped_dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, early_plain, F, Z, T, 256, 128, 128, 64, 3>;
        sm_80: [grouped_dequant_sm_80_ T _ F _ Z _64x64x64s4]:
            grouped_dequant_gemm<Multistage<4, Vectors>, warp::FullRow<4>, wait, F, Z, T, 64, 64, 64, 0, 4>;
    }
    for F in [i8_, fp4, e4m3], T in [f16, bf16] {
        sm_90: [grouped_dequant_sm_90_ T _ F _none_64x256x64s5]:
            grouped_dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, wait, F, none, T, 256, 64, 64, 64, 5>;
    }
    for (F, Z) in [(u4, none), (u4, original), (i8_, none), (fp4, none), (e4m3, none)], T in [f16, bf16] {
        sm_80: [grouped_dequant_sm_80_ T _ F _ Z _any_32x64x64s3]:
            grouped_dequant_gemm<Multistage<4, Elements>, warp::FullRow<4>, wait, F, Z, T, 64, 32, 64, 0, 3>;
    }
}
