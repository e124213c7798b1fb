//! The ladder's kernels, a level a file. This crate is compiled twice: to PTX, and for the host, which takes types and constants from it.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod attention;
pub mod gemm_f16;
pub mod gemm_naive;
pub mod gemm_pipelined;
pub mod gemm_registers;
pub mod gemm_shared;
pub mod gemm_tf32;
pub mod gemm_vectors;
pub mod gemm_warp_specialised;
pub mod row_softmax;
pub mod vector_add;

/// The kernels, compiled.
#[cfg(feature = "build")]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
