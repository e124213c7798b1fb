//! The gradients' kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Accumulates, Collective, Element, Elements, FragmentLayout, FullCol, FullRow, Gemm, HandsOut, Multistage,
    Overlapped, Overlaps, Reads, Simt, Striped, Swizzle, TwoConsumers, TwoConsumersThreeProducersAdder,
    TwoConsumersTwoProducersAdder, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use super::attention_gradient;
use super::bias::bias_gradient;
use super::divided::sum_parts;
use super::products::{Products, adds_to_capped, caps};
use super::rounding::round_sums;
use super::sinks::sink_gradient;
use super::stats::query_stats;
use super::wanted::{All, Keys, KeysAndValues, Queries, Values, Wanted};
use super::wide::{WideProducts, attention_gradient_wide};

/// What the host chooses a gradient's kernel by.
#[derive(Clone, Copy, Debug)]
pub struct GradientKernel {
    /// The element type of all tensors but statistics.
    pub element: &'static str,
    /// Which gradients it computes.
    pub wanted: &'static str,
    /// Its tiles are of keys, not of queries.
    pub of_keys: bool,
    /// It adds dQ up in f32, and nothing to scores.
    pub adds: bool,
    /// It caps scores, if they are to be.
    pub caps: bool,
    /// It adds slopes and biases to scores that are capped, too.
    pub adds_to_capped: bool,
    /// Rows of a tile, and of the blocks that it walks over.
    pub tile: [u32; 2],
    /// The most columns of a head, and those of the gradients that a CTA computes.
    pub columns: [u32; 2],
    /// Stages of the pipeline.
    pub stages: u32,
    /// Its warpgroups divide the columns: it is [`attention_gradient_wide`](fn@attention_gradient_wide).
    pub divides_columns: bool,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
}

#[rustfmt::skip]
impl<
    P: Reads + HandsOut, Y, T: Element, W, const BM: usize, const BN: usize, const D: usize, const R: usize, const STAGES: usize,
> Described for attention_gradient<P, Y, T, W, BM, BN, D, R, STAGES>
where
    Y: Products<T, BM, BN, D, R>,
    W: Wanted<T, BM, BN, D>,
{
    type Description = GradientKernel;
    const DESCRIPTION: GradientKernel = GradientKernel {
        element: T::NAME,
        wanted: W::NAME,
        of_keys: W::OF_KEYS,
        adds: W::ADDS,
        caps: caps::<W, Y, T, BM, BN, D>(),
        adds_to_capped: adds_to_capped::<W, Y, T, BM, BN, D, R>(),
        tile: [BM as u32, BN as u32],
        columns: [D as u32, R as u32],
        stages: STAGES as u32,
        divides_columns: false,
        any_strides: P::ANY_STRIDES,
    };
}

#[rustfmt::skip]
impl<P: Reads + HandsOut, Y, T: Element, const BM: usize, const BN: usize, const D: usize, const H: usize, const STAGES: usize> Described
    for attention_gradient_wide<P, Y, T, BM, BN, D, H, STAGES>
where
    Y: WideProducts<T, BM, BN, D, H>,
{
    type Description = GradientKernel;
    const DESCRIPTION: GradientKernel = GradientKernel {
        element: T::NAME,
        wanted: "all",
        of_keys: true,
        adds: true,
        caps: true,
        adds_to_capped: false,
        tile: [BM as u32, BN as u32],
        columns: [D as u32, D as u32],
        stages: STAGES as u32,
        divides_columns: true,
        any_strides: P::ANY_STRIDES,
    };
}

/// A kernel of queries' statistics.
#[derive(Clone, Copy, Debug)]
pub struct StatsKernel {
    /// The element type of O and dO.
    pub element: &'static str,
    /// Queries of a CTA, and columns that it takes at a time.
    pub tile: [u32; 2],
}

