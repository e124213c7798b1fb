//! How the warps of a CTA share a tile.

use crate::kernel::Program;

/// A program whose threads hold tiles together: which of them compute, and in how many groups.
pub trait Collective: Program + Sized + 'static {
    /// Threads that hold fragments: 0 to `CONSUMERS` of the CTA.
    const CONSUMERS: u32;
    /// Warpgroups that compute by themselves; 1 where all warps load and compute together.
    const WARPGROUPS: u32;
    /// CTAs of a cluster that take neighbouring tiles together.
    const CLUSTER: u32 = 1;
}
