//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Collective, Configuration, Element, Elements, FragmentLayout, FullRow, Multistage, OneConsumer,
    Producers, Program, Reads, RegisterBudget, Simt, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::conv::{CHANNELS, Lanes, causal_conv1d};
use crate::decoding::{ROWS as STATE_ROWS, state_step};
use crate::passing::{COLS, ROWS, state_passing};
use crate::products::Products;
use crate::scan::chunk_scan;
use crate::states::chunk_state;
use crate::steps::{HEADS, chunk_steps};

/// One consumer warpgroup and a producer, two CTAs an SM: one computes weights while the other's products run.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoPerSm;

impl Configuration for TwoPerSm {
    const CONSUMER_WARPGROUPS: u32 = 1;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 208 });
    const CTAS_PER_SM: u32 = 2;
}

/// What the host chooses a kernel of the scan, or of chunks' states, by.
#[derive(Clone, Copy, Debug)]
pub struct ScanKernel {
    /// The element type of x, B, C and y.
    pub element: &'static str,
    /// The most columns of B and C.
    pub columns: u32,
    /// Stages of the pipeline.
    pub stages: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
}

impl ScanKernel {
    const fn new<P: Reads, T: Element>(columns: usize, stages: usize) -> Self {
        ScanKernel {
            element: T::NAME,
            columns: columns as u32,
            stages: stages as u32,
            any_strides: P::ANY_STRIDES,
        }
    }
}

impl<P: Reads, Y, T: Element, const N: usize, const STAGES: usize> Described
    for chunk_scan<P, Y, T, N, STAGES>
where
    Y: Products<T, N>,
{
    type Description = ScanKernel;
    const DESCRIPTION: ScanKernel = ScanKernel::new::<P, T>(N, STAGES);
}

impl<P: Reads, Y, T: Element, const N: usize, const STAGES: usize> Described
    for chunk_state<P, Y, T, N, STAGES>
where
    Y: Products<T, N>,
{
    type Description = ScanKernel;
    const DESCRIPTION: ScanKernel = ScanKernel::new::<P, T>(N, STAGES);
}

/// A kernel of steps of time.
#[derive(Clone, Copy, Debug)]
pub struct StepsKernel {
    /// The element type of dt.
    pub element: &'static str,
    /// Heads of a CTA.
    pub heads: u32,
}

impl<P: Collective, U: Element> Described for chunk_steps<P, U> {
    type Description = StepsKernel;
    const DESCRIPTION: StepsKernel = StepsKernel { element: U::NAME, heads: HEADS as u32 };
}

/// A kernel that hands states on.
#[derive(Clone, Copy, Debug)]
pub struct PassingKernel {
    /// Rows and columns of a CTA's tile of a state.
    pub tile: [u32; 2],
}

impl<P: Collective> Described for state_passing<P> {
    type Description = PassingKernel;
    const DESCRIPTION: PassingKernel = PassingKernel { tile: [ROWS as u32, COLS as u32] };
}

/// What the host chooses a kernel of the decoding step by.
#[derive(Clone, Copy, Debug)]
pub struct StateStepKernel {
    /// The element type of x, B, C, z and y.
    pub element: &'static str,
    /// The element type of dt.
    pub time: &'static str,
    /// The element type of the state.
    pub state: &'static str,
    /// Rows of a state that a CTA takes.
    pub rows: u32,
}

impl<P: Program, T: Element, U: Element, S: Element> Described for state_step<P, T, U, S> {
    type Description = StateStepKernel;
    const DESCRIPTION: StateStepKernel =
        StateStepKernel { element: T::NAME, time: U::NAME, state: S::NAME, rows: STATE_ROWS as u32 };
}

/// What the host chooses a kernel of the convolution by.
#[derive(Clone, Copy, Debug)]
pub struct ConvKernel {
    /// The element type of its tensors.
    pub element: &'static str,
    /// The most taps of a filter.
    pub taps: u32,
    /// Tokens and channels of a CTA.
    pub tile: [u32; 2],
}

