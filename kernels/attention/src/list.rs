//! The attention kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    ChainedGemm, Collective, Configuration, Element, Elements, FragmentLayout, FullRow, HandsOut, Multistage,
    OneConsumerTwoProducers, Overlapped, Overlaps, Producers, Reads, RegisterBudget, Simt, Striped,
    ThreeConsumersThreeProducers, TwoConsumersThreeProducers, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::kept::Kept;
use crate::keys::{Blocks, Keys};
use crate::listed::Listed;
use crate::prepare::list_sequences;
use crate::score::{Capped, Plain, Score};
use crate::sequences::{Equal, InCache, Packed, Sequences};
use crate::states::merge_states;
use crate::{attention, stages_output};

/// What the host chooses an attention kernel by.
#[derive(Clone, Copy, Debug)]
pub struct AttentionKernel {
    /// The element type of Q, K, V and O.
    pub element: &'static str,
    /// What is done to scores.
    pub score: &'static str,
    /// True when sequences lie one after the other, false when each is a matrix of its own.
    pub packed: bool,
    /// True when the keys of such sequences may also lie in a cache.
    pub cached: bool,
    /// True when it walks over the blocks of keys that lists name.
    pub listed: bool,
    /// Queries of a tile, keys of a block.
    pub tile: [u32; 2],
    /// The most columns of Q and K, and of V and O in one launch.
    pub columns: [u32; 2],
    /// Stages of the pipelines of K and of V.
    pub stages: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
    /// True when it stores O through shared memory.
    pub stages_output: bool,
    /// The blocks of keys that a tile of queries sees.
    pub blocks: fn(&Keys, u32) -> Blocks,
}

#[rustfmt::skip]
impl<
    P: Reads + HandsOut, Y, T: Kept<T>, F: Score, S: Sequences, const BM: usize, const BN: usize, const D: usize, const CHUNKS: usize,
    const DV: usize, const STAGES: usize,
> Described for attention<P, Y, T, F, S, BM, BN, D, CHUNKS, DV, STAGES>
where
    Y: ChainedGemm<T, BM, BN, D, DV>,
{
    type Description = AttentionKernel;
    const DESCRIPTION: AttentionKernel = AttentionKernel {
        element: T::NAME,
        score: F::NAME,
        packed: S::PACKED,
        cached: S::CACHED,
        listed: S::LISTED,
        tile: [BM as u32, BN as u32],
        columns: [(CHUNKS * D) as u32, DV as u32],
        stages: STAGES as u32,
        any_strides: P::ANY_STRIDES,
        stages_output: stages_output([BM, BN], [CHUNKS * D, DV], STAGES),
        blocks: Keys::blocks::<BM, BN>,
    };
}

/// Two consumer warpgroups and three producers, which have registers for lists and a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadLists;

impl Configuration for ReadLists {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(3);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 56, consumers: 224 });
}

/// The same for page tables, with a copy for each page.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadPages;

impl Configuration for ReadPages {
    const CONSUMER_WARPGROUPS: u32 = ReadLists::CONSUMER_WARPGROUPS;
    const PRODUCERS: Producers = ReadLists::PRODUCERS;
    const REGISTERS: Option<RegisterBudget> = ReadLists::REGISTERS;
    const ELECTS: bool = true;
}

/// Two consumer warpgroups and a producer for each chunk of keys, for values and for queries.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfTwoChunks;

impl Configuration for OfTwoChunks {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(4);
    const REGISTERS: Option<RegisterBudget> = TwoConsumersThreeProducers::REGISTERS;
}

/// The same for page tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct PagesOfTwoChunks;

impl Configuration for PagesOfTwoChunks {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = OfTwoChunks::PRODUCERS;
    const REGISTERS: Option<RegisterBudget> = ReadPages::REGISTERS;
    const ELECTS: bool = true;
}

/// A consumer warpgroup and two producers, which have registers for lists and a queue, with two CTAs an SM.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadListsTwoPerSm;

impl Configuration for ReadListsTwoPerSm {
    const CONSUMER_WARPGROUPS: u32 = 1;
    const PRODUCERS: Producers = Producers::Separate(2);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 56, consumers: 200 });
    const CTAS_PER_SM: u32 = 2;
}

