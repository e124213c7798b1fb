//! Which warps a warp-specialised CTA is made of, and how its registers are divided among them.

use core::marker::PhantomData;

use crate::arch::sync::RegisterCount;
use crate::tile::cta::registers;

/// What [`WarpSpecialized`](super::warp_specialized::WarpSpecialized) runs a kernel with: consumers, producers and their registers.
///
/// | | consumer warpgroups | producer warps | CTAs an SM | cluster | registers of producers, consumers |
/// | --- | --- | --- | --- | --- | --- |
/// | [`OneConsumer`] | 1 | 1 | 1 | 1 | as launched |
/// | [`OneConsumerTwoProducers`] | 1 | 2 | 1 | 1 | as launched |
/// | [`OneConsumerTwoProducersTwoPerSm`] | 1 | 2 | 2 | 1 | 40, 208 |
/// | [`TwoConsumers`] | 2 | 1 | 1 | 1 | 40, 232 |
/// | [`TwoConsumersCluster`] | 2 | 1 | 1 | 2 | 40, 232 |
/// | [`TwoConsumersClusterOfFour`] | 2 | 1 | 1 | 4 | 40, 232 |
/// | [`PingPong`] | 2, in turn | 1 | 1 | 1 | 40, 232 |
/// | [`PingPongCluster`] | 2, in turn | 1 | 1 | 2 | 24, 240 |
/// | [`TwoConsumersThreeProducers`] | 2 | 3 | 1 | 1 | 40, 232 |
/// | [`TwoConsumersTwoProducersAdder`] | 2 | 2, and one that adds | 1 | 1 | 56, 224 |
/// | [`TwoConsumersThreeProducersAdder`] | 2 | 3, and one that adds | 1 | 1 | 56, 224 |
/// | [`TwoConsumersJointProducers`] | 2 | 4, joint | 1 | 1 | 56, 224 |
/// | [`TwoConsumersJointProducersCluster`] | 2 | 4, joint | 1 | 2 | 56, 224 |
/// | [`ThreeConsumers`] | 3 | 1 | 1 | 1 | 32, 160 |
/// | [`ThreeConsumersThreeProducers`] | 3 | 3 | 1 | 1 | 32, 160 |
/// | [`FourConsumersJointProducers`] | 4 | 4, joint | 1 | 1 | 64, 104 |
///
/// A kernel that needs another one implements this for a type of its own. What does not fit does not compile:
///
/// ```
/// use tilewright_device::tile::*;
///
/// /// Three consumer warpgroups and two producers.
/// #[derive(Clone, Copy, Debug, Default)]
/// pub struct ThreeConsumersTwoProducers;
///
/// impl Configuration for ThreeConsumersTwoProducers {
///     const CONSUMER_WARPGROUPS: u32 = 3;
///     const PRODUCERS: Producers = Producers::Separate(2);
///     const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 32, consumers: 160 });
/// }
///
/// type Program = WarpSpecialized<ThreeConsumersTwoProducers>;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a configuration of warp specialisation",
    note = "a type of your own may implement it: the page of `Configuration` has the table of those that are there, and an example"
)]
pub trait Configuration: Copy + Default + 'static {
    /// Warpgroups that compute: 1 to 4.
    const CONSUMER_WARPGROUPS: u32;
    /// Warps that load, of one more warpgroup.
    const PRODUCERS: Producers;
    /// Registers of a thread of each role. `None` where all keep what the launch gives them: as many as a thread can have, if there is
    /// one consumer warpgroup and one CTA an SM.
    const REGISTERS: Option<RegisterBudget>;
    /// Whether the last producer fills no pipeline, but [adds sums](crate::tile::BlockSums): the one before it then takes the tiles of a
    /// [queue](crate::tile::TileQueue), when its last load of a tile is issued.
    const ADDER: bool = false;
    /// Whether a producer's thread is one that its warp elects. ptxas then knows it to be alone, and copies take their coordinates from
    /// uniform registers; else each copy is a loop of ten instructions, over threads that might be several.
    ///
    /// For producers that issue many copies a stage. Others gain nothing, some kernels lose 3%, and those whose producers have few registers
    /// spill.
    const ELECTS: bool = false;
    /// CTAs that share an SM, and with it its registers.
    const CTAS_PER_SM: u32 = 1;
    /// CTAs of a cluster, 1 to 8.
    ///
    /// Of every tile that TMA has boxes for, each copies its share to all of them (multicast), so that it is read from the L2 cache once;
    /// but of tiles that are a CTA's [`own`](crate::tile::GlobalTile::own), and of what is copied as bytes. They load the same steps, and the
    /// kernel's `cluster` is `[P::CLUSTER, 1, 1]`.
    const CLUSTER: u32 = 1;
    /// Whether each consumer warpgroup computes tiles of its own, with a policy [`PerWarpgroup`](crate::tile::PerWarpgroup): while one
    /// stores its tile, the tensor cores have another's gemms (ping-pong). See [`Pipeline::run_in_turn`](crate::tile::Pipeline::run_in_turn).
    const APART: bool = false;
}

