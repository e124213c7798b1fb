//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Configuration, Element, Elements, FragmentLayout, FullCol, FullRow, Gemm, Multistage, OneConsumer,
    Producers, Reads, RegisterBudget, Striped, Swizzle, Tf32, Threads, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::channel_gradients::channel_gradient;
use crate::chunk_walk::chunk_states;
use crate::chunked::retention;
use crate::column_pairs::ColumnPairs;
use crate::gradients::gradient;
use crate::passing::pass_by_transitions;
use crate::policy::{CHUNK, Prepares, Scores, States};
use crate::preparation::prepare;
use crate::scanning::scan;
use crate::solving::solve;
use crate::stepping::step;

/// A consumer warpgroup and a producer, two CTAs an SM: one's gemms run while the other's scores are decayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoPerSm;

impl Configuration for TwoPerSm {
    const CONSUMER_WARPGROUPS: u32 = 1;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 208 });
    const CTAS_PER_SM: u32 = 2;
}

/// Consumer warpgroups and a producer, to whom each warp gives stages back: its threads read what is in them, not its gemms alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByWarps<const WARPGROUPS: u32, const CTAS: u32>;

impl<const WARPGROUPS: u32, const CTAS: u32> Configuration for ByWarps<WARPGROUPS, CTAS> {
    const CONSUMER_WARPGROUPS: u32 = WARPGROUPS;
    const PRODUCERS: Producers = Producers::Joint(1);
    const REGISTERS: Option<RegisterBudget> = match (WARPGROUPS, CTAS) {
        (1, 1) => None,
        (1, _) => Some(RegisterBudget { producers: 40, consumers: 208 }),
        _ => Some(RegisterBudget { producers: 40, consumers: 232 }),
    };
    const CTAS_PER_SM: u32 = CTAS;
}

/// What the host chooses a kernel of [`retention`](retention()) by.
#[derive(Clone, Copy, Debug)]
pub struct ChunkKernel {
    /// The element type of Q, K, V and O.
    pub element: &'static str,
    /// Columns of V of a CTA, and the most columns of K.
    pub columns: [u32; 2],
    /// Stages of its pipeline.
    pub stages: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
    /// What it computes.
    pub way: Way,
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Decays that all channels of a head share: see [`retention`](crate::retention()).
    Heads,
    /// The same by the delta rule.
    Delta,
    /// The state over chunks that were prepared, with decays of channels: see [`scan`](crate::scan()).
    Channels,
    /// The same by the delta rule.
    ChannelsDelta,
}

impl Way {
    /// Whether it follows the delta rule.
    pub const fn corrects(self) -> bool {
        matches!(self, Way::Delta | Way::ChannelsDelta)
    }

    /// Whether each channel decays by itself.
    pub const fn by_channels(self) -> bool {
        matches!(self, Way::Channels | Way::ChannelsDelta)
    }
}

#[rustfmt::skip]
impl<
    P: Reads, Y, X, T: Element, const DV: usize, const DK: usize, const D: usize, const PARTS: usize, const STAGES: usize,
    const DELTA: bool,
> Described for retention<P, Y, X, T, DV, DK, D, PARTS, STAGES, DELTA>
where
    Y: States<T, DV, D>,
    X: Scores<T, DK>,
{
    type Description = ChunkKernel;
    const DESCRIPTION: ChunkKernel = ChunkKernel {
        element: T::NAME,
        columns: [DV as u32, DK as u32],
        stages: STAGES as u32,
        any_strides: P::ANY_STRIDES,
        way: if DELTA { Way::Delta } else { Way::Heads },
    };
}

#[rustfmt::skip]
impl<
    P: Reads, Y, T: Element, const DV: usize, const DK: usize, const D: usize, const PARTS: usize, const STAGES: usize,
    const DELTA: bool,
> Described for scan<P, Y, T, DV, DK, D, PARTS, STAGES, DELTA>
where
    Y: States<T, DV, D>,
{
    type Description = ChunkKernel;
    const DESCRIPTION: ChunkKernel = ChunkKernel {
        element: T::NAME,
        columns: [DV as u32, DK as u32],
        stages: STAGES as u32,
        any_strides: true,
        way: if DELTA { Way::ChannelsDelta } else { Way::Channels },
    };
}

