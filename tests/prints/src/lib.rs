//! The kernels of this package's tests, compiled.

use tilewright::KernelSet;

/// What `device` was compiled to, with what it prints and asserts.
pub static KERNELS: KernelSet = tilewright::include_kernels!();

/// The same kernels without.
pub static SILENT: KernelSet = {
    use tilewright::{Arch, KernelEntry};
    // SAFETY: the list is the builder's, which wrote it to the folder that the build script names.
    unsafe { KernelSet::new(include!(concat!(env!("OUT_DIR"), "/silent/kernels.rs"))) }
};
