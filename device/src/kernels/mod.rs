//! The operators' kernels, written with [`tile`](crate::tile) alone.

pub mod attention;
pub mod combine;
pub mod dequant_gemm;
pub mod dequant_gemm_int8;
pub mod dequant_stream;
pub mod gemm;
pub mod mla;
