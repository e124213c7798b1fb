//! What the build script leaves: compressed PTX, the manifest, and the Rust expression that embeds both.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{make_folder, read, while_doing, write};
use crate::{Arch, BuildError, Kernel};

/// The file with what is known of a build.
pub(crate) const MANIFEST: &str = "manifest.json";

/// What `manifest.json` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// rustc's version.
    pub compiler: String,
    /// The release of `ptxas` that checked the kernels, if there was one.
    pub ptxas: Option<String>,
    /// What the build script asked for beside architectures.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The kernels, by architecture and name.
    pub kernels: Vec<Kernel>,
}

/// The file of a kernel's compressed PTX, in the output folder.
pub(crate) fn ptx_file(arch: Arch, entry: &str) -> String {
    format!("{}/{entry}.ptx.z", arch.target())
}

/// Writes a kernel's PTX and returns its compressed size.
pub(crate) fn write_ptx(out: &Path, arch: Arch, entry: &str, ptx: &str) -> Result<usize, BuildError> {
    let compressed = miniz_oxide::deflate::compress_to_vec(ptx.as_bytes(), 6);
    write(&out.join(ptx_file(arch, entry)), &compressed)?;
    Ok(compressed.len())
}

/// A kernel's PTX, as it was written.
pub(crate) fn read_ptx(out: &Path, arch: Arch, entry: &str) -> Result<String, BuildError> {
    let path = out.join(ptx_file(arch, entry));
    let failed = |error: &dyn std::fmt::Display| {
        while_doing("reading", &path)(std::io::Error::other(error.to_string()))
    };
    let compressed = fs::read(&path).map_err(|error| failed(&error))?;
    let text = miniz_oxide::inflate::decompress_to_vec(&compressed).map_err(|error| failed(&error))?;
    String::from_utf8(text).map_err(|error| failed(&error))
}

/// Removes what earlier builds left of kernels that are gone.
pub(crate) fn remove_others(out: &Path, arch: Arch, kernels: &[Kernel]) -> Result<(), BuildError> {
    let folder = out.join(arch.target());
    make_folder(&folder)?;
    let current: BTreeSet<_> = kernels.iter().map(|kernel| format!("{}.ptx.z", kernel.entry)).collect();
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".ptx.z") && !current.contains(&name) {
            // It does no harm if it stays: nothing includes it.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Reads `manifest.json`.
pub(crate) fn read_manifest(out: &Path) -> Result<Manifest, BuildError> {
    let path = out.join(MANIFEST);
    serde_json::from_str(&read(&path)?)
        .map_err(|error| while_doing("reading", &path)(std::io::Error::other(error)))
}

/// Writes `manifest.json` and `kernels.rs`.
pub(crate) fn write_manifest(out: &Path, manifest: &Manifest) -> Result<(), BuildError> {
    let json = serde_json::to_string_pretty(manifest).unwrap_or_default();
    write(&out.join(MANIFEST), json.as_bytes())?;
    write(&out.join("kernels.rs"), expression(&manifest.kernels).as_bytes())
}

/// `&[KernelEntry { … }, …]`, of names that the macro which includes it brings into scope: the builder does not know from
/// which crate. Its paths are relative to the file that it is in.
fn expression(kernels: &[Kernel]) -> String {
    let mut text = String::from("&[\n");
    for kernel in kernels {
        let Kernel { entry, arch, threads, min_ctas, cluster, shared_bytes, .. } = kernel;
        let Kernel { registers, spilled, ptx_bytes, .. } = kernel;
        let (variant, file, summary) = (arch.variant(), ptx_file(*arch, entry), kernel.to_string());
        let _ = writeln!(
            text,
            "    KernelEntry {{ name: {entry:?}, arch: Arch::{variant}, threads: {threads}, min_ctas: {min_ctas}, \
             cluster: {cluster:?}, shared_bytes: {shared_bytes}, registers: {registers:?}, spilled: {spilled:?}, summary: {summary:?}, \
             ptx_bytes: {ptx_bytes}, ptx: include_bytes!({file:?}) }},"
        );
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expression_names_every_field() {
        let kernel = Kernel {
            entry: "k".into(),
            arch: Arch::Sm90a,
            threads: 384,
            min_ctas: 1,
            cluster: [2, 1, 1],
            shared_bytes: 1024,
            registers: Some(168),
            spilled: Some([0, 8]),
            ptx_bytes: 12345,
            compressed_bytes: 999,
        };
        let expected = "&[\n    KernelEntry { name: \"k\", arch: Arch::Sm90a, threads: 384, \
                        min_ctas: 1, cluster: [2, 1, 1], shared_bytes: 1024, registers: Some(168), spilled: Some([0, 8]), \
                        summary: \"k (sm_90a): 384 threads, at least 1 CTA an SM, 1024 bytes of dynamic shared memory, 168 registers a thread, \
                        spills of 0 bytes stored and 8 loaded\", ptx_bytes: 12345, ptx: include_bytes!(\"sm_90a/k.ptx.z\") },\n]";
        assert_eq!(expression(&[kernel]), expected);
    }
}
