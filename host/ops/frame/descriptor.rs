//! What is known of a kernel before it is loaded, and of its time before it runs.

use std::fmt;

use crate::Arch;

/// A compiled kernel, as far as an operator chooses by it.
pub trait Descriptor: fmt::Debug + 'static {
    /// What a kernel is rated by.
    type Estimate: Estimate;

    /// The name by which it is forced.
    fn name(&self) -> &'static str;
    /// What it is compiled for.
    fn arch(&self) -> Arch;
    /// Shared memory of a CTA, in bytes.
    fn shared_bytes(&self) -> u32;
    /// How much it takes at a time: of kernels that are rated alike the largest one is chosen.
    fn size(&self) -> [u32; 3];
    /// Writes its shape for those who read a plan: tiles, stages.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// What a kernel would take for a call, shown as text too.
pub trait Estimate: Copy + fmt::Debug + fmt::Display {
    /// Why the kernel that is rated best is chosen.
    const REASON: &'static str = "the fastest by estimate";

    /// Time in cycles of an SM, if kernels are rated by it.
    fn cycles(&self) -> Option<u64>;
}
