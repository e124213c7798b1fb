//! The ladder: kernels from the first one to write to fast ones, each in a file of `device/src` with what it teaches.

mod data;
mod launch;
mod level;
mod time;

use tilewright::KernelSet;

pub use launch::*;
pub use level::{LEVELS, Level, Outcome, Sizes, Work};
pub use time::{Resource, peak};

/// The kernels that the build script compiled.
static KERNELS: KernelSet = tilewright::include_kernels!();

/// The kernels of this crate.
pub fn kernels() -> &'static KernelSet {
    &KERNELS
}
