//! The MLA kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Accumulates, Arrival, ChainedGemm, Configuration, CoreMatrices, E4M3x2, Element, FragmentLayout, FullCol,
    FullRow, Gemm, Multistage, OneWarpgroup, Overlapped, Overlaps, Producers, RegisterBudget, Roles,
    Schedule, Simt, Striped, Swizzle, TwoRoles, Vectors, WarpSpecialized, Warpgroup, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::append::append_records;
use crate::codes::{HALF, mla_codes};
use crate::index::index_scores;
use crate::parts::{ROWS, merge};
use crate::plain::mla_plain;
use crate::pooled::ReadsPools;
use crate::records::{LATENT, ROTARY};
use crate::rewrite::StagedColumns;
use crate::roles::AT_ONCE;
use crate::split_operand::SplitGemm;
use crate::{B, mla};

/// What the host chooses an MLA kernel by.
#[derive(Clone, Copy, Debug)]
pub struct MlaKernel {
    /// The element type of queries, cache and output.
    pub element: &'static str,
    /// Whether the cache is of [records](crate::RECORD) of 8 bits.
    pub codes: bool,
    /// Columns of queries and keys, and of values and output.
    pub columns: [u32; 2],
    /// Rows of the cache that one copy reads, which divide those of a page, and columns: multiples of 64.
    pub box_of: [u32; 2],
    /// CTAs that divide the columns of the output among themselves (`block_z`).
    pub parts: u32,
    /// Tiles of rows that share what is done for their keys: CTAs of a cluster.
    pub tiles: u32,
}

#[rustfmt::skip]
impl<
    P, S, O, T, const D: usize, const DV: usize, const STEPS: usize, const TAIL: usize, const BOX: usize,
    const PLANES: usize, const STAGES: usize, const LATE: u32,
> Described for mla<P, S, O, T, D, DV, STEPS, TAIL, BOX, PLANES, STAGES, LATE>
where
    P: TwoRoles<Ticket = Arrival> + ReadsPools,
    T: Element,
    S: SplitGemm<T, B, B, D, A = CoreMatrices, B = Swizzle<128>, D = S> + OneWarpgroup + Accumulates<B, B>,
    O: Gemm<T, B, DV, B, A = Swizzle<128>, B = Swizzle<128>, D = O> + StagedColumns<DV> + Accumulates<B, DV>,
{
    type Description = MlaKernel;
    const DESCRIPTION: MlaKernel = MlaKernel {
        element: T::NAME,
        codes: false,
        columns: [D as u32, DV as u32],
        box_of: [BOX as u32, 64 * PLANES as u32],
        parts: 1,
        tiles: P::CLUSTER,
    };
}

#[rustfmt::skip]
impl<P, Y, T, const D: usize, const DV: usize, const W: usize> Described for mla_plain<P, Y, T, D, DV, W>
where
    P: Schedule + ReadsPools,
    Y: ChainedGemm<T, B, B, D, W>
        + Gemm<T, B, B, D, A = Swizzle<128>, B = Swizzle<128>>
        + Gemm<T, B, W, B, B = Swizzle<128>>,
    T: Element,
{
    type Description = MlaKernel;
    const DESCRIPTION: MlaKernel = MlaKernel {
        element: T::NAME,
        codes: false,
        columns: [D as u32, DV as u32],
        box_of: [1, 64],
        parts: (DV / W) as u32,
        tiles: 1,
    };
}

#[rustfmt::skip]
impl<P, S, O, const STEPS: usize, const TAIL: usize, const STAGES: usize, const LATE: u32> Described
    for mla_codes<P, S, O, STEPS, TAIL, STAGES, LATE>
where
    P: TwoRoles<Ticket = Arrival>,
    S: SplitGemm<bf16, B, B, { LATENT + ROTARY }, A = CoreMatrices, B = Swizzle<128>, D = S>
        + OneWarpgroup
        + Accumulates<B, B>,
    O: Gemm<bf16, B, HALF, B, A = Swizzle<128>, B = Swizzle<128>, D = O>
        + StagedColumns<HALF>
        + Accumulates<B, HALF>,
{
    type Description = MlaKernel;
    const DESCRIPTION: MlaKernel = MlaKernel {
        element: <bf16 as Element>::NAME,
        codes: true,
        columns: [(LATENT + ROTARY) as u32, LATENT as u32],
        box_of: [1, 0],
        parts: 1,
        tiles: P::CLUSTER,
    };
}

/// What the host chooses a kernel that merges parts by.
#[derive(Clone, Copy, Debug)]
pub struct MergeKernel {
    /// The element type of O.
    pub element: &'static str,
    /// Columns of O.
    pub columns: u32,
    /// Rows of O that one CTA computes.
    pub rows: u32,
}

impl<P: Overlaps, T: Element, const DV: usize> Described for merge<P, T, DV>
where
    Striped<ROWS>: FragmentLayout<ROWS, DV>,
{
    type Description = MergeKernel;
    const DESCRIPTION: MergeKernel = MergeKernel { element: T::NAME, columns: DV as u32, rows: ROWS as u32 };
}

