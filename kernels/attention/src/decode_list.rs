//! The kernels of flash-decoding that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    ChainedGemm, Configuration, Element, Elements, FragmentLayout, FullRow, Multistage,
    OneConsumerTwoProducers, OneConsumerTwoProducersTwoPerSm, Overlapped, Overlaps, Producers, Reads,
    RegisterBudget, Simt, Striped, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::cache::{Cache, SplitOrder};
use crate::flash_decoding::decode;
use crate::kept::Kept;
use crate::list::ReadListsTwoPerSm;
use crate::part_keys::PartKeys;
use crate::parts::merge;
use crate::score::{Capped, Plain, Score};
use crate::selected::Selected;

/// What the host chooses a kernel of flash-decoding by.
#[derive(Clone, Copy, Debug)]
pub struct DecodeKernel {
    /// The element type of Q and O, and of K and V but for codes.
    pub element: &'static str,
    /// Whether K and V are codes of 8 bits.
    pub codes: bool,
    /// What is done to scores.
    pub score: &'static str,
    /// True when it reads the blocks of keys that lists select for each query.
    pub selected: bool,
    /// Rows of a tile, keys of a block.
    pub tile: [u32; 2],
    /// The most columns of Q and K, and of V and O in one launch.
    pub columns: [u32; 2],
    /// CTAs that divide the columns of V and O among themselves (`block_y`).
    pub chunks: u32,
    /// Stages of the pipelines of K and of V.
    pub stages: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
    /// The order of the parts, from batch, KV heads, heads that share one, queries and splits; see [`SplitOrder::new`].
    pub order: fn(u32, u32, u32, u32, u32) -> Option<SplitOrder>,
}

#[rustfmt::skip]
impl<
    P: Reads, Y, T: Element, C: Kept<T>, F: Score, S: PartKeys, const BM: usize, const BN: usize, const D: usize,
    const CHUNKS: usize, const DV: usize, const STAGES: usize,
> Described for decode<P, Y, T, C, F, S, BM, BN, D, CHUNKS, DV, STAGES>
where
    Y: ChainedGemm<T, BM, BN, D, DV>,
{
    type Description = DecodeKernel;
    const DESCRIPTION: DecodeKernel = DecodeKernel {
        element: T::NAME,
        codes: C::CODES,
        score: F::NAME,
        selected: S::SELECTED,
        tile: [BM as u32, BN as u32],
        columns: [(CHUNKS * D) as u32, (CHUNKS * DV) as u32],
        chunks: CHUNKS as u32,
        stages: STAGES as u32,
        any_strides: P::ANY_STRIDES,
        order: SplitOrder::new::<BM>,
    };
}

/// A consumer warpgroup, and a producer for each chunk of keys and for values.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneConsumerThreeProducers;

impl Configuration for OneConsumerThreeProducers {
    const CONSUMER_WARPGROUPS: u32 = 1;
    const PRODUCERS: Producers = Producers::Separate(3);
    const REGISTERS: Option<RegisterBudget> = OneConsumerTwoProducers::REGISTERS;
}

/// What the host chooses a kernel that merges parts by.
#[derive(Clone, Copy, Debug)]
pub struct MergeKernel {
    /// The element type of O.
    pub element: &'static str,
    /// Columns that a CTA takes.
    pub columns: u32,
}

impl<P: Overlaps, T: Element, const R: usize, const C: usize> Described for merge<P, T, R, C>
where
    Striped<1>: FragmentLayout<R, C>,
{
    type Description = MergeKernel;
    const DESCRIPTION: MergeKernel = MergeKernel { element: T::NAME, columns: C as u32 };
}

kernels! {
    /// The kernels that merge parts, one for each architecture and element type.
    pub static MERGE: MergeKernel;

    for T in [f16, bf16] {
        sm_90: [merge_sm_90_ T]: merge<Overlapped<1>, T, 8, 32>;
        sm_80: [merge_sm_80_ T]: merge<Simt<1>, T, 8, 32>;
    }
}