/// What the host finds a kernel of [`prepare`](crate::prepare()) by.
#[derive(Clone, Copy, Debug)]
pub struct PrepareKernel {
    /// The element type of Q, K and V.
    pub element: &'static str,
    /// Columns of what it writes.
    pub columns: u32,
    /// Whether it is for the delta rule.
    pub delta: bool,
}

/// What the host finds a kernel of [`solve`](crate::solve()) by.
#[derive(Clone, Copy, Debug)]
pub struct SolveKernel {
    /// The element type of K and V.
    pub element: &'static str,
    /// Columns of `known`.
    pub columns: u32,
}

/// The policies of what prepares chunks: of a chunk's products, and of a quarter's.
type Products = warp::Square<4, 2>;
type Small = warp::Square<2, 4>;

impl<T: Element, Z, F, L, const DK: usize, const DELTA: bool> Described for prepare<T, Z, F, L, DK, DELTA>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
    L: FragmentLayout<CHUNK, DK>,
    Z: Prepares<T, DK> + Prepares<T, 64>,
    F: Gemm<f32, 32, 32, 32, A = Swizzle<128>, B = Swizzle<128>>,
{
    type Description = PrepareKernel;
    const DESCRIPTION: PrepareKernel = PrepareKernel { element: T::NAME, columns: DK as u32, delta: DELTA };
}

impl<T: Element, Z, F, L, const DK: usize> Described for solve<T, Z, F, L, DK>
where
    L: FragmentLayout<CHUNK, DK>,
    Z: Prepares<T, DK> + Prepares<T, 64>,
    F: Gemm<f32, 32, 32, 32, A = Swizzle<128>, B = Swizzle<128>>,
{
    type Description = SolveKernel;
    const DESCRIPTION: SolveKernel = SolveKernel { element: T::NAME, columns: DK as u32 };
}

/// What the host finds a kernel of [`pass_by_transitions`](crate::pass_by_transitions()) by.
#[derive(Clone, Copy, Debug)]
pub struct PassKernel {
    /// Channels of a state.
    pub columns: u32,
}

impl<F, G, const DK: usize, const DEPTH: usize> Described for pass_by_transitions<F, G, DK, DEPTH>
where
    G: FragmentLayout<DK, DEPTH>,
    F: Gemm<f32, 32, DK, DEPTH, A = Swizzle<128>, B = Swizzle<128>>,
{
    type Description = PassKernel;
    const DESCRIPTION: PassKernel = PassKernel { columns: DK as u32 };
}

/// What the host finds a kernel of [`step`](crate::step()) by.
#[derive(Clone, Copy, Debug)]
pub struct StepKernel {
    /// The element type of Q, K, V and O.
    pub element: &'static str,
    /// Columns of V that a CTA takes at a time, and the most columns of Q and K.
    pub columns: [u32; 2],
}

impl<T: Element, G, const DK: usize, const N: usize> Described for step<T, G, DK, N>
where
    G: FragmentLayout<DK, N>,
{
    type Description = StepKernel;
    const DESCRIPTION: StepKernel = StepKernel { element: T::NAME, columns: [N as u32, DK as u32] };
}

/// What the host chooses a kernel of [`chunk_states`](crate::chunk_states()) by.
#[derive(Clone, Copy, Debug)]
pub struct ChunkStatesKernel {
    /// The element type of Q, K, V and states.
    pub element: &'static str,
    /// Columns of V of a CTA, and the most columns of K.
    pub columns: [u32; 2],
    /// Stages of its pipeline.
    pub stages: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
}

#[rustfmt::skip]
impl<
    P: Reads, Y, T: Element, const DV: usize, const DK: usize, const D: usize, const PARTS: usize, const STAGES: usize,
> Described for chunk_states<P, Y, T, DV, DK, D, PARTS, STAGES>
where
    Y: States<T, DV, D>,
{
    type Description = ChunkStatesKernel;
    const DESCRIPTION: ChunkStatesKernel = ChunkStatesKernel {
        element: T::NAME,
        columns: [DV as u32, DK as u32],
        stages: STAGES as u32,
        any_strides: P::ANY_STRIDES,
    };
}

