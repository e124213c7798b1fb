//! Kernels that move tiles in every direction.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod copies;
pub mod cuts;
pub mod gathers;
pub mod held;
pub mod latent;
pub mod neighbours;
pub mod operands;
pub mod products;
pub mod queues;
pub mod rows;
pub mod scans;
pub mod sums;
pub mod transpositions;
pub mod turns;
