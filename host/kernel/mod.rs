//! Compiled kernels and their launch.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use crate::{Arch, Error, Instance, Result};

mod function;
#[cfg(test)]
mod tests;

pub(crate) use function::FunctionCache;
pub use function::{Function, Launch};

/// One compiled kernel: what `tilewright-builder` wrote about it, and its PTX.
#[derive(Clone, Copy)]
pub struct KernelEntry {
    /// The entry point.
    pub name: &'static str,
    /// What it is compiled for.
    pub arch: Arch,
    /// Threads of a CTA.
    pub threads: u32,
    /// CTAs that an SM was asked to hold.
    pub min_ctas: u32,
    /// CTAs of a cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Registers of a thread, if `ptxas` was there to tell.
    pub registers: Option<u32>,
    /// Size of the PTX text.
    pub ptx_bytes: usize,
    /// The PTX, deflated.
    pub ptx: &'static [u8],
}

impl KernelEntry {
    fn text(&self) -> Result<Vec<u8>> {
        miniz_oxide::inflate::decompress_to_vec_with_limit(self.ptx, self.ptx_bytes).map_err(|error| {
            Error::KernelLoad { kernel: self.name, reason: format!("its embedded PTX is damaged: {error}") }
        })
    }
}

impl fmt::Debug for KernelEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelEntry")
            .field("name", &self.name)
            .field("arch", &self.arch)
            .field("threads", &self.threads)
            .field("cluster", &self.cluster)
            .field("shared_bytes", &self.shared_bytes)
            .field("registers", &self.registers)
            .finish_non_exhaustive()
    }
}

/// The kernels of a crate, embedded by [`include_kernels!`](crate::include_kernels).
#[derive(Debug)]
pub struct KernelSet {
    entries: &'static [KernelEntry],
    index: OnceLock<HashMap<(&'static str, Arch), &'static KernelEntry>>,
}

impl KernelSet {
    /// A set of these kernels.
    pub const fn new(entries: &'static [KernelEntry]) -> Self {
        Self { entries, index: OnceLock::new() }
    }

    /// All of its kernels.
    pub fn entries(&self) -> &'static [KernelEntry] {
        self.entries
    }

    /// The kernel of this name, compiled for `arch`.
    pub fn get(&self, name: &str, arch: Arch) -> Option<&'static KernelEntry> {
        let index = self.index.get_or_init(|| self.entries.iter().map(|e| ((e.name, e.arch), e)).collect());
        index.get(&(name, arch)).copied()
    }

    /// The kernel `K`, checked to be what its type says.
    fn find<K: Instance>(&self) -> Result<&'static KernelEntry> {
        let missing = |reason: Cow<'static, str>| Error::KernelMissing {
            kernel: K::NAME,
            arch: K::ARCH,
            reason: reason.into_owned(),
        };
        let entry = self.get(K::NAME, K::ARCH).ok_or_else(|| {
            let others = self.entries.iter().filter(|e| e.name == K::NAME).map(|e| e.arch.target());
            match others.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => missing(
                    format!(
                        "it is not among the {} kernels of the set; instantiate! makes an entry of it",
                        self.entries.len()
                    )
                    .into(),
                ),
                found => {
                    missing(format!("the set has it for {found}; the builder was not asked for more").into())
                }
            }
        })?;
        let same =
            (entry.threads, entry.cluster, entry.shared_bytes) == (K::THREADS, K::CLUSTER, K::SHARED_BYTES);
        same.then_some(entry).ok_or_else(|| {
            missing("the set was built from another version of its source; build again".into())
        })
    }
}

/// The kernels that this crate's build script compiled, as a [`KernelSet`].
///
/// The build script runs `tilewright_builder::KernelBuilder`, which leaves the list in `OUT_DIR`.
///
/// ```ignore
/// static KERNELS: tilewright::KernelSet = tilewright::include_kernels!();
/// ```
#[macro_export]
macro_rules! include_kernels {
    () => {{
        use $crate::{Arch, KernelEntry};
        $crate::KernelSet::new(::core::include!(::core::concat!(::core::env!("OUT_DIR"), "/kernels.rs")))
    }};
}