// Behind the sequences: queries of a tile, keys of a block, columns of a chunk of Q and K and how many chunks, columns of V, stages.
// Columns that a tensor lacks are zeros, so each width serves the narrower ones too; V and O that are wider take several launches.
// Blocks of keys fill the shared memory of Hopper with two stages. On Ampere a warp has registers for 128 columns of O.
#[rustfmt::skip]
kernels! {
    /// The kernels of attention whose CTAs take tiles of queries.
    pub static ATTENTION: AttentionKernel;

    let ONE = [(plain, Plain)];
    let BOTH = [(plain, Plain), (capped, Capped)];
    let CAPPED = [(capped, Capped)];
    let LIES = [(_, Equal, TwoConsumersThreeProducers), (_packed_, InCache, ReadPages)];

    for T in [f16, bf16], (LIE, S, C) in LIES, (SCORE, F) in ONE {
        sm_90: [attention_sm_90_ T _ SCORE LIE 128x128d64x64s2]:
            attention<WarpSpecialized<C>, FullRow<2>, T, F, S, 128, 128, 64, 1, 64, 2>;
        sm_90: [attention_sm_90_ T _ SCORE LIE 128x96d192x128s2]:
            attention<WarpSpecialized<C>, FullRow<2>, T, F, S, 128, 96, 192, 1, 128, 2>;
        sm_80: [attention_sm_80_ T _ SCORE LIE 64x64d64x64s2]:
            attention<Multistage<4, Vectors>, warp::FullRow<4>, T, F, S, 64, 64, 64, 1, 64, 2>;
    }
    for T in [f16, bf16], (LIE, S) in [(_, Equal), (_packed_, Packed)] {
        sm_90: [attention_sm_90_ T _plain LIE 192x128d64x64s2]:
            attention<WarpSpecialized<ThreeConsumersThreeProducers>, FullRow<3>, T, Plain, S, 192, 128, 64, 1, 64, 2>;
    }
    for T in [f16, bf16] {
        sm_90: [attention_sm_90_ T _plain_128x80d192x192s2]:
            attention<WarpSpecialized<TwoConsumersThreeProducers>, FullRow<2>, T, Plain, Equal, 128, 80, 192, 1, 192, 2>;
        sm_90: [attention_sm_90_ T _plain_128x80d256x256s2]:
            attention<WarpSpecialized<TwoConsumersThreeProducers>, FullRow<2>, T, Plain, Equal, 128, 80, 256, 1, 256, 2>;
    }
    for T in [f16, bf16], (LIE, S, C) in LIES, (SCORE, F) in BOTH {
        sm_90: [attention_sm_90_ T _ SCORE LIE 128x128d128x128s2]:
            attention<WarpSpecialized<C>, FullRow<2>, T, F, S, 128, 128, 128, 1, 128, 2>;
        sm_90: [attention_sm_90_ T _ SCORE LIE 128x64d256x256s2]:
            attention<WarpSpecialized<C>, FullRow<2>, T, F, S, 128, 64, 256, 1, 256, 2>;
        sm_80: [attention_sm_80_ T _ SCORE LIE 64x64d128x128s2]:
            attention<Multistage<4, Vectors>, warp::FullRow<4>, T, F, S, 64, 64, 128, 1, 128, 2>;
    }
    for T in [f16, bf16], (LIE, S, C) in [(_, Equal, OfTwoChunks), (_packed_, InCache, PagesOfTwoChunks)], (SCORE, F) in BOTH {
        sm_90: [attention_sm_90_ T _ SCORE LIE 128x64d512x256s1]:
            attention<WarpSpecialized<C>, FullRow<2>, T, F, S, 128, 64, 256, 2, 256, 1>;
    }
    // They compute plain scores too, for which none are made: tiles of 128 x 32 took 0.4% longer so. Those that read elements were not measured.
    for T in [f16, bf16], (LIE, S) in [(_, Equal), (_packed_, InCache)], (SCORE, F) in CAPPED {
        sm_80: [attention_sm_80_ T _ SCORE LIE 128x32d256x128s2]:
            attention<Multistage<8, Vectors>, warp::FullRow<8>, T, F, S, 128, 32, 256, 1, 128, 2>;
        sm_80: [attention_sm_80_ T _ SCORE LIE 64x32d256x128s2]:
            attention<Multistage<4, Elements>, warp::FullRow<4>, T, F, S, 64, 32, 256, 1, 128, 2>;
        sm_80: [attention_sm_80_ T _ SCORE LIE 64x32d512x128s2]:
            attention<Multistage<4, Vectors>, warp::FullRow<4>, T, F, S, 64, 32, 512, 1, 128, 2>;
        sm_80: [attention_sm_80_ T _ SCORE LIE 64x16d512x128s1]:
            attention<Multistage<4, Elements>, warp::FullRow<4>, T, F, S, 64, 16, 512, 1, 128, 1>;
    }
    // Heads of 64 columns with a bias, a cap or slopes, which would be multiplied as if they had 128.
    for T in [f16, bf16], (SCORE, F) in CAPPED {
        sm_90: [attention_sm_90_ T _ SCORE _128x128d64x64s2]:
            attention<WarpSpecialized<TwoConsumersThreeProducers>, FullRow<2>, T, F, Equal, 128, 128, 64, 1, 64, 2>;
    }
    // Tiles of 64 x 64 are for blocks that larger ones do not divide, two of them on an SM.
    for T in [f16, bf16] {
        sm_90: [attention_sm_90_ T _plain_listed_128x128d64x64s2]:
            attention<WarpSpecialized<ReadLists>, FullRow<2>, T, Plain, Listed, 128, 128, 64, 1, 64, 2>;
        sm_90: [attention_sm_90_ T _plain_listed_64x64d64x64s2]:
            attention<WarpSpecialized<ReadListsTwoPerSm>, FullRow<1>, T, Plain, Listed, 64, 64, 64, 1, 64, 2>;
        sm_90: [attention_sm_90_ T _plain_listed_128x128d128x128s2]:
            attention<WarpSpecialized<ReadLists>, FullRow<2>, T, Plain, Listed, 128, 128, 128, 1, 128, 2>;
        sm_90: [attention_sm_90_ T _plain_listed_64x64d128x128s2]:
            attention<WarpSpecialized<ReadListsTwoPerSm>, FullRow<1>, T, Plain, Listed, 64, 64, 128, 1, 128, 2>;
        sm_90: [attention_sm_90_ T _plain_listed_128x64d256x256s2]:
            attention<WarpSpecialized<ReadLists>, FullRow<2>, T, Plain, Listed, 128, 64, 256, 1, 256, 2>;
        sm_90: [attention_sm_90_ T _plain_listed_64x64d256x256s2]:
            attention<WarpSpecialized<OneConsumerTwoProducers>, FullRow<1>, T, Plain, Listed, 64, 64, 256, 1, 256, 2>;
        sm_80: [attention_sm_80_ T _plain_listed_64x64d128x128s2]:
            attention<Multistage<4, Vectors>, warp::FullRow<4>, T, Plain, Listed, 64, 64, 128, 1, 128, 2>;
        sm_80: [attention_sm_80_ T _plain_listed_64x32d256x128s2]:
            attention<Multistage<4, Elements>, warp::FullRow<4>, T, Plain, Listed, 64, 32, 256, 1, 128, 2>;
    }
}