impl<P: Overlaps, T: Element, const M: usize, const N: usize> Described for query_stats<P, T, M, N>
where
    Striped<4>: FragmentLayout<M, N>,
{
    type Description = StatsKernel;
    const DESCRIPTION: StatsKernel = StatsKernel { element: T::NAME, tile: [M as u32, N as u32] };
}

/// A kernel that rounds sums.
#[derive(Clone, Copy, Debug)]
pub struct RoundingKernel {
    /// The element type of dQ.
    pub element: &'static str,
    /// Queries of a block, and columns.
    pub tile: [u32; 2],
    /// Parts of the columns, each of a CTA.
    pub parts: u32,
}

impl<P: Overlaps, T: Element, Z, const BN: usize, const D: usize, const PARTS: usize> Described
    for round_sums<P, T, Z, BN, D, PARTS>
where
    Z: FragmentLayout<BN, D>,
{
    type Description = RoundingKernel;
    const DESCRIPTION: RoundingKernel =
        RoundingKernel { element: T::NAME, tile: [BN as u32, (PARTS * D) as u32], parts: PARTS as u32 };
}

/// A kernel that adds up parts of walks.
#[derive(Clone, Copy, Debug)]
pub struct SummingKernel {
    /// The element type of dK and dV.
    pub element: &'static str,
    /// Keys of a tile, and columns.
    pub tile: [u32; 2],
}

impl<P: Overlaps, T: Element, Y, const BM: usize, const D: usize> Described for sum_parts<P, T, Y, BM, D>
where
    Y: FragmentLayout<BM, D>,
{
    type Description = SummingKernel;
    const DESCRIPTION: SummingKernel = SummingKernel { element: T::NAME, tile: [BM as u32, D as u32] };
}

/// A kernel of the gradient by a bias.
#[derive(Clone, Copy, Debug)]
pub struct BiasKernel {
    /// The element type of all tensors but statistics.
    pub element: &'static str,
    /// Queries and keys of a tile.
    pub tile: [u32; 2],
    /// The most columns of a head.
    pub columns: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
}

impl<P: Reads, Y, T: Element, const BM: usize, const BN: usize, const D: usize, const STAGES: usize> Described
    for bias_gradient<P, Y, T, BM, BN, D, STAGES>
where
    Y: Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Y> + Accumulates<BM, BN>,
{
    type Description = BiasKernel;
    const DESCRIPTION: BiasKernel = BiasKernel {
        element: T::NAME,
        tile: [BM as u32, BN as u32],
        columns: D as u32,
        any_strides: P::ANY_STRIDES,
    };
}

/// The kernel of the gradient by sinks.
#[derive(Clone, Copy, Debug)]
pub struct SinksKernel;

impl<P: Collective> Described for sink_gradient<P> {
    type Description = SinksKernel;
    const DESCRIPTION: SinksKernel = SinksKernel;
}

// Columns that a tensor lacks are zeros. Where a thread has no registers for the gradients by scores and by values together, each has its own kernel, but for one whose warpgroups divide the columns.
#[rustfmt::skip]
kernels! {
    /// The kernels of gradients.
    pub static GRADIENT: GradientKernel;

    for T in [f16, bf16] {
        sm_90: [attention_gradient_all_sm_90_ T _128x128d64s2]:
            attention_gradient<WarpSpecialized<TwoConsumersTwoProducersAdder>, FullRow<2>, T, All<FullRow<2>>, 128, 128, 64, 64, 2>;
        sm_90: [attention_gradient_all_sm_90_ T _128x64d128s2]:
            attention_gradient<WarpSpecialized<TwoConsumersTwoProducersAdder>, FullRow<2>, T, All<FullCol<2>>, 128, 64, 128, 128, 2>;
        sm_90: [attention_gradient_all_sm_90_ T _64x64d256s2]:
            attention_gradient_wide<WarpSpecialized<TwoConsumersThreeProducersAdder>, FullCol<2>, T, 64, 64, 256, 128, 2>;
        sm_90: [attention_gradient_keys_values_sm_90_ T _128x64d128s2]:
            attention_gradient<WarpSpecialized<TwoConsumers>, FullRow<2>, T, KeysAndValues, 128, 64, 128, 128, 2>;
        sm_90: [attention_gradient_queries_sm_90_ T _128x64d128s2]:
            attention_gradient<WarpSpecialized<TwoConsumers>, FullRow<2>, T, Queries, 128, 64, 128, 128, 2>;
    }
    for T in [f16, bf16], (NAME, W) in [(keys, Keys), (values, Values), (queries, Queries)] {
        sm_90: [attention_gradient_ NAME _sm_90_ T _128x64d256s1]:
            attention_gradient<WarpSpecialized<TwoConsumers>, FullRow<2>, T, W, 128, 64, 256, 256, 1>;
        sm_80: [attention_gradient_ NAME _sm_80_ T _64x64d128s1]:
            attention_gradient<Multistage<4, Vectors>, warp::FullRow<4>, T, W, 64, 64, 128, 128, 1>;
        sm_80: [attention_gradient_ NAME _sm_80_ T _32x64d256s1_any]:
            attention_gradient<Multistage<2, Elements>, warp::FullRow<2>, T, W, 32, 64, 256, 128, 1>;
    }
}

