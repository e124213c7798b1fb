//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Configuration, Element, Elements, FullCol, FullRow, Multistage, OneConsumer, Producers, Reads,
    RegisterBudget, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use crate::chunked::retention;
use crate::policy::{Scores, States};

/// A consumer warpgroup and a producer, two CTAs an SM: one's gemms run while the other's scores are decayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoPerSm;

impl Configuration for TwoPerSm {
    const CONSUMER_WARPGROUPS: u32 = 1;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 208 });
    const CTAS_PER_SM: u32 = 2;
}

/// What the host chooses a kernel of [`retention`] by.
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
    /// True when it computes outputs, false when states alone.
    pub outputs: bool,
}

#[rustfmt::skip]
impl<
    P: Reads, Y, X, T: Element, const DV: usize, const DK: usize, const D: usize, const PARTS: usize, const STAGES: usize,
    const OUTPUTS: bool,
> Described for retention<P, Y, X, T, DV, DK, D, PARTS, STAGES, OUTPUTS>
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
        outputs: OUTPUTS,
    };
}

#[rustfmt::skip]
kernels! {
    /// The kernels of [`retention`](crate::retention), with outputs and of states alone.
    pub static RETENTION: ChunkKernel;

    let BOTH = [(retention, true), (states, false)];

    for T in [f16, bf16], (WHAT, OUTPUTS) in BOTH {
        sm_90: [WHAT _sm_90_ T _64x64s3]:
            retention<WarpSpecialized<TwoPerSm>, FullRow<1>, FullCol<1>, T, 64, 64, 64, 1, 3, OUTPUTS>;
        sm_90: [WHAT _sm_90_ T _64x128s2]:
            retention<WarpSpecialized<TwoPerSm>, FullRow<1>, FullCol<1>, T, 64, 128, 128, 1, 2, OUTPUTS>;
        sm_90: [WHAT _sm_90_ T _64x256s2]:
            retention<WarpSpecialized<OneConsumer>, FullRow<1>, FullCol<1>, T, 64, 256, 64, 4, 2, OUTPUTS>;
        sm_80: [WHAT _sm_80_ T _64x128s2]:
            retention<Multistage<4, Vectors>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 128, 128, 1, 2, OUTPUTS>;
        sm_80: [WHAT _sm_80_ T _64x128s2_any]:
            retention<Multistage<4, Elements>, warp::FullRow<4>, warp::FullCol<4>, T, 64, 128, 128, 1, 2, OUTPUTS>;
    }
}
