//! What a build made, as it is returned and as it is read again later.

use std::path::{Path, PathBuf};

use crate::output::{MANIFEST, Manifest, read_manifest, read_ptx};
use crate::{BuildError, Complaint, Kernel};

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
        let Manifest { compiler, ptxas, kernels } = read_manifest(&out)?;
        Ok(Self { kernels, compiler, ptxas, out, warnings: Vec::new() })
    }

    /// The PTX of one of its kernels.
    ///
    /// # Errors
    /// The file is gone or damaged.
    pub fn ptx(&self, kernel: &Kernel) -> Result<String, BuildError> {
        read_ptx(&self.out, kernel.arch, &kernel.entry)
    }
}
