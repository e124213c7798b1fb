//! Linear attention with a state, one source for every architecture: retention, gated linear attention, the delta rule.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod chunked;
mod decays;
mod list;
mod passing;
mod policy;
mod work;

pub use chunked::{RetentionArgs, retention};
pub use decays::Decays;
pub use list::{ChunkKernel, RETENTION};
pub use passing::{PASSED, PassStatesArgs, pass_states};
pub use policy::{CHUNK, Scores, States};
pub use work::Work;

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
