//! y = x · s, a factor for each row: kernels and operator in one package.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
mod op;

#[cfg(not(target_arch = "nvptx64"))]
pub use op::RowScale;
