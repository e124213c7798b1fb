//! Compiled kernels and their launch.

use tilewright_device::kernel::Listed;

use crate::{Arch, Error, Instance, Result};

mod argument;
mod function;
#[cfg(test)]
mod tests;
mod unreadable;

#[doc(hidden)]
pub use argument::Fits;
pub use argument::{Argument, Arguments, Parameter, Takes};
pub(crate) use function::FunctionCache;
pub use function::{AnyFunction, Function, Launch};
pub use tilewright_device::embedded::{KernelEntry, KernelSet};
pub use unreadable::OrWhereUnreadable;

/// The PTX of a kernel, which the driver or the emulator is given.
///
/// Of a function that is loaded, [`AnyFunction::ptx`] is the same; what the builder knows of it is in the entry, and printed with
/// it. `cargo xtask ptx NAME` and `cargo xtask sass NAME` print them at the command line.
///
/// ```ignore
/// for kernel in KERNELS.named("softmax") {
///     println!("{kernel}\n{}", tilewright::ptx(kernel)?);
/// }
/// ```
///
/// # Errors
/// The text that is embedded is damaged.
pub fn ptx(entry: &KernelEntry) -> Result<String> {
    String::from_utf8(text(entry)?).map_err(|error| Error::KernelLoad {
        kernel: entry.name,
        reason: format!("its embedded PTX is damaged: {error}"),
    })
}

/// The same as bytes.
fn text(entry: &KernelEntry) -> Result<Vec<u8>> {
    miniz_oxide::inflate::decompress_to_vec_with_limit(entry.ptx, entry.ptx_bytes).map_err(|error| {
        Error::KernelLoad { kernel: entry.name, reason: format!("its embedded PTX is damaged: {error}") }
    })
}

/// Whether the set has kernels for this architecture.
pub(crate) fn has(set: &KernelSet, arch: Arch) -> bool {
    let (entries, is) = (set.entries(), |entry: &KernelEntry| entry.arch == arch);
    // The builder orders them by architecture: the first or the last one tells.
    entries.first().is_some_and(is) || entries.last().is_some_and(is) || entries.iter().any(is)
}

/// That a set has no kernels for this architecture, and what would give it some.
pub(crate) fn left_out(arch: Arch) -> String {
    let arch = arch.target();
    format!(
        "the build has no kernels for {arch}: the feature `{arch}` of tilewright brings those of its operators, `.arch(…)` in a build \
         script one's own"
    )
}

/// A kernel as its type says it is: what it is looked up by, and checked against.
#[derive(Clone, Copy)]
struct Wanted {
    name: &'static str,
    arch: Arch,
    threads: u32,
    cluster: [u32; 3],
    args_bytes: usize,
}

impl Wanted {
    fn of<K: Instance>() -> Self {
        Wanted {
            name: K::NAME,
            arch: K::ARCH,
            threads: K::THREADS,
            cluster: K::CLUSTER,
            args_bytes: size_of::<K::Args>(),
        }
    }

    fn listed<D>(row: &Listed<D>) -> Self {
        let &Listed { name, arch, threads, cluster, args_bytes, .. } = row;
        Wanted { name, arch, threads, cluster, args_bytes }
    }

    /// The kernel of the set, checked to be what its type says.
    fn find(&self, set: &KernelSet) -> Result<&'static KernelEntry> {
        let Wanted { name, arch, .. } = *self;
        let entry = set.get(name, arch).ok_or_else(|| {
            if !has(set, arch) {
                return self.missing(left_out(arch));
            }
            let others = set.entries().iter().filter(|e| e.name == name).map(|e| e.arch.target());
            self.missing(match others.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => format!(
                    "it is not among the {} kernels of the set; kernels! makes an entry of it",
                    set.entries().len()
                ),
                found => format!("the set has it for {found}; the builder was not asked for more"),
            })
        })?;
        self.check(entry).map(|()| entry)
    }

    /// Checks that the kernel of its name is what its type says.
    fn check(&self, entry: &KernelEntry) -> Result<()> {
        let same = (entry.threads, entry.cluster) == (self.threads, self.cluster);
        let old = || self.missing("the set was built from another version of its source; build again".into());
        same.then_some(()).ok_or_else(old)
    }

    fn missing(&self, reason: String) -> Error {
        Error::KernelMissing { kernel: self.name, arch: self.arch, reason }
    }
}
