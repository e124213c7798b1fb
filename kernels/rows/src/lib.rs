//! Row-wise operators: softmax, masked too, norms, cross-entropy, their gradients. Each row is read once where it fits the registers of a warp, a CTA or a cluster.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod columns;
mod described;
mod gradients;
mod list;
mod loss;
mod loss_held;
mod loss_rows;
mod masked_rows;
mod norm_backward;
mod norm_backward_held;
mod norm_rows;
mod norms_held;
mod program;
mod softmax_backward;
mod softmax_rows;

pub use columns::{ColumnSumsArgs, column_sums};
pub use described::RowsKernel;
pub use gradients::{COLUMN_SUMS, NORM_GRADIENT, SOFTMAX_GRADIENT};
pub use list::{CROSS_ENTROPY, MASKED_SOFTMAX, NORM, SOFTMAX};
pub use loss_held::{CrossEntropyHeldArgs, CrossEntropyRaggedArgs, cross_entropy_held, cross_entropy_ragged};
pub use loss_rows::{CrossEntropyArgs, CrossEntropyLongArgs, cross_entropy, cross_entropy_long};
pub use masked_rows::{
    MaskedSoftmaxArgs, MaskedSoftmaxHeldArgs, MaskedSoftmaxLongArgs, MaskedSoftmaxRaggedArgs, masked_softmax,
    masked_softmax_held, masked_softmax_long, masked_softmax_ragged,
};
pub use norm_backward::{NormGradientArgs, NormGradientLongArgs, norm_gradient, norm_gradient_long};
pub use norm_rows::{NormArgs, NormLongArgs, norm, norm_long};
pub use norms_held::{NormAlikeArgs, NormHeldArgs, NormRaggedArgs, norm_alike, norm_held, norm_ragged};
pub use program::{Added, NextTile, NoResidual, Nothing, OneTile, Prefetch, Residual, RowProgram, resident};
pub use softmax_backward::{
    SoftmaxGradientArgs, SoftmaxGradientLongArgs, softmax_gradient, softmax_gradient_long,
};
pub use softmax_rows::{
    SoftmaxArgs, SoftmaxHeldArgs, SoftmaxLongArgs, SoftmaxRaggedArgs, softmax, softmax_held, softmax_long,
    softmax_ragged,
};

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