/// What the host finds a kernel of [`gradient`](crate::gradient()) or [`channel_gradient`](crate::channel_gradient()) by.
#[derive(Clone, Copy, Debug)]
pub struct GradientKernel {
    /// The element type of Q, K, V and their gradients.
    pub element: &'static str,
    /// Whether each channel decays by itself.
    pub channels: bool,
}

impl<T: Element, Z> Described for gradient<T, Z>
where
    Striped<8>: FragmentLayout<CHUNK, 64>,
    Z: Prepares<T, 64>,
{
    type Description = GradientKernel;
    const DESCRIPTION: GradientKernel = GradientKernel { element: T::NAME, channels: false };
}

impl<T: Element, Z> Described for channel_gradient<T, Z>
where
    Striped<8>: FragmentLayout<CHUNK, 64>,
    Z: Prepares<T, 64>,
{
    type Description = GradientKernel;
    const DESCRIPTION: GradientKernel = GradientKernel { element: T::NAME, channels: true };
}

#[rustfmt::skip]
kernels! {
    /// The kernels of [`retention`](crate::retention()).
    pub static RETENTION: ChunkKernel;

    for T in [f16, bf16] {
        sm_90: [retention_sm_90_ T _64x64s3]:
            retention<WarpSpecialized<TwoPerSm>, FullRow<1>, FullCol<1>, T, 64, 64, 64, 1, 3, false>;
        sm_90: [retention_sm_90_ T _64x128s2]:
            retention<WarpSpecialized<TwoPerSm>, FullRow<1>, FullCol<1>, T, 64, 128, 128, 1, 2, false>;
        sm_90: [retention_sm_90_ T _64x256s2]:
            retention<WarpSpecialized<OneConsumer>, FullRow<1>, FullCol<1>, T, 64, 256, 64, 4, 2, false>;
        sm_80: [retention_sm_80_ T _64x128s2]:
            retention<Multistage<4, Vectors>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 128, 128, 1, 2, false>;
        sm_80: [retention_sm_80_ T _64x128s2_any]:
            retention<Multistage<4, Elements>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 128, 128, 1, 2, false>;
        sm_80: [retention_sm_80_ T _64x256s1]:
            retention<Multistage<4, Vectors>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 256, 64, 4, 1, false>;
        sm_80: [retention_sm_80_ T _64x256s1_any]:
            retention<Multistage<4, Elements>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 256, 64, 4, 1, false>;
    }
    for T in [f16, bf16] {
        sm_90: [delta_sm_90_ T _64x64s3]:
            retention<WarpSpecialized<ByWarps<1, 2>>, FullRow<1>, FullCol<1>, T, 64, 64, 64, 1, 3, true>;
        sm_90: [delta_sm_90_ T _128x128s2]:
            retention<WarpSpecialized<ByWarps<2, 1>>, FullRow<2>, FullCol<2>, T, 128, 128, 128, 1, 2, true>;
        sm_90: [delta_sm_90_ T _64x256s1]:
            retention<WarpSpecialized<ByWarps<1, 1>>, FullRow<1>, FullCol<1>, T, 64, 256, 64, 4, 1, true>;
        sm_80: [delta_sm_80_ T _64x128s2]:
            retention<Multistage<4, Vectors>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 128, 128, 1, 2, true>;
        sm_80: [delta_sm_80_ T _64x128s2_any]:
            retention<Multistage<4, Elements>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 128, 128, 1, 2, true>;
        sm_80: [delta_sm_80_ T _64x256s1]:
            retention<Multistage<4, Vectors>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 256, 64, 4, 1, true>;
        sm_80: [delta_sm_80_ T _64x256s1_any]:
            retention<Multistage<4, Elements>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 256, 64, 4, 1, true>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of [`prepare`](crate::prepare()).
    pub static PREPARE: PrepareKernel;

    for T in [f16, bf16] {
        sm_80: [prepare_channels_ T _64]: prepare<T, Products, Tf32<Small>, Threads<32, 8, 8>, 64, false>;
        sm_80: [prepare_channels_ T _128]: prepare<T, Products, Tf32<Small>, Threads<16, 16, 8>, 128, false>;
        sm_80: [prepare_channels_ T _256]: prepare<T, Products, Tf32<Small>, Threads<8, 32, 8>, 256, false>;
        sm_80: [prepare_channels_delta_ T _128]: prepare<T, Products, Tf32<Small>, Threads<16, 16, 8>, 128, true>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of [`solve`](crate::solve()).
    pub static SOLVE: SolveKernel;

    for T in [f16, bf16] {
        sm_80: [solve_ T _64]: solve<T, Products, Tf32<Small>, Threads<32, 8, 8>, 64>;
        sm_80: [solve_ T _128]: solve<T, Products, Tf32<Small>, Threads<16, 16, 8>, 128>;
        sm_80: [solve_ T _256]: solve<T, Products, Tf32<Small>, Threads<8, 32, 8>, 256>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of [`scan`](crate::scan()).
    pub static SCAN: ChunkKernel;

    for T in [f16, bf16] {
        sm_90: [scan_channels_sm_90_ T _64x64s3]: scan<WarpSpecialized<ByWarps<1, 2>>, FullRow<1>, T, 64, 64, 64, 1, 3, false>;
        sm_90: [scan_channels_sm_90_ T _64x128s2]: scan<WarpSpecialized<ByWarps<1, 2>>, FullRow<1>, T, 64, 128, 128, 1, 2, false>;
        sm_90: [scan_channels_sm_90_ T _64x256s2]: scan<WarpSpecialized<ByWarps<1, 1>>, FullRow<1>, T, 64, 256, 64, 4, 2, false>;
        sm_90: [scan_channels_delta_sm_90_ T _128x128s2]: scan<WarpSpecialized<ByWarps<2, 1>>, FullRow<2>, T, 128, 128, 128, 1, 2, true>;
        sm_80: [scan_channels_sm_80_ T _64x128s2]: scan<Multistage<4, Vectors>, warp::FullRow<4>, T, 64, 128, 128, 1, 2, false>;
        sm_80: [scan_channels_delta_sm_80_ T _64x128s2]: scan<Multistage<4, Vectors>, warp::FullRow<4>, T, 64, 128, 128, 1, 2, true>;
    }
}

kernels! {
    /// The kernels of [`pass_by_transitions`](crate::pass_by_transitions()).
    pub static PASS: PassKernel;

    sm_80: [pass_by_transitions_64]: pass_by_transitions<Tf32<warp::Square<2, 4>>, Threads<16, 16, 4>, 64, 64>;
    sm_80: [pass_by_transitions_128]: pass_by_transitions<Tf32<warp::Square<2, 4>>, Threads<16, 16, 4>, 128, 64>;
    sm_80: [pass_by_transitions_256]: pass_by_transitions<Tf32<warp::Square<1, 8>>, Threads<64, 4, 4>, 256, 32>;
}

kernels! {
    /// The kernels of [`step`](crate::step()).
    pub static STEP: StepKernel;

    for T in [f16, bf16] {
        sm_80: [linear_attention_step_ T _64]: step<T, Threads<16, 16, 4>, 64, 64>;
        sm_80: [linear_attention_step_ T _128]: step<T, Threads<32, 8, 4>, 128, 32>;
        sm_80: [linear_attention_step_ T _256]: step<T, Threads<64, 4, 4>, 256, 16>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of [`chunk_states`](crate::chunk_states()).
    pub static CHUNK_STATES: ChunkStatesKernel;

    for T in [f16, bf16] {
        sm_80: [chunk_states_ T _64x64s3]: chunk_states<Multistage<4, Vectors>, warp::FullRow<4>, T, 64, 64, 64, 1, 3>;
        sm_80: [chunk_states_ T _64x128s3]: chunk_states<Multistage<4, Vectors>, warp::FullRow<4>, T, 64, 128, 128, 1, 3>;
        sm_80: [chunk_states_ T _64x256s3]: chunk_states<Multistage<4, Vectors>, warp::FullRow<4>, T, 64, 256, 64, 4, 3>;
        sm_80: [chunk_states_ T _64x256s2_any]: chunk_states<Multistage<4, Elements>, warp::FullRow<4>, T, 64, 256, 64, 4, 2>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of [`gradient`](crate::gradient()) and [`channel_gradient`](crate::channel_gradient()).
    pub static GRADIENT: GradientKernel;

    for T in [f16, bf16] {
        sm_80: [gradient_ T]: gradient<T, warp::Square<4, 2>>;
        sm_80: [channel_gradient_ T]: channel_gradient<T, warp::Square<4, 2>>;
    }
}
