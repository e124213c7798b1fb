//! The kernels of 8-bit floats that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    ChainedGemm, Configuration, E4M3x2, Element, FullRow, Overlapped, Overlaps, Producers, RegisterBudget,
    Schedule, ThreeConsumersThreeProducers, TwoConsumersThreeProducers, WarpSpecialized,
};
use tilewright_device::{bf16, f16, kernels};

use super::{scaled_attention, transpose_values};
use crate::keys::{Blocks, Keys};

/// What the host chooses a kernel of 8-bit floats by.
#[derive(Clone, Copy, Debug)]
pub struct ScaledKernel {
    /// The element type of O.
    pub output: &'static str,
    /// Queries of a tile, keys of a block.
    pub tile: [u32; 2],
    /// The most columns of Q and K, and of V and O.
    pub columns: [u32; 2],
    /// The blocks of keys that a tile of queries sees.
    pub blocks: fn(&Keys, u32) -> Blocks,
}

#[rustfmt::skip]
impl<
    P: Schedule, Y, U: Element, const BM: usize, const BN: usize, const D: usize, const DV: usize, const HALF: usize, const STAGES: usize,
> Described for scaled_attention<P, Y, U, BM, BN, D, DV, HALF, STAGES>
where
    Y: ChainedGemm<E4M3x2, BM, BN, D, DV, HALF>,
{
    type Description = ScaledKernel;
    const DESCRIPTION: ScaledKernel = ScaledKernel {
        output: U::NAME,
        tile: [BM as u32, BN as u32],
        columns: [2 * D as u32, DV as u32],
        blocks: Keys::blocks::<BM, BN>,
    };
}

/// Two consumer warpgroups with all the registers that three producers leave.
#[derive(Clone, Copy, Debug, Default)]
pub struct MostRegisters;

impl Configuration for MostRegisters {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(3);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 24, consumers: 240 });
}

// Columns that a tensor lacks are zeros, so each width serves the narrower ones too: exponentials bound heads of 64 columns, and their products with zeros hide below them.
// A block has 128 keys, as many bytes as TMA swizzles.
#[rustfmt::skip]
kernels! {
    /// The kernels of attention of 8-bit floats.
    pub static SCALED: ScaledKernel;

    for T in [f16, bf16] {
        sm_90: [scaled_attention_sm_90_ T _192x128d128x64s4]:
            scaled_attention<WarpSpecialized<ThreeConsumersThreeProducers>, FullRow<3>, T, 192, 128, 64, 64, 64, 4>;
        sm_90: [scaled_attention_sm_90_ T _128x128d128x128s4]:
            scaled_attention<WarpSpecialized<TwoConsumersThreeProducers>, FullRow<2>, T, 128, 128, 64, 128, 64, 4>;
        sm_90: [scaled_attention_sm_90_ T _128x128d256x128s2]:
            scaled_attention<WarpSpecialized<TwoConsumersThreeProducers>, FullRow<2>, T, 128, 128, 128, 128, 64, 2>;
        sm_90: [scaled_attention_sm_90_ T _128x128d256x256s2]:
            scaled_attention<WarpSpecialized<MostRegisters>, FullRow<2>, T, 128, 128, 128, 256, 64, 2>;
    }
}

/// A kernel that transposes V of 8-bit floats.
#[derive(Clone, Copy, Debug)]
pub struct ScaledValuesKernel {
    /// Warps of a CTA, each with a tile of its own.
    pub warps: u32,
}

impl<P: Overlaps> Described for transpose_values<P> {
    type Description = ScaledValuesKernel;
    const DESCRIPTION: ScaledValuesKernel = ScaledValuesKernel { warps: P::THREADS / 32 };
}

kernels! {
    /// The kernel that transposes V of 8-bit floats.
    pub static SCALED_VALUES: ScaledValuesKernel;

    sm_90: [transpose_values_sm_90]: transpose_values<Overlapped<8>>;
}
