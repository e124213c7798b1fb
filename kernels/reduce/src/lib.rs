//! Reductions: sums, products, extremes, norms and places over any dimensions, and the largest elements of rows.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod columns;
mod elements;
mod exchange;
mod fold;
mod how;
mod largest;
mod list;
mod rows;
mod walk;

pub use columns::{COLUMNS_THREADS, ColumnsWork, ReduceColumnsArgs, reduce_columns};
pub use elements::{AHEAD, VECTOR};
pub use how::{How, Made, ResultType};
pub use largest::{
    MAX_COLUMNS, MAX_FOUND, SHORT_THREADS, TopKArgs, TopKShortArgs, TopKWork, top_k, top_k_short,
};
pub use list::{REDUCE, ReduceKernel, RowOf, TOP_K, TopKKernel};
pub use rows::{ROWS_THREADS, ReduceRowsArgs, RowsWork, reduce_rows};
pub use walk::Walk;

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
