//! The kernels of this package's tests, compiled.

use std::path::Path;

/// What `device` was compiled to, with what it prints and asserts.
pub static KERNELS: tilewright::KernelSet = tilewright::include_kernels!();

/// The folder of the same kernels without.
pub fn silent() -> &'static Path {
    Path::new(concat!(env!("OUT_DIR"), "/silent"))
}