kernels! {
    /// The kernels of queries' statistics.
    pub static STATS: StatsKernel;

    for T in [f16, bf16] {
        sm_90: [query_stats_sm_90_ T _64x64]: query_stats<Overlapped<4>, T, 64, 64>;
        sm_90: [query_stats_sm_90_ T _32x128]: query_stats<Overlapped<4>, T, 32, 128>;
        sm_80: [query_stats_sm_80_ T _32x128]: query_stats<Simt<4>, T, 32, 128>;
    }
}

// Sums are Hopper's alone.
kernels! {
    /// The kernels that round sums.
    pub static ROUNDING: RoundingKernel;

    for T in [f16, bf16] {
        sm_90: [round_sums_sm_90_ T _128x64]: round_sums<Overlapped<8>, T, FullRow<2>, 128, 64, 1>;
        sm_90: [round_sums_sm_90_ T _64x128]: round_sums<Overlapped<8>, T, FullCol<2>, 64, 128, 1>;
        sm_90: [round_sums_sm_90_ T _64x256]: round_sums<Overlapped<8>, T, FullCol<2>, 64, 128, 2>;
    }
}

kernels! {
    /// The kernels that add up parts of walks.
    pub static SUMMING: SummingKernel;

    for T in [f16, bf16] {
        sm_90: [sum_parts_sm_90_ T _128x64]: sum_parts<Overlapped<8>, T, FullRow<2>, 128, 64>;
        sm_90: [sum_parts_sm_90_ T _128x128]: sum_parts<Overlapped<8>, T, FullRow<2>, 128, 128>;
        sm_90: [sum_parts_sm_90_ T _64x256]: sum_parts<Overlapped<8>, T, FullCol<2>, 64, 256>;
    }
}

kernels! {
    /// The kernels of the gradient by a bias, those of fewer columns first.
    pub static BIAS: BiasKernel;

    for T in [f16, bf16] {
        sm_90: [bias_gradient_sm_90_ T _128x64d128s2]:
            bias_gradient<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 128, 64, 128, 2>;
        sm_90: [bias_gradient_sm_90_ T _128x64d256s1]:
            bias_gradient<WarpSpecialized<TwoConsumers>, FullRow<2>, T, 128, 64, 256, 1>;
        sm_80: [bias_gradient_sm_80_ T _64x64d128s1]:
            bias_gradient<Multistage<4, Vectors>, warp::FullRow<4>, T, 64, 64, 128, 1>;
        sm_80: [bias_gradient_sm_80_ T _32x64d256s1_any]:
            bias_gradient<Multistage<2, Elements>, warp::FullRow<2>, T, 32, 64, 256, 1>;
    }
}

kernels! {
    /// The kernel of the gradient by sinks.
    pub static SINKS: SinksKernel;

    sm_80: [sink_gradient_sm_80]: sink_gradient<Simt<16>>;
}
