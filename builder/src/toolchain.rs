//! Finding a rustc that compiles for the GPU, and a cargo to drive it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::environment::{Environment, Rustc};
use crate::error::{BuildError, OLDEST, Tried};

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

/// The first compiler that will do: the environment's, the one beside the cargo that runs, rustup's others, the distribution's.
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

/// The rustc beside the cargo that runs, if it would do but for the sources of its library.
pub(crate) fn without_sources(environment: &dyn Environment) -> Option<PathBuf> {
    let rustc = neighbour(environment)?;
    let found = recent(environment, &rustc).ok()?;
    sources(&found).is_err().then_some(rustc)
}

/// The places to look at, each with a rustc or with the reason that there is none.
fn candidates(environment: &dyn Environment) -> Vec<(String, Result<PathBuf, String>)> {
    if let Some(path) = environment.variable("TILEWRIGHT_RUSTC").map(PathBuf::from) {
        // Someone's choice: to take another compiler in silence would not be it.
        return vec![(format!("TILEWRIGHT_RUSTC, which is {}", path.display()), Ok(path))];
    }
    let mut places = vec![("environment variable TILEWRIGHT_RUSTC".to_owned(), Err("not set".to_owned()))];
    let system = environment.system_rustc();
    let neighbour = neighbour(environment).filter(|rustc| *rustc != system);
    let rustup = rustup(environment).into_iter().filter(|(_, rustc)| Some(rustc) != neighbour.as_ref());
    let others: Vec<_> =
        rustup.map(|(name, rustc)| (format!("rustup toolchain {name}"), Ok(rustc))).collect();
    places.extend(
        neighbour.map(|rustc| (format!("{}, beside the cargo that runs", rustc.display()), Ok(rustc))),
    );
    places.extend(others);
    let place = format!("the distribution's {}", system.display());
    places.push((place, if system.is_file() { Ok(system) } else { Err("not there".into()) }));
    places
}

/// The rustc beside the cargo that runs: of the same toolchain.
fn neighbour(environment: &dyn Environment) -> Option<PathBuf> {
    let cargo = PathBuf::from(environment.variable("CARGO")?);
    let rustc = cargo.with_file_name(cargo.file_name()?.to_str()?.replace("cargo", "rustc"));
    rustc.is_file().then_some(rustc)
}

/// The toolchains in rustup's folder, by name: `stable`, then nightlies, the newest first, then versions.
fn rustup(environment: &dyn Environment) -> Vec<(String, PathBuf)> {
    let home = environment
        .variable("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(environment.variable("HOME")?).join(".rustup")));
    let Some(entries) = home.and_then(|home| home.join("toolchains").read_dir().ok()) else {
        return Vec::new();
    };
    let rustc = |folder: PathBuf| folder.join("bin").join(format!("rustc{}", std::env::consts::EXE_SUFFIX));
    let named = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, rustc(entry.path()))));
    // What someone links there under a name of his own is taken where it runs, or is named.
    let channel = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_digit())
            || ["stable-", "nightly-", "beta-"].iter().any(|channel| name.starts_with(channel))
    };
    let mut found: Vec<_> = named.filter(|(name, rustc)| channel(name) && rustc.is_file()).collect();
    // `stable-x86_64…` sorts after `nightly-x86_64…`, that after `nightly-2026-…`, and versions are digits: descending order is the one wanted.
    found.sort_by(|a, b| b.0.cmp(&a.0));
    found
}

/// What rustc says of itself, if it will do.
fn examine(environment: &dyn Environment, rustc: &Path) -> Result<Rustc, String> {
    let found = recent(environment, rustc)?;
    sources(&found)?;
    Ok(found)
}

/// What rustc says of itself, if it is not too old.
fn recent(environment: &dyn Environment, rustc: &Path) -> Result<Rustc, String> {
    let found = environment.rustc(rustc)?;
    let version = number(&found);
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if number < OLDEST {
        return Err(format!("rustc {version} is too old, {}.{} is needed", OLDEST.0, OLDEST.1));
    }
    Ok(found)
}

/// Whether the sources of rustc's library are there, and of its version.
fn sources(found: &Rustc) -> Result<(), String> {
    let version = number(found);
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
        _ => Ok(()),
    }
}

/// `1.96.0`, without what follows on the line.
fn number(found: &Rustc) -> &str {
    found.version.split([' ', '-']).next().unwrap_or("")
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
