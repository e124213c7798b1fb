//! What is known of a compiled kernel.

use std::fmt;

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
    /// Bytes that a thread stores and loads because it has too few registers; `None` when there was no `ptxas` to ask.
    #[serde(default)]
    pub spilled: Option<[u32; 2]>,
    /// Bytes of PTX before compression.
    pub ptx_bytes: usize,
    /// Bytes of PTX after compression.
    pub compressed_bytes: usize,
}

/// Its name, and what a thread and a CTA of it take.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, arch, threads, min_ctas, shared_bytes, .. } = self;
        let ctas = if *min_ctas == 1 { "CTA" } else { "CTAs" };
        write!(f, "{entry} ({}): {threads} threads, at least {min_ctas} {ctas} an SM", arch.target())?;
        write!(f, ", {shared_bytes} bytes of dynamic shared memory")?;
        match self.registers {
            Some(registers) => write!(f, ", {registers} registers a thread")?,
            None => f.write_str(", registers not known without ptxas")?,
        }
        match self.spilled {
            Some([0, 0]) => f.write_str(", no spills"),
            Some([stored, loaded]) => write!(f, ", spills of {stored} bytes stored and {loaded} loaded"),
            None => Ok(()),
        }
    }
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
