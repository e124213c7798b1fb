//! What `ptxas` said of kernels before, in a file beside their sources: PTX that it has taken once, it need not take again.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::files::write;
use crate::prebuilt::sha256;
use crate::ptxas::Report;
use crate::{BuildError, Built, Kernel};

/// The file's name.
const FILE: &str = "ptxas.lock";

/// What a file of this kind is for.
const ABOUT: &str = "# Registers of kernels that ptxas took without spills, by the digest of their PTX. Builds run the same ptxas on other PTX alone.\n\
                     # Written by `cargo xtask record`.";

/// Registers by the digest of the PTX.
#[derive(Debug, Default)]
pub(crate) struct Record(HashMap<String, u32>);

impl Record {
    /// The record in the folder of a device crate: nothing if there is none, or another release of `ptxas` made it.
    pub fn read(folder: &Path, release: Option<&str>) -> Self {
        let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        if lines.next().is_none_or(|line| Some(line) != release) {
            return Self::default();
        }
        let known = lines.filter_map(|line| {
            let mut words = line.rsplit(' ');
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        });
        Self(known.collect())
    }

    /// What `ptxas` says of this PTX, if that is known.
    pub fn find(&self, ptx: &str) -> Option<Report> {
        if self.0.is_empty() {
            return None;
        }
        let registers = self.0.get(&digest(ptx)).copied();
        registers.map(|registers| Report { registers: Some(registers), ..Report::default() })
    }
}

impl Built {
    /// Writes what `ptxas` said of these kernels to the file `ptxas.lock` in this folder, that of the device crate: builds from the same sources
    /// do not run the same release of `ptxas` on the same PTX again. For kernels that [`Check::Deny`](crate::Check::Deny) let pass. Gives how many it has:
    /// those that spill are left out.
    ///
    /// # Errors
    /// Nobody asked a `ptxas`, PTX cannot be read, or the file not be written.
    pub fn record(&self, folder: impl AsRef<Path>) -> Result<usize, BuildError> {
        let file = folder.as_ref().join(FILE);
        let release = self.ptxas.as_ref().ok_or_else(|| BuildError::System {
            doing: format!("writing {}", file.display()),
            error: std::io::Error::other("these kernels were built without ptxas"),
        })?;
        let mut text = format!("{ABOUT}\n{release}\n");
        let mut count = 0;
        for kernel in &self.kernels {
            if let Kernel { entry, arch, registers: Some(registers), spilled: Some([0, 0]), .. } = kernel {
                let digest = digest(&self.ptx(kernel)?);
                let _ = writeln!(text, "{entry} {} {registers} {digest}", arch.target());
                count += 1;
            }
        }
        write(&file, text.as_bytes())?;
        Ok(count)
    }
}

/// The beginning of the text's SHA-256.
fn digest(ptx: &str) -> String {
    sha256(ptx.as_bytes())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;
    use crate::output::{Manifest, write_ptx};

    #[test]
    fn what_is_recorded_is_found_again() {
        let folder = std::env::temp_dir().join(format!("tilewright-builder-record-{}", std::process::id()));
        fs::create_dir_all(folder.join("sm_90a")).unwrap();
        let kernel = |entry: &str, spilled| Kernel {
            entry: entry.to_owned(),
            arch: Arch::Sm90a,
            threads: 128,
            min_ctas: 1,
            cluster: [1; 3],
            shared_bytes: 0,
            registers: Some(168),
            spilled,
            ptx_bytes: 0,
            compressed_bytes: 0,
        };
        let kernels =
            vec![kernel("clean", Some([0, 0])), kernel("spills", Some([8, 8])), kernel("unchecked", None)];
        for kernel in &kernels {
            write_ptx(&folder, Arch::Sm90a, &kernel.entry, &kernel.entry).unwrap();
        }
        let built = |ptxas: Option<&str>| {
            let manifest =
                Manifest { ptxas: ptxas.map(str::to_owned), kernels: kernels.clone(), ..Manifest::default() };
            Built::of(manifest, folder.clone(), Vec::new())
        };
        assert_eq!(built(Some("release 13.0")).record(&folder).unwrap(), 1);
        let record = Record::read(&folder, Some("release 13.0"));
        assert_eq!(record.find("clean").unwrap().spilled(), Some([0, 0]));
        assert_eq!(record.find("clean").unwrap().registers, Some(168));
        assert_eq!(record.find("spills"), None);
        assert_eq!(record.find("clean "), None);
        for other in [None, Some("release 13.1"), Some("")] {
            assert_eq!(Record::read(&folder, other).find("clean"), None);
        }
        assert_eq!(Record::read(&folder.join("sm_90a"), Some("release 13.0")).find("clean"), None);
        let error = built(None).record(&folder).unwrap_err().to_string();
        assert!(error.contains("built without ptxas"), "{error}");
        let _ = fs::remove_dir_all(&folder);
    }
}
