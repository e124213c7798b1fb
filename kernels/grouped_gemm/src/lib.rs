//! Products of groups of rows, each with a matrix of its own, and the order that brings rows into groups.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod combination;
mod depth;
mod few;
mod gated;
mod gated_few;
mod list;
mod order;
mod product;

pub use combination::{COMBINE_THREADS, CombineArgs, Places, combine};
pub use depth::{KGroupedGemmArgs, k_grouped_gemm};
pub use few::{GroupedGemmFewArgs, grouped_gemm_few};
pub use gated::{GroupedGemmGatedArgs, grouped_gemm_gated};
pub use gated_few::{GroupedGemmGatedFewArgs, grouped_gemm_gated_few};
pub use list::{
    COMBINE, CombineKernel, GROUPED, GroupedKernel, K_GROUPED, KGroupedKernel, ORDER, OrderKernel, RowsOf,
};
pub use order::{Entries, ORDER_THREADS, OrderGroupsArgs, order_groups};
pub use product::{GroupedGemmArgs, grouped_gemm};

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