/// The warps that load, 1 to 4, and how they divide their work. One thread of each issues TMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producers {
    /// Each fills pipelines of its own: of `n` producers, the first one fills the first pipeline, the `n + 1`-th and so on.
    Separate(u32),
    /// All fill every stage together, for stages of many copies; and consumers give them back warp by warp, because their threads
    /// read them too, not their gemms alone.
    ///
    /// All but the last begin before the preceding grid has ended (programmatic dependent launch): what they copy, bytes, no kernel
    /// writes.
    Joint(u32),
}

impl Producers {
    /// How many warps they are.
    pub const fn warps(self) -> u32 {
        match self {
            Producers::Separate(warps) | Producers::Joint(warps) => warps,
        }
    }

    /// Whether all of them fill every stage.
    pub const fn joint(self) -> bool {
        matches!(self, Producers::Joint(_))
    }
}

/// How many registers a thread has once producers have given theirs to the consumers: multiples of 8, from 24 to 256,
/// the producers' no more than the launch gives and the consumers' no less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterBudget {
    /// Of a thread of the producers' warpgroup.
    pub producers: u32,
    /// Of a thread of the consumers' warpgroups.
    pub consumers: u32,
}

/// One consumer warpgroup and a producer: small tiles.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneConsumer;

impl Configuration for OneConsumer {
    const CONSUMER_WARPGROUPS: u32 = 1;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = None;
}

/// One consumer warpgroup and two producers: small tiles of two pipelines.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneConsumerTwoProducers;

impl Configuration for OneConsumerTwoProducers {
    const CONSUMER_WARPGROUPS: u32 = 1;
    const PRODUCERS: Producers = Producers::Separate(2);
    const REGISTERS: Option<RegisterBudget> = None;
    const ELECTS: bool = true;
}

/// As [`OneConsumerTwoProducers`], with two CTAs an SM, which hide each other's latency.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneConsumerTwoProducersTwoPerSm;

impl Configuration for OneConsumerTwoProducersTwoPerSm {
    const CONSUMER_WARPGROUPS: u32 = 1;
    const PRODUCERS: Producers = Producers::Separate(2);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 208 });
    const ELECTS: bool = true;
    const CTAS_PER_SM: u32 = 2;
}

/// Two consumer warpgroups and a producer: large tiles.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoConsumers;

impl Configuration for TwoConsumers {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 232 });
}

/// Two consumer warpgroups and three producers: large tiles of three pipelines.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoConsumersThreeProducers;

impl Configuration for TwoConsumersThreeProducers {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(3);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 232 });
}

/// Two consumer warpgroups, two producers and one that adds sums: tiles of two pipelines, one behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoConsumersTwoProducersAdder;

impl Configuration for TwoConsumersTwoProducersAdder {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(3);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 56, consumers: 224 });
    const ADDER: bool = true;
}

/// Two consumer warpgroups, three producers and one that adds sums: tiles of three pipelines, one behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoConsumersThreeProducersAdder;

impl Configuration for TwoConsumersThreeProducersAdder {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(4);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 56, consumers: 224 });
    const ADDER: bool = true;
}

/// Two consumer warpgroups and four joint producers: stages of many copies.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoConsumersJointProducers;

impl Configuration for TwoConsumersJointProducers {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Joint(4);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 56, consumers: 224 });
}

/// As [`TwoConsumersJointProducers`], in clusters of two CTAs.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoConsumersJointProducersCluster;

impl Configuration for TwoConsumersJointProducersCluster {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Joint(4);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 56, consumers: 224 });
    const CLUSTER: u32 = 2;
}

/// Three consumer warpgroups and a producer: tiles of 192 rows, for waves that those of two leave half empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreeConsumers;

impl Configuration for ThreeConsumers {
    const CONSUMER_WARPGROUPS: u32 = 3;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 32, consumers: 160 });
}

/// Three consumer warpgroups and three producers: the largest tiles, of three pipelines.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreeConsumersThreeProducers;

impl Configuration for ThreeConsumersThreeProducers {
    const CONSUMER_WARPGROUPS: u32 = 3;
    const PRODUCERS: Producers = Producers::Separate(3);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 32, consumers: 160 });
}

/// Two consumer warpgroups that compute tiles in turn, and a producer: tiles of few steps, whose epilogue takes long beside them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PingPong;