/// A kernel that lists packed sequences.
#[derive(Clone, Copy, Debug)]
pub struct ListKernel;

impl<P: Overlaps + Collective> Described for list_sequences<P> {
    type Description = ListKernel;
    const DESCRIPTION: ListKernel = ListKernel;
}

kernels! {
    /// The kernels that list packed sequences, one for each architecture.
    pub static LISTS: ListKernel;

    sm_90: [list_sequences_sm_90]: list_sequences<Overlapped<8>>;
    sm_80: [list_sequences_sm_80]: list_sequences<Simt<8>>;
}

/// A kernel that merges states.
#[derive(Clone, Copy, Debug)]
pub struct StatesKernel {
    /// The element type of O.
    pub element: &'static str,
    /// Rows of a CTA, and columns that it takes at a time.
    pub tile: [u32; 2],
}

impl<P: Overlaps, T: Element, const M: usize, const N: usize> Described for merge_states<P, T, M, N>
where
    Striped<4>: FragmentLayout<M, N>,
{
    type Description = StatesKernel;
    const DESCRIPTION: StatesKernel = StatesKernel { element: T::NAME, tile: [M as u32, N as u32] };
}

kernels! {
    /// The kernels that merge states.
    pub static STATES: StatesKernel;

    for T in [f16, bf16] {
        sm_90: [merge_states_sm_90_ T]: merge_states<Overlapped<4>, T, 16, 128>;
        sm_80: [merge_states_sm_80_ T]: merge_states<Simt<4>, T, 16, 128>;
    }
}
