//! State-space kernels: the chunked scan of Mamba-2 (SSD; Dao & Gu 2024), its decoding step, and the causal convolution before it, and their gradients.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod conv;
mod decoding;
mod gradient;
mod list;
mod passing;
mod products;
mod scan;
mod sequences;
mod states;
mod steps;
mod tokens;

pub use conv::{CausalConv1dArgs, causal_conv1d};
pub use decoding::{StateStepArgs, state_step};
pub use gradient::{
    BLOCK_GRADIENT, BLOCK_STATES, BlockGradientArgs, BlockKernel, BlockStatesArgs, CONV_GRADIENT,
    CausalConv1dGradientArgs, GATE, GateGradientArgs, Items, LINE_SUMS, LineSumsArgs, SPLIT_SUMS,
    STEPS_GRADIENT, SUMS, SplitSumsArgs, StepsGradientArgs, TileKernel, block_gradient, block_states,
    causal_conv1d_gradient, gate_gradient, line_sums, split_sums, steps_gradient,
};
pub use list::{
    CONV, ConvKernel, PASSING, PassingKernel, SCAN, STATE, STATE_STEP, STEPS, ScanKernel, StateStepKernel,
    StepsKernel,
};
pub use passing::{StatePassingArgs, state_passing};
pub use products::Products;
pub use scan::{ChunkScanArgs, chunk_scan};
pub use sequences::{Chunks, Sequence, Sequences};
pub use states::{ChunkStateArgs, chunk_state};
pub use steps::{ChunkStepsArgs, chunk_steps};
pub use tokens::{BLOCK, STEPS_COLUMNS};

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