/// What the host chooses a kernel that appends tokens by.
#[derive(Clone, Copy, Debug)]
pub struct AppendKernel {
    /// Tokens of a CTA.
    pub tokens: u32,
}

impl<P: Overlaps> Described for append_records<P> {
    type Description = AppendKernel;
    const DESCRIPTION: AppendKernel = AppendKernel { tokens: P::THREADS / 32 };
}

/// The roles: two warpgroups for the output, one for the scores, which also holds most of Q.
type Hopper = Roles<2, 160, 1, 184>;
/// The same with fewer registers, and a warpgroup that fills stages.
type Filled<const K: u32> = Roles<2, 160, 1, 128, 1, 64, K>;
/// A row of keys a warp.
type Ampere = Multistage<4>;

// Columns of a block times keys of a page: where a page has a block's keys, one copy reads it, else nine for each page.
kernels! {
    /// The MLA kernels.
    pub static MLA: MlaKernel;

    for T in [f16, bf16], (D, DV, STEPS, TAIL, STAGES, PLANES) in [(576, 512, 31, 80, 3, 9), (320, 256, 15, 80, 5, 5)] {
        sm_90: [mla_sm_90_ T _d D x DV _p64]:
            mla<Hopper, Warpgroup<2>, FullCol<2>, T, D, DV, STEPS, TAIL, 64, PLANES, STAGES, 8>;
        sm_90: [mla_sm_90_ T _d D x DV _p32]:
            mla<Hopper, Warpgroup<2>, FullCol<2>, T, D, DV, STEPS, TAIL, 32, 1, STAGES, 8>;
        sm_90: [mla_sm_90_ T _d D x DV _p16]:
            mla<Hopper, Warpgroup<2>, FullCol<2>, T, D, DV, STEPS, TAIL, 16, 1, STAGES, 8>;
        sm_80: [mla_sm_80_ T _d D x DV]: mla_plain<Ampere, warp::FullRow<4>, T, D, DV, 256>;
    }
    sm_90: mla_sm_90_codes: mla_codes<Filled<1>, Warpgroup<2>, FullCol<2>, 17, 304, 2, AT_ONCE>;
    sm_90: mla_sm_90_codes_c2: mla_codes<Filled<2>, Warpgroup<2>, FullCol<2>, 17, 304, 2, AT_ONCE>;
}

// On Hopper the kernel begins before the preceding grid, whose results it merges, has ended.
kernels! {
    /// The kernels that merge parts.
    pub static MERGE: MergeKernel;

    for T in [f16, bf16], DV in [512, 256] {
        sm_90: [merge_sm_90_ T _d DV]: merge<Overlapped<ROWS>, T, DV>;
        sm_80: [merge_sm_80_ T _d DV]: merge<Simt<ROWS>, T, DV>;
    }
}

kernels! {
    /// The kernel that appends tokens to a cache of 8 bits.
    pub static APPEND: AppendKernel;

    sm_90: append_records_sm_90: append_records<Overlapped<8>>;
}

/// Two consumer warpgroups and producers of keys and of queries, with two CTAs an SM, which hide each other's sums over heads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scorers;

impl Configuration for Scorers {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(2);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 32, consumers: 104 });
    const CTAS_PER_SM: u32 = 2;
}

/// What the host chooses a kernel of an indexer's scores by.
#[derive(Clone, Copy, Debug)]
pub struct IndexKernel {
    /// The element type of queries and keys.
    pub element: &'static str,
    /// Keys of a tile, and heads.
    pub tile: [u32; 2],
    /// The most columns, in units of the element.
    pub columns: u32,
}

#[rustfmt::skip]
impl<P, Y, T, const BM: usize, const BN: usize, const D: usize, const STAGES: usize> Described
    for index_scores<P, Y, T, BM, BN, D, STAGES>
where
    P: Schedule,
    T: Element,
    Y: Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Y> + Accumulates<BM, BN>,
{
    type Description = IndexKernel;
    const DESCRIPTION: IndexKernel =
        IndexKernel { element: T::NAME, tile: [BM as u32, BN as u32], columns: D as u32 };
}

kernels! {
    /// The kernels of an indexer's scores.
    pub static INDEX: IndexKernel;

    for HEADS in [32, 64] {
        sm_90: [index_scores_sm_90_e4m3_h HEADS]:
            index_scores<WarpSpecialized<Scorers>, FullRow<2>, E4M3x2, 256, HEADS, 64, 8>;
        sm_90: [index_scores_sm_90_bf16_h HEADS]:
            index_scores<WarpSpecialized<Scorers>, FullRow<2>, bf16, 256, HEADS, 128, 2>;
    }
    sm_80: index_scores_sm_80_bf16: index_scores<Multistage<4, Vectors>, warp::FullRow<4>, bf16, 128, 64, 128, 2>;
}
