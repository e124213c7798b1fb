//! The operators' kernels, written with [`tile`](crate::tile) alone.

pub mod gemm;
