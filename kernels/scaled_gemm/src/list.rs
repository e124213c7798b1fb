//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    ColMajor, E4M3E5M2x2, E4M3x2, E5M2E4M3x2, E5M2x2, Element, F8E4M3, FullRow, Gemm, HalfTf32, I8x2, Major,
    Multistage, OneConsumer, OutputLayout, RowMajor, Schedule, Swizzle, ThreeConsumers, TwoConsumers,
    TwoConsumersCluster, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::stored::Stored;
use crate::summation::{Ahead, Blocks, InTurn, Mode, Order, Promoted, Straight, Summation, SwappedBlocks};
use crate::{grouped_scaled_gemm, grouped_scaled_gemm_few, scaled_gemm, scaled_gemm_stream};

/// What the host chooses a kernel by.
#[derive(Clone, Copy, Debug)]
pub struct ScaledKernel {
    /// The element types of A and B: one name where they are the same.
    pub input: &'static str,
    /// C's element type, which is also the bias's, but of e4m3.
    pub output: &'static str,
    /// How products are summed up.
    pub mode: Mode,
    /// Rows, columns and depth of a tile, or of those that a cluster takes together, the depth in units of 16 bits.
    pub tile: [u32; 3],
    /// Stages of the pipeline.
    pub stages: u32,
    /// CTAs that divide a tile's depth.
    pub split: u32,
    /// Whether all CTAs divide it as it falls: stream-K.
    pub stream: bool,
    /// Threads of a CTA that compute.
    pub consumers: u32,
    /// Whether C is row-major; if not, the kernel computes the transposed product.
    pub row_major: bool,
    /// Lines of a TMA box of B and of C.
    pub box_lines: u32,
}

#[rustfmt::skip]
impl<
    P: Schedule, Y, S, T: Element, U: Stored<S::Sum>, OC: Major, const BM: usize, const BN: usize,
    const BK: usize, const STAGES: usize, const SPLIT: usize, const BOX: usize,
> Described for scaled_gemm<P, Y, S, T, U, OC, BM, BN, BK, STAGES, SPLIT, BOX>
where
    S: Summation<Y, T, BM, BN, BK>,
{
    type Description = ScaledKernel;
    const DESCRIPTION: ScaledKernel = ScaledKernel {
        input: T::NAME,
        output: U::NAME,
        mode: S::MODE,
        tile: [BM as u32 * P::CLUSTER, BN as u32, BK as u32],
        stages: STAGES as u32,
        split: SPLIT as u32,
        stream: false,
        consumers: P::CONSUMERS,
        row_major: OC::ROW_MAJOR,
        box_lines: BOX as u32,
    };
}

#[rustfmt::skip]
impl<
    P: Schedule, Y, S, T: Element, U: Stored<S::Sum>, OC: Major, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize,
    const BOX: usize,
> Described for scaled_gemm_stream<P, Y, S, T, U, OC, BM, BN, BK, STAGES, BOX>
where
    S: Summation<Y, T, BM, BN, BK>,
{
    type Description = ScaledKernel;
    const DESCRIPTION: ScaledKernel = ScaledKernel {
        input: T::NAME,
        output: U::NAME,
        mode: S::MODE,
        tile: [BM as u32, BN as u32, BK as u32],
        stages: STAGES as u32,
        split: 1,
        stream: true,
        consumers: P::CONSUMERS,
        row_major: OC::ROW_MAJOR,
        box_lines: BOX as u32,
    };
}

/// What the host chooses a kernel by of products of groups, with scales of blocks.
#[derive(Clone, Copy, Debug)]
pub struct GroupedScaledKernel {
    /// The element type of A and B.
    pub input: &'static str,
    /// C's element type.
    pub output: &'static str,
    /// Rows of A, columns of C and depth of a tile, the depth in units of 16 bits.
    pub tile: [u32; 3],
    /// Stages of the pipeline.
    pub stages: u32,
    /// Whether it is made for groups of few rows: it computes the transposed product.
    pub few: bool,
    /// Lines of a TMA box of A.
    pub box_lines: u32,
}

#[rustfmt::skip]
impl<
    P: Schedule, Y, O: Order, T: Element, U: Element, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize,
> Described for grouped_scaled_gemm<P, Y, O, T, U, BM, BN, BK, STAGES>
where
    Y: Gemm<T, BM, BN, BK, A = Swizzle<128>, B = Swizzle<128>, D: OutputLayout<BM, BN>>,
{
    type Description = GroupedScaledKernel;
    const DESCRIPTION: GroupedScaledKernel = GroupedScaledKernel {
        input: T::NAME,
        output: U::NAME,
        tile: [BM as u32, BN as u32, BK as u32],
        stages: STAGES as u32,
        few: false,
        box_lines: 64,
    };
}

#[rustfmt::skip]
impl<P: Schedule, Y, T: Element, U: Element, const BN: usize, const BM: usize, const BK: usize, const STAGES: usize> Described
    for grouped_scaled_gemm_few<P, Y, T, U, BN, BM, BK, STAGES>
