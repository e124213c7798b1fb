//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    ColumnsLayout, FourConsumersJointProducers, FullRow, GemmRegisters, Half, I8x2, Integers, Multistage,
    Schedule, Swizzle, TwoConsumersJointProducers, Vectors, WarpSpecialized, Zeros, warp,
};
use tilewright_device::{bf16, f16, kernels};

use super::dequant_gemm_int8;
use super::scaling::{OfGroups, OfRows, Scaling};
use crate::named::*;

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct DequantInt8Kernel {
    /// The output's and the scales' element type.
    pub element: &'static str,
    /// The weights' format.
    pub format: &'static str,
    /// Where the zero of a group enters.
    pub zeros: &'static str,
    /// True when scales are of groups, false when they are of rows.
    pub groups: bool,
    /// Rows of W, rows of A and depth of a tile.
    pub tile: [u32; 3],
    /// Threads that hold a tile's sums.
    pub consumers: u32,
    /// Stages of the pipeline.
    pub stages: u32,
    /// Lines of a TMA box of C.
    pub box_c: u32,
}

#[rustfmt::skip]
impl<
    P: Schedule, Y, S: Scaling, F: Integers, Z: Zeros, T: Half, const BM: usize, const BN: usize, const BK: usize,
    const PAIRS: usize, const BOX: usize, const STAGES: usize,
> Described for dequant_gemm_int8<P, Y, S, F, Z, T, BM, BN, BK, PAIRS, BOX, STAGES>
where
    Y: GemmRegisters<I8x2, BM, BN, 64, i32, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    type Description = DequantInt8Kernel;
    const DESCRIPTION: DequantInt8Kernel = DequantInt8Kernel {
        element: T::NAME,
        format: F::NAME,
        zeros: Z::NAME,
        groups: S::GROUPS,
        tile: {
            assert!(BK == 2 * PAIRS);
            [BM as u32, BN as u32, BK as u32]
        },
        consumers: P::CONSUMERS,
        stages: STAGES as u32,
        box_c: BOX as u32,
    };
}

/// Whose the scales are, by the names in kernels' names.
#[allow(non_camel_case_types)]
mod scaled {
    pub type rows = super::OfRows;
    pub type groups = super::OfGroups;
}
use scaled::{groups, rows};

// The narrow tiles are for few rows of A, whose speed is that of the weights' bytes, the wide ones for many: where two sums
// are kept, of a group and of all of them, it is narrower. On sm_80 one tile serves all numbers of rows.
#[rustfmt::skip]
kernels! {
    /// The kernels of [`dequant_gemm_int8`](fn@dequant_gemm_int8).
    pub static INT8: DequantInt8Kernel;

    for (F, Z) in [(u4, none), (u4, original), (i4, none), (u2, none), (i2, none)], S in [rows, groups], T in [f16, bf16] {
        sm_90: [dequant_gemm_int8_sm_90_ S _ T _ F _ Z _256x16x256s4]:
            dequant_gemm_int8<WarpSpecialized<FourConsumersJointProducers>, FullRow<4>, S, F, Z, T, 256, 16, 256, 128, 16, 4>;
    }
    for (F, Z) in [(i8_, none)], S in [rows, groups], T in [f16, bf16] {
        sm_90: [dequant_gemm_int8_sm_90_ S _ T _ F _ Z _256x16x256s3]:
            dequant_gemm_int8<WarpSpecialized<FourConsumersJointProducers>, FullRow<4>, S, F, Z, T, 256, 16, 256, 128, 16, 3>;
    }
    for (F, Z) in [(u4, none), (u4, original), (i4, none)], S in [rows, groups], T in [f16] {
        sm_90: [dequant_gemm_int8_sm_90_ S _ T _ F _ Z _256x32x256s4]:
            dequant_gemm_int8<WarpSpecialized<FourConsumersJointProducers>, FullRow<4>, S, F, Z, T, 256, 32, 256, 128, 32, 4>;
    }
    for (F, Z) in [(u4, none), (u4, original), (i4, none)], S in [rows], T in [f16, bf16] {
        sm_90: [dequant_gemm_int8_sm_90_ S _ T _ F _ Z _128x128x256s3]:
            dequant_gemm_int8<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, S, F, Z, T, 128, 128, 256, 128, 64, 3>;
    }
    for (F, Z) in [(u2, none), (i2, none)], S in [rows], T in [f16] {
        sm_90: [dequant_gemm_int8_sm_90_ S _ T _ F _ Z _128x128x256s3]:
            dequant_gemm_int8<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, S, F, Z, T, 128, 128, 256, 128, 64, 3>;
    }
    for (F, Z) in [(i8_, none)], S in [rows], T in [f16] {
        sm_90: [dequant_gemm_int8_sm_90_ S _ T _ F _ Z _128x128x256s2]:
            dequant_gemm_int8<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, S, F, Z, T, 128, 128, 256, 128, 64, 2>;
    }
    for (F, Z) in [(u4, none), (u4, original), (i4, none)], S in [groups], T in [f16, bf16] {
        sm_90: [dequant_gemm_int8_sm_90_ S _ T _ F _ Z _128x96x256s3]:
            dequant_gemm_int8<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, S, F, Z, T, 128, 96, 256, 128, 96, 3>;
    }
    for (F, Z) in [(u4, none), (u4, original), (i4, none), (u2, none), (i2, none)], S in [rows, groups], T in [f16, bf16] {
        sm_80: [dequant_gemm_int8_sm_80_ S _ T _ F _ Z _64x32x128s4]:
            dequant_gemm_int8<Multistage<4, Vectors>, warp::FullRow<4>, S, F, Z, T, 64, 32, 128, 64, 0, 4>;
    }
    for (F, Z) in [(i8_, none)], S in [rows, groups], T in [f16, bf16] {
        sm_80: [dequant_gemm_int8_sm_80_ S _ T _ F _ Z _64x32x128s3]:
            dequant_gemm_int8<Multistage<4, Vectors>, warp::FullRow<4>, S, F, Z, T, 64, 32, 128, 64, 0, 3>;
    }
}
