//! The kernels. This crate is compiled twice: to PTX, and for the host, which takes types and constants from it.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod gemv;
pub mod modulate;
pub mod softmax;
pub mod swiglu;

/// The kernels, compiled.
#[cfg(feature = "build")]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
