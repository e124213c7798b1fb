//! What is known of a kernel before it is loaded, and of its time before it runs.

use std::fmt;

use tilewright_device::kernel::Listed;

use crate::kernel::has;
use crate::{Arch, KernelEntry, KernelSet};

/// A compiled kernel, as far as an operator chooses by it.
pub trait Descriptor: fmt::Debug + 'static {
    /// What a kernel is rated by.
    type Estimate: Estimate;

    /// The name by which it is forced.
    fn name(&self) -> &'static str;
    /// What it is compiled for.
    fn arch(&self) -> Arch;
    /// The compiled kernel, where its set has it.
    fn entry(&self) -> Option<&'static KernelEntry>;
    /// Whether its set has kernels for that.
    fn is_built(&self) -> bool;
    /// Shared memory of a CTA, in bytes.
    fn shared_bytes(&self) -> u32;
    /// How much it takes at a time: of kernels that are rated alike the largest one is chosen.
    fn size(&self) -> [u32; 3];
    /// Writes its shape for those who read a plan: tiles, stages.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// A description of kernels, by which they are rated: the type of a table's rows.
pub trait Rated: Copy + fmt::Debug + 'static {
    /// What a kernel is rated by.
    type Estimate: Estimate;
    /// The compiled kernels that the rows name.
    const KERNELS: &'static KernelSet;

    /// How much a kernel takes at a time: of those that are rated alike the largest one is chosen.
    fn size(&self) -> [u32; 3];
    /// Writes the kernel's shape for those who read a plan: tiles, stages.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl<D: Rated> Descriptor for Listed<D> {
    type Estimate = D::Estimate;

    fn name(&self) -> &'static str {
        self.name
    }
    fn arch(&self) -> Arch {
        self.arch
    }
    fn entry(&self) -> Option<&'static KernelEntry> {
        D::KERNELS.get(self.name, self.arch)
    }
    fn is_built(&self) -> bool {
        has(D::KERNELS, self.arch)
    }
    fn shared_bytes(&self) -> u32 {
        D::KERNELS.shared_bytes(self)
    }
    fn size(&self) -> [u32; 3] {
        self.description.size()
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.description.describe(f)
    }
}

/// What a kernel would take for a call, shown as text too.
pub trait Estimate: Copy + fmt::Debug + fmt::Display {
    /// Why the kernel that is rated best is chosen.
    const REASON: &'static str = "the fastest by estimate";

    /// Time in cycles of an SM, if kernels are rated by it.
    fn cycles(&self) -> Option<u64>;
}

/// Time in cycles of an SM: what an operator estimates that has no more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles(pub u64);

impl Cycles {
    /// What a launch takes besides, on an H200: 3000 cycles, or 2000 where it overlaps the one before.
    pub(in crate::ops) fn of_launch(arch: Arch) -> u64 {
        if arch == Arch::Sm90a { 2000 } else { 3000 }
    }
}

impl Estimate for Cycles {
    fn cycles(&self) -> Option<u64> {
        Some(self.0)
    }
}

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "about {} cycles", self.0)
    }
}
