//! Row-wise operators: softmax, norms, cross-entropy. Each row is read once where it fits the registers of a warp, a CTA or a cluster.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod list;
mod loss_rows;
mod norm_rows;
mod program;
mod softmax_rows;

pub use list::{CROSS_ENTROPY, NORM, RowsKernel, SOFTMAX};
pub use loss_rows::{CrossEntropyArgs, CrossEntropyLongArgs, cross_entropy, cross_entropy_long};
pub use norm_rows::{NormArgs, NormLongArgs, norm, norm_long};
pub use program::{Added, NextTile, NoResidual, Nothing, Prefetch, Residual, RowProgram, resident};
pub use softmax_rows::{SoftmaxArgs, SoftmaxLongArgs, softmax, softmax_long};

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
