//! Products of activations and narrow weights.
//!
//! - [`dequant_gemm`](fn@dequant_gemm): weights decoded to f16 or bf16 in registers.
//! - [`dequant_gemm_int8`](fn@dequant_gemm_int8): int8 activations, exact sums.
//! - [`grouped_dequant_gemm`](fn@grouped_dequant_gemm): groups of rows, each with weights of its own.
//! - [`dequant_stream`](fn@dequant_stream): few rows of activations, weights straight from global memory.
//! - [`fit_groups`](fn@fit_groups), [`pack_codes`](fn@pack_codes): narrow weights made of wide ones.
//! - [`widen_weights`](fn@widen_weights): wide weights made of narrow ones.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod grouped;
mod int8;
mod named;
mod quantize;
mod stream;
mod weights;
mod widen;

pub use grouped::{GROUPED, GroupedDequantGemmArgs, GroupedDequantKernel, grouped_dequant_gemm};
pub use int8::{DequantGemmInt8Args, DequantInt8Kernel, INT8, dequant_gemm_int8};
pub use quantize::{
    Conversion, FitGroupsArgs, PackCodesArgs, QUANTIZE, QUANTIZE_THREADS, QuantizeKernel, Step, fit_groups,
    pack_codes,
};
pub use stream::{
    CHUNK, Chunk, ChunkStream, DequantStreamArgs, DequantStreamKernel, SLAB, STREAM, Shares, WarpDepths,
    WarpSums, dequant_stream, has_gates,
};
pub use weights::{DequantGemmArgs, DequantKernel, Scaling, WEIGHTS, dequant_gemm};
pub use widen::{WIDEN, WIDEN_DEPTH, WidenKernel, WidenWeightsArgs, widen_weights};

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
