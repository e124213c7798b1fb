//! What a build made, as it is returned and as it is read again later.

use std::path::{Path, PathBuf};

use crate::output::{MANIFEST, Manifest, read_manifest, read_ptx};
use crate::{BuildError, Complaint, Kernel, prebuilt};

/// What a build made.
#[derive(Clone, Debug)]
pub struct Built {
    /// The kernels, by architecture and name.
    pub kernels: Vec<Kernel>,
    /// rustc's version.
    pub compiler: String,
    /// The release of `ptxas` that checked the kernels; `None` when there was none, and so no check of
    /// registers, spills and `wgmma`.
    pub ptxas: Option<String>,
    /// The folder with `manifest.json`, `kernels.rs` and `ARCH/ENTRY.ptx.z`.
    pub out: PathBuf,
    /// What [`Check::Warn`](crate::Check::Warn) let pass; nothing in a build that was read.
    pub warnings: Vec<Complaint>,
    /// What the build script asked for beside architectures: arguments of cargo and of rustc.
    pub arguments: Vec<String>,
}

impl Built {
    /// Whether a build wrote its kernels to this folder: `OUT_DIR` of a build script.
    pub fn is_in(out: &Path) -> bool {
        out.join(MANIFEST).is_file()
    }

    /// What an earlier build wrote to this folder.
    ///
    /// # Errors
    /// There is no build, or what it wrote cannot be read.
    pub fn read(out: impl Into<PathBuf>) -> Result<Self, BuildError> {
        let out = out.into();
        Ok(Self::of(read_manifest(&out)?, out, Vec::new()))
    }

    pub(crate) fn of(manifest: Manifest, out: PathBuf, warnings: Vec<Complaint>) -> Self {
        let Manifest { compiler, ptxas, arguments, kernels } = manifest;
        Self { kernels, compiler, ptxas, out, warnings, arguments }
    }

    /// A build that has compiled nothing.
    pub(crate) fn none(out: PathBuf) -> Self {
        Self::of(Manifest::default(), out, Vec::new())
    }

    /// Writes its kernels to the folder `prebuilt` of this package, whose build script then takes them and compiles none: for packages
    /// that are to be built without a compiler for GPUs. A manifest says what each was compiled to, with digests of that and of
    /// the package's sources.
    ///
    /// Builds without `TILEWRIGHT_BUILD` take what is in that folder, where it is there and nothing else is asked for; with
    /// `TILEWRIGHT_BUILD=source` they compile, with `TILEWRIGHT_BUILD=prebuilt` they never do.
    ///
    /// # Errors
    /// The kernels cannot be read, or the folder not be written.
    pub fn pack(&self, package: impl AsRef<Path>) -> Result<(), BuildError> {
        let Self { kernels, compiler, ptxas, arguments, .. } = self.clone();
        prebuilt::pack(Manifest { compiler, ptxas, arguments, kernels }, &self.out, package.as_ref())
    }

    /// The PTX of one of its kernels.
    ///
    /// # Errors
    /// The file is gone or damaged.
    pub fn ptx(&self, kernel: &Kernel) -> Result<String, BuildError> {
        read_ptx(&self.out, kernel.arch, &kernel.entry)
    }
}
