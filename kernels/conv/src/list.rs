//! The convolution kernels that are compiled.

use tilewright_device::kernel::{Copies, Described};
use tilewright_device::tile::{
    Access, ColMajor, Elected, Element, Elements, FullRow, Gemm, GemmRegisters, Major, Multistage,
    OneConsumer, OutputLayout, PerWarpgroup, PingPong, RowMajor, Schedule, ThreeConsumers, TwoConsumers,
    Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::{ROWS, RUN, STRIP, THREADS, conv, conv_depthwise, conv_rows, conv_scattered, conv_weights};

/// What a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Makes {
    /// Outputs of weights whose channels are contiguous.
    Outputs,
    /// Outputs of few channels, whose filters' rows are one tap, and whose neighbours lie so many elements apart in images.
    Rows(u32),
    /// Gradients of inputs: the same where what the outputs are here is contiguous.
    Inputs,
    /// Gradients of inputs whose pixels lie anywhere.
    Scattered,
    /// Gradients of weights.
    Weights,
    /// Outputs of a filter for each channel, so many of whose columns are taken at once, of outputs so many pixels apart: 0 of any.
    Depthwise([u32; 2]),
}

/// What the host chooses a convolution kernel by.
#[derive(Clone, Copy, Debug)]
pub struct ConvKernel {
    /// What it makes.
    pub makes: Makes,
    /// The element type of all tensors.
    pub element: &'static str,
    /// Rows, columns and depth of a tile.
    pub tile: [u32; 3],
    /// Stages of the pipeline.
    pub stages: u32,
    /// CTAs that divide a tile's depth.
    pub split: u32,
    /// How its tiles are copied.
    pub copies: Copies,
    /// Threads that hold a tile's sums.
    pub consumers: u32,
    /// Whether warpgroups have tiles of their own.
    pub apart: bool,
}

impl ConvKernel {
    const fn new<P: Schedule, T: Element>(
        makes: Makes,
        tile: [usize; 3],
        stages: usize,
        split: usize,
    ) -> Self {
        let [m, n, k] = tile;
        ConvKernel {
            makes,
            element: T::NAME,
            tile: [m as u32, n as u32, k as u32],
            stages: stages as u32,
            split: split as u32,
            copies: P::COPIES,
            consumers: P::COMPUTING,
            apart: P::APART,
        }
    }
}

#[rustfmt::skip]
impl<
    P: Schedule, Y, T: Element, OW: Major, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize,
    const SPLIT: usize,
> Described for conv<P, Y, T, OW, BM, BN, BK, STAGES, SPLIT>
where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Description = ConvKernel;
    const DESCRIPTION: ConvKernel = ConvKernel::new::<P, T>(
        if OW::ROW_MAJOR { Makes::Inputs } else { Makes::Outputs }, [BM, BN, BK], STAGES, SPLIT,
    );
}

#[rustfmt::skip]
impl<P: Schedule, Y, T: Element, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize> Described
    for conv_scattered<P, Y, T, BM, BN, BK, STAGES>
where
    Y: Gemm<T, BM, BN, BK>,
{
    type Description = ConvKernel;
    const DESCRIPTION: ConvKernel = ConvKernel::new::<P, T>(Makes::Scattered, [BM, BN, BK], STAGES, 1);
}

#[rustfmt::skip]
impl<P: Schedule, Y, T: Element, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize> Described
    for conv_weights<P, Y, T, BM, BN, BK, STAGES>
where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Description = ConvKernel;
    const DESCRIPTION: ConvKernel = ConvKernel::new::<P, T>(Makes::Weights, [BM, BN, BK], STAGES, 1);
}

#[rustfmt::skip]
impl<
    P: Schedule<Ticket = bool>, Y, T: Element, const STEP: usize, const BM: usize, const BN: usize, const BK: usize,
    const LINE: usize, const COPIES: usize,
> Described for conv_rows<P, Y, T, STEP, BM, BN, BK, LINE, COPIES>
where
    Y: GemmRegisters<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Description = ConvKernel;
    const DESCRIPTION: ConvKernel = ConvKernel::new::<P, T>(Makes::Rows(STEP as u32), [BM, BN, BK], ROWS, 1);
}

impl<A: Access, T: Element, const S: usize, const STRIDE: usize, const N: usize> Described
    for conv_depthwise<A, T, S, STRIDE, N>
{
    type Description = ConvKernel;
    const DESCRIPTION: ConvKernel = ConvKernel {
        makes: Makes::Depthwise([S as u32, STRIDE as u32]),
        element: T::NAME,
        tile: [STRIP as u32, RUN as u32, 1],
        stages: 1,
        split: 1,
        copies: if A::VECTORS { Copies::Pieces } else { Copies::Elements },
        consumers: THREADS as u32,
        apart: false,
    };
}

