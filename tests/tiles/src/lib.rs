//! The kernels of this package's tests, compiled.

/// What `device` was compiled to.
pub static KERNELS: tilewright::KernelSet = tilewright::include_kernels!();
