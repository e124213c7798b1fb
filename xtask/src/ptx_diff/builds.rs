//! Reading what the builder wrote.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tilewright_builder::{Arch, Kernel};

/// A kernel's name and what it is compiled for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub arch: Arch,
    pub entry: String,
}

/// A kernel's PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled(pub String);

/// The kernels of a build, or of several.
pub type Kernels = BTreeMap<Name, Compiled>;

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.arch.target(), self.entry)
    }
}

/// The kernels in these folders, which commas separate.
pub fn read(folders: &str) -> Result<Kernels, String> {
    let mut kernels = Kernels::new();
    for folder in folders.split(',').map(Path::new) {
        let manifest = folder.join("manifest.json");
        let failed = |error: &dyn fmt::Display| format!("reading {}: {error}", manifest.display());
        let text = fs::read_to_string(&manifest).map_err(|error| failed(&error))?;
        let mut json: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        let list: Vec<Kernel> =
            serde_json::from_value(json["kernels"].take()).map_err(|error| failed(&error))?;
        for Kernel { arch, entry, .. } in list {
            let ptx = ptx(&folder.join(arch.target()).join(format!("{entry}.ptx.z")))?;
            let name = Name { arch, entry };
            if kernels.contains_key(&name) {
                return Err(format!("{name} is in more than one of {folders}"));
            }
            kernels.insert(name, Compiled(ptx));
        }
    }
    Ok(kernels)
}

/// The text of a deflated file.
fn ptx(path: &Path) -> Result<String, String> {
    let failed = |error: &dyn fmt::Display| format!("reading {}: {error}", path.display());
    let deflated = fs::read(path).map_err(|error| failed(&error))?;
    let text = miniz_oxide::inflate::decompress_to_vec(&deflated).map_err(|error| failed(&error))?;
    String::from_utf8(text).map_err(|error| failed(&error))
}
