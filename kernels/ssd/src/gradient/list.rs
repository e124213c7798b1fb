//! The gradients' kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{
    Collective, Element, Elements, FragmentLayout, FullRow, Multistage, OneConsumer, OutputLayout, Program,
    Reads, Simt, Vectors, WarpSpecialized, warp,
};
use tilewright_device::{bf16, f16, kernels};

use super::blocks::block_gradient;
use super::conv::{Lanes, TOKENS, causal_conv1d_gradient};
use super::gate::gate_gradient;
use super::lines::line_sums;
use super::splits::split_sums;
use super::states::block_states;
use super::steps::steps_gradient;
use crate::list::TwoPerSm;
use crate::products::Products;
use crate::steps::HEADS;
use crate::tokens::BLOCK;

/// What the host chooses a kernel of blocks by.
#[derive(Clone, Copy, Debug)]
pub struct BlockKernel {
    /// The element type of x, B, C and dy.
    pub element: &'static str,
    /// The most columns of B and C.
    pub columns: u32,
    /// Stages of the pipeline.
    pub stages: u32,
    /// True when it reads any strides, element by element.
    pub any_strides: bool,
    /// True of the gradients by B and x, false of that by C, and of states.
    pub keys: bool,
}

impl<P: Reads, Y, T: Element, const N: usize, const STAGES: usize> Described
    for block_states<P, Y, T, N, STAGES>
where
    Y: Products<T, N> + OutputLayout<64, N>,
{
    type Description = BlockKernel;
    const DESCRIPTION: BlockKernel = BlockKernel {
        element: T::NAME,
        columns: N as u32,
        stages: STAGES as u32,
        any_strides: P::ANY_STRIDES,
        keys: false,
    };
}

impl<P: Reads, Y, T: Element, const N: usize, const KEYS: bool, const STAGES: usize> Described
    for block_gradient<P, Y, T, N, KEYS, STAGES>
where
    Y: Products<T, N>,
{
    type Description = BlockKernel;
    const DESCRIPTION: BlockKernel = BlockKernel {
        element: T::NAME,
        columns: N as u32,
        stages: STAGES as u32,
        any_strides: P::ANY_STRIDES,
        keys: KEYS,
    };
}

/// A kernel of tiles of tensors that are read to registers.
#[derive(Clone, Copy, Debug)]
pub struct TileKernel {
    /// The element type: of the tensors, of dt, of what is written.
    pub element: &'static str,
    /// What a CTA takes: rows and columns, tokens and heads, lines and columns, tokens and channels.
    pub tile: [u32; 2],
    /// The most taps of a filter; 0 of all but the convolution's.
    pub taps: u32,
}

impl TileKernel {
    const fn new<T: Element>(tile: [usize; 2], taps: usize) -> Self {
        TileKernel { element: T::NAME, tile: [tile[0] as u32, tile[1] as u32], taps: taps as u32 }
    }
}

impl<P: Program, T: Element> Described for gate_gradient<P, T> {
    type Description = TileKernel;
    const DESCRIPTION: TileKernel = TileKernel::new::<T>(super::gate::TILE, 0);
}

impl<P: Program, T: Element> Described for split_sums<P, T> {
    type Description = TileKernel;
    const DESCRIPTION: TileKernel = TileKernel::new::<T>(super::splits::TILE, 0);
}

impl<P: Collective, T: Element> Described for line_sums<P, T> {
    type Description = TileKernel;
    const DESCRIPTION: TileKernel = TileKernel::new::<T>(super::lines::TILE, 0);
}

impl<P: Collective, U: Element> Described for steps_gradient<P, U> {
    type Description = TileKernel;
    const DESCRIPTION: TileKernel = TileKernel::new::<U>([BLOCK as usize, HEADS], 0);
}

impl<P: Program, T: Element, const TAPS: usize, const N: usize, const EACH: usize> Described
    for causal_conv1d_gradient<P, T, TAPS, N, EACH>
where
    Lanes<EACH>: FragmentLayout<TAPS, N> + FragmentLayout<1, N>,
{
    type Description = TileKernel;
    const DESCRIPTION: TileKernel = TileKernel::new::<T>([TOKENS, N], TAPS);
}