// Columns that a tensor lacks are zeros, so each width serves the narrower ones too. Stages fill the shared memory of Hopper: what
// is under way hides the memory's latency.
#[rustfmt::skip]
kernels! {
    /// The kernels of attention whose CTAs take parts of the keys.
    pub static DECODE: DecodeKernel;

    for T in [f16, bf16] {
        sm_90: [decode_sm_90_ T _plain_64x128d64x64s6]:
            decode<WarpSpecialized<OneConsumerTwoProducers>, FullRow<1>, T, T, Plain, Cache, 64, 128, 64, 1, 64, 6>;
        sm_90: [decode_sm_90_ T _plain_64x64d128x128s3]:
            decode<WarpSpecialized<OneConsumerTwoProducersTwoPerSm>, FullRow<1>, T, T, Plain, Cache, 64, 64, 128, 1, 128, 3>;
        sm_90: [decode_sm_90_ T _plain_64x64d192x128s4]:
            decode<WarpSpecialized<OneConsumerTwoProducers>, FullRow<1>, T, T, Plain, Cache, 64, 64, 192, 1, 128, 4>;
        sm_80: [decode_sm_80_ T _plain_64x64d64x64s2]:
            decode<Multistage<4, Vectors>, warp::FullRow<4>, T, T, Plain, Cache, 64, 64, 64, 1, 64, 2>;
    }
    for T in [f16, bf16], (SCORE, F) in [(plain, Plain), (capped, Capped)] {
        sm_90: [decode_sm_90_ T _ SCORE _64x128d128x128s3]:
            decode<WarpSpecialized<OneConsumerTwoProducers>, FullRow<1>, T, T, F, Cache, 64, 128, 128, 1, 128, 3>;
        sm_90: [decode_sm_90_ T _ SCORE _64x64d256x256s3]:
            decode<WarpSpecialized<OneConsumerTwoProducers>, FullRow<1>, T, T, F, Cache, 64, 64, 256, 1, 256, 3>;
        sm_90: [decode_sm_90_ T _ SCORE _64x64d512x256s1]:
            decode<WarpSpecialized<OneConsumerThreeProducers>, FullRow<1>, T, T, F, Cache, 64, 64, 256, 2, 256, 1>;
    }
    // They compute plain scores too, for which none are made: these took 0.1 to 1% longer so. Those that read elements were not measured.
    for T in [f16, bf16] {
        sm_80: [decode_sm_80_ T _capped_64x64d128x128s2]:
            decode<Multistage<4, Vectors>, warp::FullRow<4>, T, T, Capped, Cache, 64, 64, 128, 1, 128, 2>;
        sm_80: [decode_sm_80_ T _capped_64x32d256x128s2]:
            decode<Multistage<4, Vectors>, warp::FullRow<4>, T, T, Capped, Cache, 64, 32, 256, 1, 128, 2>;
        sm_80: [decode_sm_80_ T _capped_64x32d256x128s3]:
            decode<Multistage<4, Elements>, warp::FullRow<4>, T, T, Capped, Cache, 64, 32, 256, 1, 128, 3>;
        sm_80: [decode_sm_80_ T _capped_64x32d512x128s2]:
            decode<Multistage<4, Vectors>, warp::FullRow<4>, T, T, Capped, Cache, 64, 32, 512, 1, 128, 2>;
        sm_80: [decode_sm_80_ T _capped_64x16d512x128s1]:
            decode<Multistage<4, Elements>, warp::FullRow<4>, T, T, Capped, Cache, 64, 16, 512, 1, 128, 1>;
    }
    // Of lists of blocks of 64 keys, a query's each. The rows of a tile are the heads that share a KV head alone, so that what is loaded decides, and narrower heads have no kernels.
    for T in [f16, bf16] {
        sm_90: [decode_sm_90_ T _plain_selected_64x64d128x128s3]:
            decode<WarpSpecialized<ReadListsTwoPerSm>, FullRow<1>, T, T, Plain, Selected, 64, 64, 128, 1, 128, 3>;
        sm_90: [decode_sm_90_ T _plain_selected_64x64d192x128s4]:
            decode<WarpSpecialized<OneConsumerTwoProducers>, FullRow<1>, T, T, Plain, Selected, 64, 64, 192, 1, 128, 4>;
        sm_90: [decode_sm_90_ T _plain_selected_64x64d256x256s3]:
            decode<WarpSpecialized<OneConsumerTwoProducers>, FullRow<1>, T, T, Plain, Selected, 64, 64, 256, 1, 256, 3>;
        sm_80: [decode_sm_80_ T _plain_selected_64x64d128x128s2]:
            decode<Multistage<4, Vectors>, warp::FullRow<4>, T, T, Plain, Selected, 64, 64, 128, 1, 128, 2>;
        sm_80: [decode_sm_80_ T _plain_selected_64x32d256x128s3]:
            decode<Multistage<4, Elements>, warp::FullRow<4>, T, T, Plain, Selected, 64, 32, 256, 1, 128, 3>;
    }
    // Of codes of 8 bits, with or without a cap. Blocks of 32 keys leave registers for 256 columns of O.
    for T in [f16, bf16] {
        sm_90: [decode_sm_90_ T _codes_64x64d128x128s4]:
            decode<WarpSpecialized<OneConsumerTwoProducersTwoPerSm>, FullRow<1>, T, u8, Capped, Cache, 64, 64, 128, 1, 128, 4>;
        sm_90: [decode_sm_90_ T _codes_64x32d256x256s6]:
            decode<WarpSpecialized<OneConsumerTwoProducers>, FullRow<1>, T, u8, Capped, Cache, 64, 32, 256, 1, 256, 6>;
        sm_80: [decode_sm_80_ T _codes_64x64d128x128s3]:
            decode<Multistage<4, Vectors>, warp::FullRow<4>, T, u8, Capped, Cache, 64, 64, 128, 1, 128, 3>;
    }
}
