//! Finding a rustc that compiles for the GPU, and a cargo to drive it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::environment::{Environment, Rustc};
use crate::error::{BuildError, NIGHTLY, OLDEST, Tried};

/// A compiler for the kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The rustc.
    pub rustc: PathBuf,
    /// The cargo that drives it.
    pub cargo: PathBuf,
    /// rustc's version, with its date.
    pub version: String,
}

/// Environment variables that decide which compiler is taken.
pub(crate) const VARIABLES: [&str; 2] = ["TILEWRIGHT_RUSTC", "RUSTUP_HOME"];

/// The first compiler that will do: the environment's, rustup's, the distribution's.
pub(crate) fn find(environment: &dyn Environment) -> Result<Toolchain, BuildError> {
    let mut tried = Vec::new();
    for (place, rustc) in candidates(environment) {
        let usable = match rustc {
            Ok(rustc) => examine(environment, &rustc).map(|found| (rustc, found)),
            Err(because) => Err(because),
        };
        match usable {
            Ok((rustc, Rustc { version, sysroot })) => {
                let cargo = cargo(environment, &rustc, &sysroot);
                return Ok(Toolchain { rustc, cargo, version });
            }
            Err(because) => tried.push(Tried { place, because }),
        }
    }
    Err(BuildError::NoToolchain { tried })
}

/// The places to look at, each with a rustc or with the reason that there is none.
fn candidates(environment: &dyn Environment) -> Vec<(String, Result<PathBuf, String>)> {
    if let Some(path) = environment.variable("TILEWRIGHT_RUSTC").map(PathBuf::from) {
        // Someone's choice: to take another compiler in silence would not be it.
        return vec![(format!("TILEWRIGHT_RUSTC, which is {}", path.display()), Ok(path))];
    }
    let mut places = vec![("environment variable TILEWRIGHT_RUSTC".to_owned(), Err("not set".to_owned()))];
    places.extend(rustup(environment));
    let system = environment.system_rustc();
    let place = format!("the distribution's {}", system.display());
    places.push((place, if system.is_file() { Ok(system) } else { Err("not there".into()) }));
    places
}

/// rustup's toolchains: the one that this version was made with, then the other nightlies, newest first.
fn rustup(environment: &dyn Environment) -> Vec<(String, Result<PathBuf, String>)> {
    let home = environment
        .variable("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(environment.variable("HOME")?).join(".rustup")));
    let installed = home.map(|home| nightlies(&home.join("toolchains"))).unwrap_or_default();
    let (preferred, others): (Vec<_>, Vec<_>) =
        installed.into_iter().partition(|(name, _)| name.starts_with(NIGHTLY));
    let place = |name: &str| format!("rustup toolchain {name}");
    let mut places = Vec::new();
    if preferred.is_empty() {
        places.push((place(NIGHTLY), Err("not installed".into())));
    }
    places.extend(
        preferred.into_iter().chain(others).map(|(name, path)| (place(&name), Ok(path.join("bin/rustc")))),
    );
    places
}

/// The nightlies in rustup's folder: the one named plainly `nightly` first, then by date from the newest.
fn nightlies(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, path)| name.starts_with("nightly-") && path.join("bin/rustc").is_file())
        .collect();
    // `nightly-x86_64…` sorts after `nightly-2026-…`, so that descending order is the one wanted.
    found.sort_by(|a, b| b.0.cmp(&a.0));
    found
}

/// What rustc says of itself, if it will do.
fn examine(environment: &dyn Environment, rustc: &Path) -> Result<Rustc, String> {
    let found = environment.rustc(rustc)?;
    let version = found.version.split([' ', '-']).next().unwrap_or("");
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if number < OLDEST {
        return Err(format!("rustc {version} is too old, {}.{} is needed", OLDEST.0, OLDEST.1));
    }
    let sources = found.sysroot.join("lib/rustlib/src/rust");
    if !sources.join("library/core/src/lib.rs").is_file() {
        return Err(format!(
            "rustc {version} without its library's sources in {}",
            sources.join("library").display()
        ));
    }
    // Distributions link the sources to a folder named after their version.
    let real = sources.canonicalize().unwrap_or(sources);
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    match name.strip_prefix("rustc-").and_then(|name| name.split('-').next()) {
        Some(other) if other != version && other.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(format!("rustc {version} with the library sources of {other} in {}", real.display()))
        }
        _ => Ok(found),
    }
}

/// The cargo to drive rustc with: its neighbour in a rustup toolchain; else the one that runs this build
/// script, which can drive a rustc that came without a cargo of its age.
fn cargo(environment: &dyn Environment, rustc: &Path, sysroot: &Path) -> PathBuf {
    let neighbour = sysroot.join("bin/cargo");
    let own = rustc != environment.system_rustc() && neighbour.is_file();
    let running = || environment.variable("CARGO");
    if own { neighbour } else { running().unwrap_or_else(|| OsString::from("cargo")).into() }
}

#[cfg(test)]
#[path = "toolchain_tests.rs"]
mod tests;