#[rustfmt::skip]
kernels! {
    /// The kernels of states before each block.
    pub static BLOCK_STATES: BlockKernel;

    for T in [f16, bf16] {
        for N in [64, 128] {
            sm_90: [block_states_sm_90_ T _n N s2]: block_states<WarpSpecialized<TwoPerSm>, FullRow<1>, T, N, 2>;
        }
        sm_90: [block_states_sm_90_ T _n256s2]: block_states<WarpSpecialized<OneConsumer>, FullRow<1>, T, 256, 2>;
        sm_80: [block_states_sm_80_ T _n256s2]: block_states<Multistage<4, Vectors>, warp::FullRow<4>, T, 256, 2>;
        sm_80: [block_states_sm_80_ T _n128s2]: block_states<Multistage<4, Vectors>, warp::FullRow<4>, T, 128, 2>;
        sm_80: [block_states_sm_80_ T _n128s2_any]: block_states<Multistage<4, Elements>, warp::FullRow<4>, T, 128, 2>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of gradients within blocks.
    pub static BLOCK_GRADIENT: BlockKernel;

    let SIDES = [(c, false), (bx, true)];

    for T in [f16, bf16], (SIDE, KEYS) in SIDES {
        for N in [64, 128] {
            sm_90: [block_gradient_ SIDE _sm_90_ T _n N s2]:
                block_gradient<WarpSpecialized<TwoPerSm>, FullRow<1>, T, N, KEYS, 2>;
        }
        sm_90: [block_gradient_ SIDE _sm_90_ T _n256s1]:
            block_gradient<WarpSpecialized<OneConsumer>, FullRow<1>, T, 256, KEYS, 1>;
        sm_80: [block_gradient_ SIDE _sm_80_ T _n256s1]:
            block_gradient<Multistage<4, Vectors>, warp::FullRow<4>, T, 256, KEYS, 1>;
        sm_80: [block_gradient_ SIDE _sm_80_ T _n128s2]:
            block_gradient<Multistage<4, Vectors>, warp::FullRow<4>, T, 128, KEYS, 2>;
        sm_80: [block_gradient_ SIDE _sm_80_ T _n128s2_any]:
            block_gradient<Multistage<4, Elements>, warp::FullRow<4>, T, 128, KEYS, 2>;
    }
}

kernels! {
    /// The kernels of the gate.
    pub static GATE: TileKernel;

    for T in [f16, bf16] {
        sm_80: [gate_gradient_sm_80_ T]: gate_gradient<Simt<4>, T>;
    }
}

kernels! {
    /// The kernels that add up the gradients by B and C.
    pub static SPLIT_SUMS: TileKernel;

    for T in [f16, bf16] {
        sm_80: [split_sums_sm_80_ T]: split_sums<Simt<4>, T>;
    }
}

kernels! {
    /// The kernels that add up lines.
    pub static LINE_SUMS: TileKernel;

    for T in [f16, bf16, f32] {
        sm_80: [line_sums_sm_80_ T]: line_sums<Simt<4>, T>;
    }
}

kernels! {
    /// The kernels of the gradients by dt, A and D.
    pub static STEPS_GRADIENT: TileKernel;

    for U in [f16, bf16, f32] {
        sm_80: [steps_gradient_sm_80_ U]: steps_gradient<Simt<4>, U>;
    }
}

kernels! {
    /// The kernels of the convolution's gradients.
    pub static CONV_GRADIENT: TileKernel;

    for T in [f16, bf16] {
        sm_80: [causal_conv1d_gradient_sm_80_ T _w4]: causal_conv1d_gradient<Simt<1>, T, 4, 128, 4>;
    }
    sm_80: [causal_conv1d_gradient_sm_80_f32_w4]: causal_conv1d_gradient<Simt<1>, f32, 4, 64, 2>;
    for T in [f16, bf16, f32] {
        sm_80: [causal_conv1d_gradient_sm_80_ T _w8]: causal_conv1d_gradient<Simt<1>, T, 8, 64, 2>;
    }
}