impl Configuration for PingPong {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 232 });
    const APART: bool = true;
}

/// Two consumer warpgroups that compute tiles in turn, and a producer, in clusters of two CTAs: large products, of which no epilogue shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct PingPongCluster;

impl Configuration for PingPongCluster {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 24, consumers: 240 });
    const CLUSTER: u32 = 2;
    const APART: bool = true;
}

/// Two consumer warpgroups and a producer in clusters of two CTAs, which share B: tiles that read more than L2 delivers for one.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoConsumersCluster;

impl Configuration for TwoConsumersCluster {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 232 });
    const CLUSTER: u32 = 2;
}

/// The same in clusters of four: narrow tiles, which read little of B.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoConsumersClusterOfFour;

impl Configuration for TwoConsumersClusterOfFour {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 232 });
    const CLUSTER: u32 = 4;
}

/// Four consumer warpgroups and four joint producers: stages of many copies, whose decoding takes many threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct FourConsumersJointProducers;

impl Configuration for FourConsumersJointProducers {
    const CONSUMER_WARPGROUPS: u32 = 4;
    const PRODUCERS: Producers = Producers::Joint(4);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 64, consumers: 104 });
}

/// A configuration whose producers' threads are [elected](Configuration::ELECTS).
#[derive(Clone, Copy, Debug, Default)]
pub struct Elected<C>(PhantomData<C>);

impl<C: Configuration> Configuration for Elected<C> {
    const CONSUMER_WARPGROUPS: u32 = C::CONSUMER_WARPGROUPS;
    const PRODUCERS: Producers = C::PRODUCERS;
    const REGISTERS: Option<RegisterBudget> = C::REGISTERS;
    const ADDER: bool = C::ADDER;
    const ELECTS: bool = true;
    const CTAS_PER_SM: u32 = C::CTAS_PER_SM;
    const CLUSTER: u32 = C::CLUSTER;
    const APART: bool = C::APART;
}

/// What follows from a configuration.
pub(super) trait Derived: Configuration {
    /// Threads of a CTA: those of the consumers' warpgroups, and of the producers'.
    const THREADS: u32 = 128 * (Self::CONSUMER_WARPGROUPS + 1);
    /// Registers that a thread has at the launch.
    const LAUNCH: u32 = registers::at_launch(Self::THREADS, Self::CTAS_PER_SM);
    /// What a thread of each role has behind that.
    const BUDGET: RegisterBudget = match Self::REGISTERS {
        Some(budget) => budget,
        None => RegisterBudget { producers: Self::LAUNCH, consumers: Self::LAUNCH },
    };
    /// Refuses, when a kernel is compiled, what no CTA can be.
    const FIT: () = {
        let (warpgroups, producers) = (Self::CONSUMER_WARPGROUPS, Self::PRODUCERS);
        assert!(warpgroups >= 1 && warpgroups <= 4, "1 to 4 consumer warpgroups");
        assert!(producers.warps() >= 1 && producers.warps() <= 4, "1 to 4 producer warps");
        assert!(
            Self::CTAS_PER_SM >= 1 && Self::CTAS_PER_SM * Self::THREADS <= 2048,
            "an SM holds a CTA, or several of 2048 threads together"
        );
        assert!(Self::CLUSTER >= 1 && Self::CLUSTER <= 8, "a cluster has 1 to 8 CTAs");
        assert!(
            !Self::APART || !producers.joint(),
            "joint producers fill stages for all warpgroups together"
        );
        assert!(
            !Self::ADDER || producers.warps() >= 2 && !producers.joint(),
            "an adder is the last of separate producers, of which another one takes tiles"
        );
        assert!(
            warpgroups == 1 || Self::REGISTERS.is_some(),
            "several consumer warpgroups take registers of the producers' warpgroup: say how many in `REGISTERS`"
        );
        let RegisterBudget { producers: few, consumers: many } = Self::BUDGET;
        registers::expect_fit(&[(1, few), (warpgroups, many)], Self::LAUNCH);
        assert!(
            few <= Self::LAUNCH && many >= Self::LAUNCH,
            "producers give registers and consumers take them"
        );
    };
}

impl<C: Configuration> Derived for C {}

/// The registers of a thread of the producers.
pub(super) struct OfProducers<C>(PhantomData<C>);

impl<C: Configuration> RegisterCount for OfProducers<C> {
    const COUNT: u32 = C::BUDGET.producers;
}

/// The registers of a thread of the consumers.
pub(super) struct OfConsumers<C>(PhantomData<C>);

impl<C: Configuration> RegisterCount for OfConsumers<C> {
    const COUNT: u32 = C::BUDGET.consumers;
}