impl<P: Program, T: Element, const M: usize, const TAPS: usize, const TILES: usize> Described
    for causal_conv1d<P, T, M, TAPS, TILES>
where
    Lanes: FragmentLayout<M, CHANNELS>,
{
    type Description = ConvKernel;
    const DESCRIPTION: ConvKernel =
        ConvKernel { element: T::NAME, taps: TAPS as u32, tile: [(M * TILES) as u32, CHANNELS as u32] };
}

#[rustfmt::skip]
kernels! {
    /// The kernels of the scan.
    pub static SCAN: ScanKernel;

    for T in [f16, bf16] {
        for N in [64, 128] {
            sm_90: [chunk_scan_sm_90_ T _n N s2]: chunk_scan<WarpSpecialized<TwoPerSm>, FullRow<1>, T, N, 2>;
        }
        sm_90: [chunk_scan_sm_90_ T _n256s2]: chunk_scan<WarpSpecialized<OneConsumer>, FullRow<1>, T, 256, 2>;
        for N in [64, 128] {
            sm_80: [chunk_scan_sm_80_ T _n N s2]: chunk_scan<Multistage<4, Vectors>, warp::FullRow<4>, T, N, 2>;
        }
        sm_80: [chunk_scan_sm_80_ T _n256s1]: chunk_scan<Multistage<4, Vectors>, warp::FullRow<4>, T, 256, 1>;
        sm_80: [chunk_scan_sm_80_ T _n128s2_any]: chunk_scan<Multistage<4, Elements>, warp::FullRow<4>, T, 128, 2>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of chunks' states.
    pub static STATE: ScanKernel;

    for T in [f16, bf16] {
        for N in [64, 128] {
            sm_90: [chunk_state_sm_90_ T _n N s3]: chunk_state<WarpSpecialized<TwoPerSm>, FullRow<1>, T, N, 3>;
        }
        sm_90: [chunk_state_sm_90_ T _n256s2]: chunk_state<WarpSpecialized<OneConsumer>, FullRow<1>, T, 256, 2>;
        for N in [64, 128] {
            sm_80: [chunk_state_sm_80_ T _n N s2]: chunk_state<Multistage<4, Vectors>, warp::FullRow<4>, T, N, 2>;
        }
        sm_80: [chunk_state_sm_80_ T _n256s2]: chunk_state<Multistage<4, Vectors>, warp::FullRow<4>, T, 256, 2>;
        sm_80: [chunk_state_sm_80_ T _n128s2_any]: chunk_state<Multistage<4, Elements>, warp::FullRow<4>, T, 128, 2>;
    }
}

kernels! {
    /// The kernels of steps of time.
    pub static STEPS: StepsKernel;

    for U in [f16, bf16, f32] {
        sm_80: [chunk_steps_sm_80_ U]: chunk_steps<Simt<4>, U>;
    }
}

kernels! {
    /// The kernels that hand states on from chunk to chunk.
    pub static PASSING: PassingKernel;

    sm_80: [state_passing_sm_80]: state_passing<Simt<4>>;
}

kernels! {
    /// The kernels of the decoding step.
    pub static STATE_STEP: StateStepKernel;

    for T in [f16, bf16] {
        for U in [T, f32], S in [T, f32] {
            sm_80: [state_step_sm_80_ T _ U _ S]: state_step<Simt<4>, T, U, S>;
        }
    }
}

kernels! {
    /// The kernels of the causal convolution.
    pub static CONV: ConvKernel;

    for T in [f16, bf16, f32] {
        sm_80: [causal_conv1d_sm_80_ T _4x16w4]: causal_conv1d<Simt<1>, T, 4, 4, 16>;
        sm_80: [causal_conv1d_sm_80_ T _1x1w4]: causal_conv1d<Simt<1>, T, 1, 4, 1>;
        sm_80: [causal_conv1d_sm_80_ T _4x16w8]: causal_conv1d<Simt<1>, T, 4, 8, 16>;
    }
}