where
    Y: Gemm<T, BN, BM, BK, A = Swizzle<128>, B = Swizzle<128>>,
{
    type Description = GroupedScaledKernel;
    const DESCRIPTION: GroupedScaledKernel = GroupedScaledKernel {
        input: T::NAME,
        output: U::NAME,
        tile: [BM as u32, BN as u32, BK as u32],
        stages: STAGES as u32,
        few: true,
        box_lines: BM as u32,
    };
}

/// Element types by the names that they have in kernels' names.
#[allow(non_camel_case_types)]
mod named {
    use super::*;
    pub type e4m3 = E4M3x2;
    pub type e5m2 = E5M2x2;
    pub type e4m3_e5m2 = E4M3E5M2x2;
    pub type e5m2_e4m3 = E5M2E4M3x2;
    pub type i8_ = I8x2;
    pub type tf32 = HalfTf32;
}
use named::*;

// Large tiles and small ones of two warpgroups, and of one for few rows, which compute the transposed product. Promoted sums take registers of their own beside the
// accumulators. Where these allow a second sum, a warpgroup adds one while the tensor cores have its next gemms (`Ahead`); else they have another warpgroup's
// (`InTurn`).
#[rustfmt::skip]
kernels! {
    /// The kernels of [`scaled_gemm`](fn@scaled_gemm).
    pub static SCALED: ScaledKernel;

    for T in [e4m3, e5m2, e4m3_e5m2, e5m2_e4m3], U in [f16, bf16, f32] {
        sm_90: [scaled_gemm_sm_90_ T _ U _promoted_128x128x64s6c2]:
            scaled_gemm<WarpSpecialized<TwoConsumersCluster>, FullRow<2>, Promoted, T, U, RowMajor, 128, 128, 64, 6, 1, 64>;
    }
    for T in [e4m3], U in [f16, bf16] {
        sm_90: [scaled_gemm_sm_90_ T _ U _promoted_192x128x64s4k1]:
            scaled_gemm<WarpSpecialized<ThreeConsumers>, FullRow<3>, Promoted<InTurn>, T, U, RowMajor, 192, 128, 64, 4, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _promoted_128x64x64s8k1]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Promoted, T, U, RowMajor, 128, 64, 64, 8, 1, 64>;
    }
    // Some ten to some hundred rows: in tiles of as many lines as fill a wave.
    for (T, U, OF) in [(e4m3, f16, f16), (e4m3, bf16, bf16), (e4m3, F8E4M3, e4m3)] {
        sm_90: [scaled_gemm_sm_90_ T _ OF _promoted_swap_128x96x64s6k1]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Promoted, T, U, ColMajor, 128, 96, 64, 6, 1, 96>;
        sm_90: [scaled_gemm_sm_90_ T _ OF _promoted_swap_64x112x64s9k1]:
            scaled_gemm<WarpSpecialized<OneConsumer>, FullRow<1>, Promoted, T, U, ColMajor, 64, 112, 64, 9, 1, 112>;
        sm_90: [scaled_gemm_sm_90_ T _ OF _promoted_swap_64x96x64s10k1]:
            scaled_gemm<WarpSpecialized<OneConsumer>, FullRow<1>, Promoted, T, U, ColMajor, 64, 96, 64, 10, 1, 96>;
        sm_90: [scaled_gemm_sm_90_ T _ OF _promoted_swap_64x64x64s12k1]:
            scaled_gemm<WarpSpecialized<OneConsumer>, FullRow<1>, Promoted, T, U, ColMajor, 64, 64, 64, 12, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ OF _promoted_swap_64x64x64s10_stream]:
            scaled_gemm_stream<WarpSpecialized<OneConsumer>, FullRow<1>, Promoted, T, U, ColMajor, 64, 64, 64, 10, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ OF _promoted_128x128x64s6_stream]:
            scaled_gemm_stream<WarpSpecialized<TwoConsumers>, FullRow<2>, Promoted, T, U, RowMajor, 128, 128, 64, 6, 64>;
    }
    for T in [e4m3], U in [f16, bf16] {
        sm_90: [scaled_gemm_sm_90_ T _ U _blocks_128x64x64s8k1]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Blocks, T, U, RowMajor, 128, 64, 64, 8, 1, 64>;
    }
    for T in [e4m3], U in [f16, bf16, f32] {
        sm_90: [scaled_gemm_sm_90_ T _ U _promoted_128x64x64s8k2]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Promoted, T, U, RowMajor, 128, 64, 64, 8, 2, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _promoted_swap_64x16x64s20k2]:
            scaled_gemm<WarpSpecialized<OneConsumer>, FullRow<1>, Promoted, T, U, ColMajor, 64, 16, 64, 20, 2, 16>;
        sm_90: [scaled_gemm_sm_90_ T _ U _blocks_128x128x64s6c2]:
            scaled_gemm<WarpSpecialized<TwoConsumersCluster>, FullRow<2>, Blocks, T, U, RowMajor, 128, 128, 64, 6, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _blocks_128x64x64s8k2]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Blocks, T, U, RowMajor, 128, 64, 64, 8, 2, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _blocks_swap_64x16x64s20k2]:
            scaled_gemm<WarpSpecialized<OneConsumer>, FullRow<1>, SwappedBlocks, T, U, ColMajor, 64, 16, 64, 20, 2, 16>;
    }
    for (T, U) in [(e4m3, f16), (e4m3, bf16), (e4m3_e5m2, bf16), (e5m2_e4m3, bf16)] {
        sm_90: [scaled_gemm_sm_90_ T _ U _fast_128x256x64s4k1]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Straight<f32>, T, U, RowMajor, 128, 256, 64, 4, 1, 64>;
    }
    for T in [e4m3], U in [F8E4M3] {
        sm_90: [scaled_gemm_sm_90_ T _e4m3_promoted_192x128x64s4k1]:
            scaled_gemm<WarpSpecialized<ThreeConsumers>, FullRow<3>, Promoted<InTurn>, T, U, RowMajor, 192, 128, 64, 4, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _e4m3_promoted_128x128x64s6c2]:
            scaled_gemm<WarpSpecialized<TwoConsumersCluster>, FullRow<2>, Promoted, T, U, RowMajor, 128, 128, 64, 6, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _e4m3_promoted_128x64x64s8k1]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Promoted, T, U, RowMajor, 128, 64, 64, 8, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _e4m3_promoted_128x64x64s8k2]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Promoted, T, U, RowMajor, 128, 64, 64, 8, 2, 64>;
        sm_90: [scaled_gemm_sm_90_ T _e4m3_promoted_swap_64x16x64s20k2]:
            scaled_gemm<WarpSpecialized<OneConsumer>, FullRow<1>, Promoted, T, U, ColMajor, 64, 16, 64, 20, 2, 16>;
        sm_90: [scaled_gemm_sm_90_ T _e4m3_fast_128x256x64s4k1]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Straight<f32>, T, U, RowMajor, 128, 256, 64, 4, 1, 64>;
    }
    for T in [tf32], U in [f32] {
        sm_90: [scaled_gemm_sm_90_ T _ U _128x256x64s4k1]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Straight<f32>, T, U, RowMajor, 128, 256, 64, 4, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _128x64x64s8k2]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Straight<f32>, T, U, RowMajor, 128, 64, 64, 8, 2, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _swap_64x16x64s20k2]:
            scaled_gemm<WarpSpecialized<OneConsumer>, FullRow<1>, Straight<f32>, T, U, ColMajor, 64, 16, 64, 20, 2, 16>;
    }
    // Of operands that are split in parts.
    for T in [tf32], U in [f32] {
        sm_90: [scaled_gemm_sm_90_ T _ U _promoted_128x128x64s6c2]:
            scaled_gemm<WarpSpecialized<TwoConsumersCluster>, FullRow<2>, Promoted, T, U, RowMajor, 128, 128, 64, 6, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _promoted_128x64x64s8k2]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Promoted, T, U, RowMajor, 128, 64, 64, 8, 2, 64>;
    }
    for T in [i8_], U in [i32, f16, bf16] {
        sm_90: [scaled_gemm_sm_90_ T _ U _128x256x64s4k1]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Straight<i32>, T, U, RowMajor, 128, 256, 64, 4, 1, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _128x64x64s8k2]:
            scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Straight<i32>, T, U, RowMajor, 128, 64, 64, 8, 2, 64>;
        sm_90: [scaled_gemm_sm_90_ T _ U _swap_64x16x64s20k2]:
            scaled_gemm<WarpSpecialized<OneConsumer>, FullRow<1>, Straight<i32>, T, U, ColMajor, 64, 16, 64, 20, 2, 16>;
        sm_80: [scaled_gemm_sm_80_ T _ U _128x128x64s2k1]:
            scaled_gemm<Multistage<4, Vectors>, warp::Square<2, 2>, Straight<i32>, T, U, RowMajor, 128, 128, 64, 2, 1, 64>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of products of groups.
    pub static GROUPED_SCALED: GroupedScaledKernel;

    for T in [e4m3], U in [f16, bf16] {
        sm_90: [grouped_scaled_gemm_sm_90_ T _ U _192x128x64s4]:
            grouped_scaled_gemm<WarpSpecialized<ThreeConsumers>, FullRow<3>, InTurn, T, U, 192, 128, 64, 4>;
        sm_90: [grouped_scaled_gemm_sm_90_ T _ U _128x128x64s6]:
            grouped_scaled_gemm<WarpSpecialized<TwoConsumers>, FullRow<2>, Ahead, T, U, 128, 128, 64, 6>;
        sm_90: [grouped_scaled_gemm_sm_90_ T _ U _32x128x64s10]:
            grouped_scaled_gemm_few<WarpSpecialized<TwoConsumers>, FullRow<2>, T, U, 128, 32, 64, 10>;
    }
}
