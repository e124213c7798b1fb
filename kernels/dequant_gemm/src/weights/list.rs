//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    ColumnsLayout, Elements, Format, FourConsumersJointProducers, FullRow, GemmRegisters, Half, Multistage,
    Reads, Swizzle, TwoConsumersJointProducers, TwoConsumersJointProducersCluster, Vectors, WarpSpecialized,
    Zeros, warp,
};
use tilewright_device::{bf16, f16, kernels};

use super::dequant_gemm;
use super::policy::{Early, Queue, Wait};
use super::scaling::{OfSums, OfWeights, Scaling};
use crate::named::*;

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct DequantKernel {
    /// The activations' and the output's element type.
    pub element: &'static str,
    /// The weights' format.
    pub format: &'static str,
    /// Where the zero of a group enters.
    pub zeros: &'static str,
    /// Rows of W, rows of A and depth of a tile, which a cluster takes together.
    pub tile: [u32; 3],
    /// Threads that hold a tile's sums.
    pub consumers: u32,
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
> Described for dequant_gemm<P, Y, S, F, Z, T, BM, BN, BK, BOX, STAGES>
where
    S: Scaling<Y, F, Z, T, BM, BN, BK>,
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>, D: ColumnsLayout<BM, BN>>,
{
    type Description = DequantKernel;
    const DESCRIPTION: DequantKernel = DequantKernel {
        element: T::NAME,
        format: F::NAME,
        zeros: Z::NAME,
        tile: [BM as u32 * P::CLUSTER, BN as u32, BK as u32],
        consumers: P::CONSUMERS * P::CLUSTER,
        stages: STAGES as u32,
        box_c: BOX as u32,
        sums: S::SUMS,
        any_strides: P::ANY_STRIDES,
    };
}

/// What scales multiply, and how far decoding runs ahead: the rows' main loops.
#[allow(non_camel_case_types)]
pub(crate) mod scaled {
    pub type wait = super::OfWeights<super::Wait>;
    pub type early = super::OfWeights<super::Early>;
    pub type early_plain = super::OfWeights<super::Early, true>;
    pub type queue_plain = super::OfWeights<super::Queue, true>;
    pub type sums = super::OfSums<128>;
}
use scaled::{early, early_plain, queue_plain, sums, wait};

// The narrow tiles are for few rows of A, whose speed is that of the weights' bytes; the wide ones for many. Stages fill the
// shared memory. Clusters of two CTAs (`c2`) read A once. For up to 64 rows of A it takes fewer instructions to scale `sums`. On sm_80
// one tile serves all numbers of rows, and one reads any strides.
#[rustfmt::skip]
kernels! {
    /// The kernels of [`dequant_gemm`](fn@dequant_gemm).
    pub static WEIGHTS: DequantKernel;

    for (F, Z) in [(u4, none), (u4, original), (u4, rescaled)], T in [f16, bf16] {
        sm_90: [dequant_gemm_sm_90_ T _ F _ Z _256x16x256s4]:
            dequant_gemm<WarpSpecialized<FourConsumersJointProducers>, FullRow<4>, wait, F, Z, T, 256, 16, 256, 16, 4>;
        sm_90: [dequant_gemm_sm_90_ T _ F _ Z _256x64x128s5c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, queue_plain, F, Z, T, 256, 64, 128, 64, 5>;
    }
    for (F, Z) in [(u4, none), (u4, original), (i4, none)], T in [f16, bf16] {
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x16x128s8]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, sums, F, Z, T, 256, 16, 128, 16, 8>;
    }
    for (F, Z) in [(u4, none), (u4, original), (i4, none)], T in [f16, bf16] {
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x32x128s7c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, sums, F, Z, T, 256, 32, 128, 32, 7>;
    }
    for (F, Z) in [(u4, original), (i4, none)], T in [f16, bf16] {
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x64x128s5c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, sums, F, Z, T, 256, 64, 128, 64, 5>;
    }
    for (F, Z) in [(u4, none)], T in [f16] {
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x64x128s5c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, sums, F, Z, T, 256, 64, 128, 64, 5>;
    }
    for (F, Z) in [(nf4, none), (fp4, none), (u2, none), (u2, original), (i2, none), (u1, none), (u1, original), (i1, none)], T in [f16] {
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x16x128s8]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, sums, F, Z, T, 256, 16, 128, 16, 8>;
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x32x128s7c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, sums, F, Z, T, 256, 32, 128, 32, 7>;
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x64x128s5c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, sums, F, Z, T, 256, 64, 128, 64, 5>;
    }
    for (F, Z) in [(i8_, none), (i8_, original), (e4m3, none), (e5m2, none)], T in [f16] {
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x16x128s5]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, sums, F, Z, T, 256, 16, 128, 16, 5>;
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x32x128s4c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, sums, F, Z, T, 256, 32, 128, 32, 4>;
        sm_90: [dequant_sums_sm_90_ T _ F _ Z _256x64x128s3c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, sums, F, Z, T, 256, 64, 128, 64, 3>;
    }
    for (F, Z) in [(u4, rescaled)], T in [f16, bf16] {
        sm_90: [dequant_gemm_sm_90_ T _ F _ Z _128x256x64s5]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, early, F, Z, T, 128, 256, 64, 64, 5>;
    }
    for (F, Z) in [(u4, none), (u4, original), (i4, none)], T in [f16, bf16] {
        sm_90: [dequant_gemm_sm_90_ T _ F _ Z _256x128x128s3c2]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducersCluster>, FullRow<2>, early_plain, F, Z, T, 256, 128, 128, 64, 3>;
    }
    for (F, Z) in [(u4, none), (u4, original)], T in [f16, bf16] {
        sm_90: [dequant_gemm_sm_90_ T _ F _ Z _256x32x256s3]:
            dequant_gemm<WarpSpecialized<FourConsumersJointProducers>, FullRow<4>, wait, F, Z, T, 256, 32, 256, 32, 3>;
    }
    for (F, Z) in [(i4, none), (nf4, none), (fp4, none), (u2, none), (u2, original), (i2, none), (u1, none), (u1, original), (i1, none)], T in [f16, bf16] {
        sm_90: [dequant_gemm_sm_90_ T _ F _ Z _256x16x256s4]:
            dequant_gemm<WarpSpecialized<FourConsumersJointProducers>, FullRow<4>, wait, F, Z, T, 256, 16, 256, 16, 4>;
    }
    for (F, Z) in [(i8_, none), (i8_, original), (e4m3, none), (e5m2, none)], T in [f16, bf16] {
        sm_90: [dequant_gemm_sm_90_ T _ F _ Z _256x16x128s5]:
            dequant_gemm<WarpSpecialized<FourConsumersJointProducers>, FullRow<4>, wait, F, Z, T, 256, 16, 128, 16, 5>;
    }
    for (F, Z) in [(nf4, none), (fp4, none), (u2, none), (u2, original), (i2, none), (u1, none), (u1, original), (i1, none), (i8_, none), (i8_, original), (e4m3, none), (e5m2, none)], T in [f16] {
        sm_90: [dequant_gemm_sm_90_ T _ F _ Z _128x128x64s7]:
            dequant_gemm<WarpSpecialized<TwoConsumersJointProducers>, FullRow<2>, wait, F, Z, T, 128, 128, 64, 64, 7>;
    }
    for (F, Z) in [(u4, none), (u4, original)], T in [f16, bf16] {
        sm_80: [dequant_gemm_sm_80_ T _ F _ Z _64x16x64s4]:
            dequant_gemm<Multistage<4, Vectors>, warp::FullRow<4>, wait, F, Z, T, 64, 16, 64, 0, 4>;
        sm_80: [dequant_gemm_sm_80_ T _ F _ Z _64x64x64s4]:
            dequant_gemm<Multistage<4, Vectors>, warp::FullRow<4>, wait, F, Z, T, 64, 64, 64, 0, 4>;
    }
    for (F, Z) in [(u4, none), (u4, original), (u4, rescaled), (i4, none), (i4, original), (i4, rescaled), (u2, none), (u2, original), (u2, rescaled), (i2, none), (i2, original), (i2, rescaled), (u1, none), (u1, original), (u1, rescaled), (i1, none), (i1, original), (i1, rescaled), (i8_, none), (i8_, original), (i8_, rescaled), (nf4, none), (fp4, none), (e4m3, none), (e5m2, none)], T in [f16, bf16] {
        sm_80: [dequant_gemm_sm_80_ T _ F _ Z _64x32x64s3]:
            dequant_gemm<Multistage<4, Elements>, warp::FullRow<4>, wait, F, Z, T, 64, 32, 64, 0, 3>;
    }
}