// Of Hopper's tiles of outputs the first two are for waves that 128 x 128, whose epilogue no other tile waits for, leaves half empty; those of one warpgroup for few tiles, the last
// two for 64 outputs. Stages fill the shared memory.
#[rustfmt::skip]
kernels! {
    /// The convolution kernels.
    pub static CONV: ConvKernel;

    for T in [f16, bf16] {
        sm_90: [conv_sm_90_ T _192x128x64s4k1]:
            conv<WarpSpecialized<ThreeConsumers>, FullRow<3>, T, ColMajor, 192, 128, 64, 4, 1>;
        sm_90: [conv_sm_90_ T _128x256x64s4k1]:
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, ColMajor, 128, 256, 64, 4, 1>;
        sm_90: [conv_sm_90_ T _128x128x64s6k1]:
            conv<WarpSpecialized<Elected<PingPong>>, PerWarpgroup<2>, T, ColMajor, 128, 128, 64, 6, 1>;
        sm_90: [conv_sm_90_ T _64x128x64s8k1]:
            conv<WarpSpecialized<Elected<OneConsumer>>, FullRow<1>, T, ColMajor, 64, 128, 64, 8, 1>;
        sm_90: [conv_sm_90_ T _64x64x64s12k1]:
            conv<WarpSpecialized<Elected<OneConsumer>>, FullRow<1>, T, ColMajor, 64, 64, 64, 12, 1>;
        sm_90: [conv_sm_90_ T _64x64x64s11k2]:
            conv<WarpSpecialized<Elected<OneConsumer>>, FullRow<1>, T, ColMajor, 64, 64, 64, 11, 2>;
        sm_90: [conv_sm_90_ T _256x64x64s5k1]:
            conv<WarpSpecialized<Elected<PingPong>>, PerWarpgroup<2>, T, ColMajor, 256, 64, 64, 5, 1>;
        sm_90: [conv_sm_90_ T _128x64x64s8k1]:
            conv<WarpSpecialized<Elected<PingPong>>, PerWarpgroup<2>, T, ColMajor, 128, 64, 64, 8, 1>;
        sm_80: [conv_sm_80_ T _128x128x32s4k1]:
            conv<Multistage<8, Vectors>, warp::Square<4, 2>, T, ColMajor, 128, 128, 32, 4, 1>;
        sm_80: [conv_sm_80_ T _128x64x32s4k1]:
            conv<Multistage<4, Vectors>, warp::Square<2, 2>, T, ColMajor, 128, 64, 32, 4, 1>;
        sm_80: [conv_sm_80_ T _any_128x64x32s3k1]:
            conv<Multistage<8, Elements>, warp::Square<4, 2>, T, ColMajor, 128, 64, 32, 3, 1>;
        // First layers: three channels, of every second pixel and of every one.
        sm_80: [conv_rows_sm_80_ T _6_128x64x32]:
            conv_rows<Multistage<8, Elements>, warp::FullRow<8>, T, 6, 128, 64, 32, 800, 1>;
        sm_80: [conv_rows_sm_80_ T _6_128x32x32]:
            conv_rows<Multistage<8, Elements>, warp::FullRow<8>, T, 6, 128, 32, 32, 800, 1>;
        sm_80: [conv_rows_sm_80_ T _3_128x64x16]:
            conv_rows<Multistage<8, Elements>, warp::FullRow<8>, T, 3, 128, 64, 16, 400, 2>;
        // Outputs of neighbouring pixels, and of every second.
        sm_80: [conv_depthwise_sm_80_ T _by3s1]: conv_depthwise<Vectors, T, 3, 1, 6>;
        sm_80: [conv_depthwise_sm_80_ T _by3s2]: conv_depthwise<Vectors, T, 3, 2, 9>;
        sm_80: [conv_depthwise_sm_80_ T _by5s1]: conv_depthwise<Vectors, T, 5, 1, 8>;
        sm_80: [conv_depthwise_sm_80_ T _by5s2]: conv_depthwise<Vectors, T, 5, 2, 11>;
        sm_80: [conv_depthwise_sm_80_ T _by7s1]: conv_depthwise<Vectors, T, 7, 1, 10>;
        sm_90: [conv_inputs_sm_90_ T _128x256x64s4k1]:
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, RowMajor, 128, 256, 64, 4, 1>;
        sm_90: [conv_inputs_sm_90_ T _128x128x64s6k1]:
            conv<WarpSpecialized<Elected<PingPong>>, PerWarpgroup<2>, T, RowMajor, 128, 128, 64, 6, 1>;
        sm_90: [conv_inputs_sm_90_ T _128x64x64s8k1]:
            conv<WarpSpecialized<Elected<PingPong>>, PerWarpgroup<2>, T, RowMajor, 128, 64, 64, 8, 1>;
        sm_90: [conv_scattered_sm_90_ T _128x128x64s6]:
            conv_scattered<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 128, 128, 64, 6>;
        sm_90: [conv_scattered_sm_90_ T _128x64x64s8]:
            conv_scattered<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 128, 64, 64, 8>;
        sm_80: [conv_scattered_sm_80_ T _128x64x32s4]:
            conv_scattered<Multistage<4, Vectors>, warp::Square<2, 2>, T, 128, 64, 32, 4>;
        sm_80: [conv_scattered_sm_80_ T _any_128x64x32s3]:
            conv_scattered<Multistage<8, Elements>, warp::Square<4, 2>, T, 128, 64, 32, 3>;
        sm_90: [conv_weights_sm_90_ T _128x128x64s6]:
            conv_weights<WarpSpecialized<Elected<TwoConsumers>>, FullRow<2>, T, 128, 128, 64, 6>;
        sm_90: [conv_weights_sm_90_ T _64x64x64s8]:
            conv_weights<WarpSpecialized<OneConsumer>, FullRow<1>, T, 64, 64, 64, 8>;
        sm_80: [conv_weights_sm_80_ T _128x64x32s4]:
            conv_weights<Multistage<4, Vectors>, warp::Square<2, 2>, T, 128, 64, 32, 4>;
        sm_80: [conv_weights_sm_80_ T _any_64x64x32s3]:
            conv_weights<Multistage<4, Elements>, warp::Square<2, 2>, T, 64, 64, 32, 3>;
    }
    for T in [f16, bf16, f32] {
        sm_80: [conv_depthwise_sm_80_ T _any]: conv_depthwise<Elements, T, 1, 0, 4>;
    }
}
