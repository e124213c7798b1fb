//! Kernels that a package carries compiled, so that it takes no compiler for GPUs to use it: packing them, and taking them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::environment::Environment;
use crate::files::{make_folder, read, while_doing, write};
use crate::output::{MANIFEST, Manifest, ptx_file, read_ptx, remove_others, write_manifest};
use crate::{Arch, BuildError, Kernel};

/// The environment variable that says where kernels come from.
pub(crate) const BUILD: &str = "TILEWRIGHT_BUILD";
/// The folder of a package with its compiled kernels.
pub(crate) const FOLDER: &str = "prebuilt";

/// What the manifest in that folder says.
#[derive(Serialize, Deserialize)]
struct Packed {
    /// rustc's version.
    compiler: String,
    /// The release of `ptxas` that checked the kernels, if there was one.
    ptxas: Option<String>,
    /// What the build script asked for beside architectures.
    arguments: Vec<String>,
    /// What they were compiled for.
    archs: BTreeSet<Arch>,
    /// The digest of the package's sources.
    sources: String,
    kernels: Vec<PackedKernel>,
}

#[derive(Serialize, Deserialize)]
struct PackedKernel {
    #[serde(flatten)]
    kernel: Kernel,
    /// The oldest PTX version that has its instructions.
    ptx_version: String,
    /// SHA-256 of the file with its compressed PTX.
    sha256: String,
}

/// What a build wants of kernels that are compiled already.
pub(crate) struct Wanted<'a> {
    /// The package with the kernels.
    pub package: &'a Path,
    pub archs: &'a BTreeSet<Arch>,
    /// What the build script asks for beside architectures.
    pub arguments: &'a [String],
    /// What the environment or the build script asks for that kernels compiled for everyone do not have.
    pub special: Option<&'a str>,
}

impl Wanted<'_> {
    fn problem(&self, problem: impl Into<String>) -> BuildError {
        BuildError::Prebuilt { folder: self.package.join(FOLDER), problem: problem.into() }
    }

    /// Whether the build takes what the package carries: where it carries any that will do, unless [`BUILD`] says otherwise.
    pub fn is_chosen(&self, machine: &dyn Environment) -> Result<bool, BuildError> {
        let there = self.package.join(FOLDER).join(MANIFEST).is_file();
        let value = machine.variable(BUILD);
        let asked = match value.as_ref().map(|value| value.to_str()) {
            None => false,
            Some(Some("source")) => return Ok(false),
            Some(Some("prebuilt")) => true,
            _ => {
                let was = value.unwrap_or_default().to_string_lossy().into_owned();
                return Err(BuildError::Variable { name: BUILD, was, allowed: "`source` or `prebuilt`" });
            }
        };
        if asked && !there {
            return Err(self.problem(format!(
                "there are none, and {BUILD} asks for them. Packages of a registry carry them; a checkout compiles its own, \
                 with {BUILD}=source or without {BUILD}"
            )));
        }
        match self.special {
            Some(special) if asked => Err(self.problem(format!(
                "{special} asks for kernels that are compiled otherwise, and {BUILD} for these: {BUILD}=source compiles them"
            ))),
            Some(_) => Ok(false),
            None => Ok(there),
        }
    }

    /// Checks what the package carries and writes it to the output folder, as a build from source would.
    pub fn take(&self, out: &Path) -> Result<Manifest, BuildError> {
        let folder = self.package.join(FOLDER);
        let text = read(&folder.join(MANIFEST))?;
        let packed: Packed = serde_json::from_str(&text)
            .map_err(|error| self.problem(format!("{MANIFEST} cannot be read: {error}")))?;
        self.check(&packed)?;
        let mut kernels = Vec::new();
        for PackedKernel { kernel, sha256: digest, .. } in packed.kernels {
            if !self.archs.contains(&kernel.arch) {
                continue;
            }
            let file = ptx_file(kernel.arch, &kernel.entry);
            let path = folder.join(&file);
            let contents = fs::read(&path).map_err(while_doing("reading", &path))?;
            if sha256(&contents) != digest {
                return Err(self.problem(format!(
                    "{file} is not what {MANIFEST} says: its SHA-256 is {}, and was {digest} when it was packed. Get the package \
                     again, or compile its kernels with {BUILD}=source",
                    sha256(&contents)
                )));
            }
            make_folder(&out.join(kernel.arch.target()))?;
            write(&out.join(&file), &contents)?;
            kernels.push(kernel);
        }
        for &arch in self.archs {
            let of_arch: Vec<_> = kernels.iter().filter(|kernel| kernel.arch == arch).cloned().collect();
            remove_others(out, arch, &of_arch)?;
        }
        let Packed { compiler, ptxas, arguments, .. } = packed;
        let manifest = Manifest { compiler, ptxas, arguments, kernels };
        write_manifest(out, &manifest)?;
        Ok(manifest)
    }

    /// Checks that they were compiled from these sources, as this build would compile them.
    fn check(&self, packed: &Packed) -> Result<(), BuildError> {
        let sources = sources(self.package)?;
        if sources != packed.sources {
            return Err(self.problem(format!(
                "they were compiled from other sources than the package has: the digest of `src` and `build.rs` is {sources}, and \
                 was {} when they were packed. {BUILD}=source compiles those that are there",
                packed.sources
            )));
        }
        if self.arguments != packed.arguments {
            return Err(self.problem(format!(
                "they were compiled with the arguments {:?}, and the build script asks for {:?}: {BUILD}=source compiles them so",
                packed.arguments, self.arguments
            )));
        }
        match self.archs.iter().find(|arch| !packed.archs.contains(arch)) {
            Some(arch) => {
                Err(self
                    .problem(format!("there are none for {}: {BUILD}=source compiles them", arch.target())))
            }
            None => Ok(()),
        }
    }
}

