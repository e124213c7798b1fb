//! Compiled kernels as a crate embeds them.

use core::fmt;

use crate::kernel::{Arch, Listed};

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
    /// Bytes that a thread stores and loads because it has too few registers, if `ptxas` was there to tell.
    pub spilled: Option<[u32; 2]>,
    /// All this in words, by the builder.
    pub summary: &'static str,
    /// Size of the PTX text.
    pub ptx_bytes: usize,
    /// The PTX, deflated.
    pub ptx: &'static [u8],
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
            .field("spilled", &self.spilled)
            .finish_non_exhaustive()
    }
}

/// Its name, and what a thread and a CTA of it take.
impl fmt::Display for KernelEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.summary)
    }
}

/// The kernels of a crate, embedded by [`include_kernels!`](crate::include_kernels).
#[derive(Clone, Copy, Debug)]
pub struct KernelSet {
    entries: &'static [KernelEntry],
}

impl KernelSet {
    /// A set of these kernels.
    ///
    /// # Safety
    /// Each entry's PTX is what the kernel of its name was compiled to: launches rely on it.
    pub const unsafe fn new(entries: &'static [KernelEntry]) -> Self {
        Self { entries }
    }

    /// All of its kernels.
    pub const fn entries(&self) -> &'static [KernelEntry] {
        self.entries
    }

    /// The kernel of this name, compiled for `arch`.
    ///
    /// Searches by halves, as the builder orders entries by architecture and name, and looks through a set of another order.
    pub fn get(&self, name: &str, arch: Arch) -> Option<&'static KernelEntry> {
        let order = |entry: &KernelEntry| (entry.arch as u32, entry.name).cmp(&(arch as u32, name));
        let found = self.entries.binary_search_by(order).ok().map(|at| &self.entries[at]);
        found.or_else(|| self.entries.iter().find(|entry| entry.arch == arch && entry.name == name))
    }

    /// The kernels whose names have this part.
    pub fn named(&self, part: &str) -> impl Iterator<Item = &'static KernelEntry> {
        self.entries.iter().filter(move |entry| entry.name.contains(part))
    }

    /// Dynamic shared memory in bytes of a listed kernel, as the builder has counted it; 0 where the set does not have the kernel.
    pub fn shared_bytes<D>(&self, kernel: &Listed<D>) -> u32 {
        self.get(kernel.name, kernel.arch).map_or(0, |entry| entry.shared_bytes)
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
        #[allow(unused_imports, reason = "a set may be empty")]
        use $crate::{embedded::KernelEntry, kernel::Arch};
        // SAFETY: the list is the builder's.
        unsafe {
            $crate::embedded::KernelSet::new(::core::include!(::core::concat!(
                ::core::env!("OUT_DIR"),
                "/kernels.rs"
            )))
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::{KernelEntry, KernelSet};
    use crate::kernel::Arch::{self, Sm80, Sm90a};

    const fn entry(name: &'static str, arch: Arch) -> KernelEntry {
        KernelEntry {
            name,
            arch,
            threads: 128,
            min_ctas: 1,
            cluster: [1; 3],
            shared_bytes: 0,
            registers: None,
            spilled: None,
            summary: "",
            ptx_bytes: 0,
            ptx: &[],
        }
    }

    #[test]
    fn kernels_are_found_in_any_order() {
        static ORDERED: [KernelEntry; 5] =
            [entry("a", Sm80), entry("b", Sm80), entry("c", Sm80), entry("a", Sm90a), entry("d", Sm90a)];
        static OTHERWISE: [KernelEntry; 4] =
            [entry("d", Sm90a), entry("a", Sm90a), entry("c", Sm80), entry("a", Sm80)];
        for entries in [&ORDERED[..], &OTHERWISE] {
            // SAFETY: nothing launches them.
            let set = unsafe { KernelSet::new(entries) };
            for entry in entries {
                let found = set.get(entry.name, entry.arch).map(|found| (found.name, found.arch));
                assert_eq!(found, Some((entry.name, entry.arch)));
            }
            assert!(set.get("d", Sm80).is_none() && set.get("e", Sm90a).is_none());
        }
    }
}
