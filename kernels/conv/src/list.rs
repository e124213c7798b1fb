//! The convolution kernels that are compiled.

use tilewright_device::kernel::{Copies, Described};
use tilewright_device::tile::{
    ColMajor, Configuration, Element, Elements, FragmentLayout, FullRow, Gemm, GemmRegisters, Major,
    Multistage, OneConsumer, OutputLayout, Producers, RegisterBudget, RowMajor, Schedule, Striped,
    TwoConsumers, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::{ROWS, conv, conv_depthwise, conv_rows, conv_scattered, conv_weights};

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
    /// Outputs of a filter for each channel.
    Depthwise,
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
}

/// Three consumer warpgroups and a producer.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreeConsumers;

impl Configuration for ThreeConsumers {
    const CONSUMER_WARPGROUPS: u32 = 3;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 32, consumers: 160 });
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
    const LINE: usize,
> Described for conv_rows<P, Y, T, STEP, BM, BN, BK, LINE>
where
    Y: GemmRegisters<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    type Description = ConvKernel;
    const DESCRIPTION: ConvKernel = ConvKernel::new::<P, T>(Makes::Rows(STEP as u32), [BM, BN, BK], ROWS, 1);
}

impl<T: Element, const BM: usize, const BN: usize, const W: usize> Described for conv_depthwise<T, BM, BN, W>
where
    Striped<W>: FragmentLayout<BM, BN>,
{
    type Description = ConvKernel;
    const DESCRIPTION: ConvKernel = ConvKernel {
        makes: Makes::Depthwise,
        element: T::NAME,
        tile: [BM as u32, BN as u32, 1],
        stages: 1,
        split: 1,
        copies: Copies::Elements,
        consumers: 32 * W as u32,
    };
}

// Of Hopper's tiles of outputs the first is for waves that the second leaves half empty, the last for 64 outputs or few tiles. Stages fill the
// shared memory.
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
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, ColMajor, 128, 128, 64, 6, 1>;
        sm_90: [conv_sm_90_ T _128x128x64s4k2]:
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, ColMajor, 128, 128, 64, 4, 2>;
        sm_90: [conv_sm_90_ T _256x64x64s4k1]:
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, ColMajor, 256, 64, 64, 4, 1>;
        sm_90: [conv_sm_90_ T _128x64x64s8k1]:
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, ColMajor, 128, 64, 64, 8, 1>;
        sm_80: [conv_sm_80_ T _128x128x32s4k1]:
            conv<Multistage<8, Vectors>, warp::Square<4, 2>, T, ColMajor, 128, 128, 32, 4, 1>;
        sm_80: [conv_sm_80_ T _128x64x32s4k1]:
            conv<Multistage<4, Vectors>, warp::Square<2, 2>, T, ColMajor, 128, 64, 32, 4, 1>;
        sm_80: [conv_sm_80_ T _any_128x64x32s3k1]:
            conv<Multistage<8, Elements>, warp::Square<4, 2>, T, ColMajor, 128, 64, 32, 3, 1>;
        // First layers: three channels, of every second pixel.
        sm_80: [conv_rows_sm_80_ T _6_128x64x32]:
            conv_rows<Multistage<8, Elements>, warp::FullRow<8>, T, 6, 128, 64, 32, 800>;
        sm_90: [conv_inputs_sm_90_ T _128x256x64s4k1]:
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, RowMajor, 128, 256, 64, 4, 1>;
        sm_90: [conv_inputs_sm_90_ T _128x128x64s6k1]:
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, RowMajor, 128, 128, 64, 6, 1>;
        sm_90: [conv_inputs_sm_90_ T _256x64x64s4k1]:
            conv<WarpSpecialized<TwoConsumers>, FullRow<2>, T, RowMajor, 256, 64, 64, 4, 1>;
        sm_90: [conv_scattered_sm_90_ T _128x128x64s6]:
            conv_scattered<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 128, 128, 64, 6>;
        sm_90: [conv_scattered_sm_90_ T _128x64x64s8]:
            conv_scattered<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 128, 64, 64, 8>;
        sm_80: [conv_scattered_sm_80_ T _128x64x32s4]:
            conv_scattered<Multistage<4, Vectors>, warp::Square<2, 2>, T, 128, 64, 32, 4>;
        sm_80: [conv_scattered_sm_80_ T _any_128x64x32s3]:
            conv_scattered<Multistage<8, Elements>, warp::Square<4, 2>, T, 128, 64, 32, 3>;
        sm_90: [conv_weights_sm_90_ T _128x128x64s6]:
            conv_weights<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 128, 128, 64, 6>;
        sm_90: [conv_weights_sm_90_ T _64x64x64s8]:
            conv_weights<WarpSpecialized<OneConsumer>, FullRow<1>, T, 64, 64, 64, 8>;
        sm_80: [conv_weights_sm_80_ T _128x64x32s4]:
            conv_weights<Multistage<4, Vectors>, warp::Square<2, 2>, T, 128, 64, 32, 4>;
        sm_80: [conv_weights_sm_80_ T _any_64x64x32s3]:
            conv_weights<Multistage<4, Elements>, warp::Square<2, 2>, T, 64, 64, 32, 3>;
    }
    for T in [f16, bf16, f32] {
        sm_80: [conv_depthwise_sm_80_ T]: conv_depthwise<T, 64, 64, 4>;
    }
}