/// Writes the kernels of a build to the folder of this package that builds take them from.
pub(crate) fn pack(manifest: Manifest, out: &Path, package: &Path) -> Result<(), BuildError> {
    let folder = package.join(FOLDER);
    let archs: BTreeSet<_> = manifest.kernels.iter().map(|kernel| kernel.arch).collect();
    for arch in &archs {
        make_folder(&folder.join(arch.target()))?;
    }
    let mut kernels = Vec::new();
    for kernel in manifest.kernels {
        let file = ptx_file(kernel.arch, &kernel.entry);
        let ptx = read_ptx(out, kernel.arch, &kernel.entry)?;
        let path = out.join(&file);
        let contents = fs::read(&path).map_err(while_doing("reading", &path))?;
        write(&folder.join(&file), &contents)?;
        let version = ptx.lines().find_map(|line| line.strip_prefix(".version ")).unwrap_or_default();
        kernels.push(PackedKernel {
            kernel,
            ptx_version: version.trim().to_owned(),
            sha256: sha256(&contents),
        });
    }
    let Manifest { compiler, ptxas, arguments, .. } = manifest;
    let packed = Packed { compiler, ptxas, arguments, archs, sources: sources(package)?, kernels };
    let json = serde_json::to_string_pretty(&packed).unwrap_or_default();
    write(&folder.join(MANIFEST), json.as_bytes())
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of what a package's kernels are compiled from, as far as it is in the package: of its build script and all files in
/// `src`, by their paths.
fn sources(package: &Path) -> Result<String, BuildError> {
    let mut files = vec![PathBuf::from("build.rs")];
    walk(package, Path::new("src"), &mut files)?;
    let mut named = Vec::new();
    for file in files {
        let path = package.join(&file);
        let contents = match fs::read(&path) {
            // A package may have no build script of its own: the kernels are compiled by another's.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            contents => contents.map_err(while_doing("reading", &path))?,
        };
        let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
        named.push((parts.join("/"), sha256(&contents)));
    }
    named.sort();
    let lines: String = named.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    Ok(sha256(lines.as_bytes()))
}

/// Adds the files of a folder, relative to the package.
fn walk(package: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), BuildError> {
    let path = package.join(folder);
    for entry in path.read_dir().map_err(while_doing("reading", &path))? {
        let entry = entry.map_err(while_doing("reading", &path))?;
        let inside = folder.join(entry.file_name());
        if entry.path().is_dir() {
            walk(package, &inside, files)?;
        } else {
            files.push(inside);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "prebuilt_tests.rs"]
mod tests;
