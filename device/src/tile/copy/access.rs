//! How `cp.async` rings read global memory.

use crate::kernel::Arch;

/// How [`Multistage`](crate::tile::Multistage) reads global memory.
pub trait Access: Copy + Default + 'static {
    /// True when tensors are read by 16-byte `cp.async`, false when element by element.
    const VECTORS: bool;
    /// What it is compiled for.
    const ARCH: Arch = Arch::Sm80;
}

/// 16-byte copies: one stride is 1; the address, the other strides and the extent along the first are multiples of 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vectors;

/// Element by element, each with a bounds test: any strides, any alignment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Elements;

/// As [`Vectors`], on Hopper: the kernel may overlap the preceding one (programmatic dependent launch).
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlapping;

impl Access for Overlapping {
    const VECTORS: bool = true;
    const ARCH: Arch = Arch::Sm90a;
}

impl Access for Vectors {
    const VECTORS: bool = true;
}

impl Access for Elements {
    const VECTORS: bool = false;
}
