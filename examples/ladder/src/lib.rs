//! The ladder: kernels from the first one to write to fast ones, each in a file of `device/src` with what it teaches.

mod data;
mod launch;
mod level;
mod time;

pub use ladder_device::KERNELS;
pub use launch::*;
pub use level::{LEVELS, Level, Outcome, Sizes, Work};
pub use time::{Resource, peak};
