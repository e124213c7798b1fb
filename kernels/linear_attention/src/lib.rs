//! Linear attention with a state, one source for every architecture: retention, gated linear attention, the delta rule.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod anchors;
mod channel_gradients;
mod channels;
mod chunk;
mod chunk_walk;
mod chunked;
mod column_pairs;
mod decay_sums;
mod decays;
mod gate_sums;
mod gradients;
mod inverse;
mod left;
mod list;
mod passing;
mod policy;
mod preparation;
mod scanning;
mod solving;
mod state;
mod stepping;
mod work;

pub use channel_gradients::{ChannelGradientArgs, channel_gradient};
pub use chunk_walk::{ChunkStatesArgs, chunk_states};
pub use chunked::{RetentionArgs, retention};
pub use decay_sums::{SumGatesArgs, sum_gates};
pub use decays::Decays;
pub use gradients::{GradientArgs, gradient};
pub use list::{
    CHUNK_STATES, ChunkKernel, ChunkStatesKernel, GRADIENT, GradientKernel, PASS, PREPARE, PassKernel,
    PrepareKernel, RETENTION, SCAN, SOLVE, STEP, SolveKernel, StepKernel, Way,
};
pub use passing::{
    PASSED, PASSED_COLUMNS, PassByTransitionsArgs, PassStatesArgs, pass_by_transitions, pass_states,
};
pub use policy::{CHUNK, Prepares, Scores, States};
pub use preparation::{PrepareArgs, prepare};
pub use scanning::{ScanArgs, scan};
pub use solving::{SolveArgs, solve};
pub use stepping::{StepArgs, step};
pub use work::Work;

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
