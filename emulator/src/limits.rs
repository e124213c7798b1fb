//! What launches and memory are limited to.

use std::time::Duration;

/// What a launch may take before it is ended, and the memory of an emulator.
///
/// No honest program comes near what [`Limits::default`] says: it is there so that a loop without an end, a grid without an end or a
/// size that went wrong is an error and not a process that hangs or dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions that all warps of a launch execute together: 2^40 unless said otherwise. It is looked at every few thousand.
    pub instructions: u64,
    /// How long a launch runs: 4 hours unless said otherwise.
    pub time: Duration,
    /// Bytes that are held at a time: 16 GiB unless said otherwise. What is allocated counts, the variables of modules, registers, local
    /// and shared memory of the CTAs that run, what the checks know of memory, and what kernels print.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { instructions: 1 << 40, time: Duration::from_secs(4 * 60 * 60), memory: 16 << 30 }
    }
}
