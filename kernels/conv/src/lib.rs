//! Convolutions of images and their gradients, as products with patches that no memory holds.
//!
//! - [`conv`](fn@conv): outputs, and gradients of inputs whose pixels follow each other.
//! - [`conv_rows`](fn@conv_rows): outputs of few channels.
//! - [`conv_scattered`](fn@conv_scattered): gradients of inputs whose pixels lie anywhere.
//! - [`conv_weights`](fn@conv_weights): gradients of weights.
//! - [`conv_depthwise`](fn@conv_depthwise): a filter for each channel.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod depthwise;
mod list;
mod outputs;
mod rows;
mod scattered;
mod weights;

pub use depthwise::{CHANNELS, ConvDepthwiseArgs, RUN, STRIP, StripOrder, THREADS, conv_depthwise};
pub use list::{CONV, ConvKernel, Makes};
pub use outputs::{ConvArgs, conv};
pub use rows::{ConvRowsArgs, ROWS, Windows, conv_rows};
pub use scattered::{ConvScatteredArgs, conv_scattered};
pub use weights::{ConvWeightsArgs, conv_weights};

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
