//! Reading what the builder wrote.

use std::collections::BTreeMap;
use std::fmt;

use tilewright_builder::{Arch, Built};

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
    for folder in folders.split(',') {
        let built = Built::read(folder).map_err(|error| error.to_string())?;
        for kernel in &built.kernels {
            let ptx = built.ptx(kernel).map_err(|error| error.to_string())?;
            let name = Name { arch: kernel.arch, entry: kernel.entry.clone() };
            if kernels.contains_key(&name) {
                return Err(format!("{name} is in more than one of {folders}"));
            }
            kernels.insert(name, Compiled(ptx));
        }
    }
    Ok(kernels)
}
