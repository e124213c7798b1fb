//! What is known of a compiled kernel.

use serde::{Deserialize, Serialize};

use crate::Arch;

/// A compiled kernel: a line of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The entry point's symbol.
    pub entry: String,
    /// What it is compiled for.
    pub arch: Arch,
    /// Threads of a CTA.
    pub threads: u32,
    /// CTAs that an SM must be able to hold.
    pub min_ctas: u32,
    /// CTAs of a cluster in each dimension.
    pub cluster: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Registers of a thread, as `ptxas` allocates them; `None` when there was no `ptxas` to ask.
    pub registers: Option<u32>,
    /// Bytes of PTX before compression.
    pub ptx_bytes: usize,
    /// Bytes of PTX after compression.
    pub compressed_bytes: usize,
}

/// What a kernel declares about its launch, in a comment of its PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub threads: u32,
    pub min_ctas: u32,
    pub cluster: [u32; 3],
    pub shared_bytes: u32,
    pub local: bool,
}
