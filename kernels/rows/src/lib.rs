//! Row-wise operators: softmax, norms. Each row is read once where it fits the registers of a warp, a CTA or a cluster.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod list;
mod norm_rows;
mod program;
mod softmax_rows;

pub use list::{NORM, RowsKernel, SOFTMAX};
pub use norm_rows::{NormArgs, NormLongArgs, norm, norm_long};
pub use program::{Added, NextTile, NoResidual, Nothing, Prefetch, Residual, RowProgram, resident};
pub use softmax_rows::{SoftmaxArgs, SoftmaxLongArgs, softmax, softmax_long};

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
