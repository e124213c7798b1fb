//! What the builder asks of the machine, behind one door so that tests can answer instead.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A rustc's own account of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rustc {
    /// `1.96.0` or `1.97.0-nightly`, with what follows on the line.
    pub version: String,
    pub sysroot: PathBuf,
}

/// The machine: variables, paths, and the programs that can be asked.
pub(crate) trait Environment {
    /// An environment variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// What the rustc at this path says, or why it says nothing.
    fn rustc(&self, path: &Path) -> Result<Rustc, String>;
    /// What `ptxas --version` says, or why it says nothing.
    fn ptxas(&self, path: &Path) -> Result<String, String>;
    /// Where a distribution installs rustc.
    fn system_rustc(&self) -> PathBuf;
    /// Bytes of memory, where that is known.
    fn memory(&self) -> Option<u64>;
}

/// The machine that the builder runs on.
pub(crate) struct Machine;

impl Environment for Machine {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    fn rustc(&self, path: &Path) -> Result<Rustc, String> {
        // Each takes a rustc a tenth of a second or two.
        let (version, sysroot) = std::thread::scope(|scope| {
            let version = scope.spawn(|| ask(path, &["-vV"]));
            let sysroot = ask(path, &["--print", "sysroot"]);
            (version.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), sysroot)
        });
        let (version, sysroot) = (version?, sysroot?);
        let line = version.lines().next().unwrap_or("");
        let version = line.strip_prefix("rustc ").ok_or_else(|| format!("it answers `{line}`"))?;
        Ok(Rustc { version: version.to_owned(), sysroot: PathBuf::from(sysroot.trim()) })
    }

    fn ptxas(&self, path: &Path) -> Result<String, String> {
        let answer = ask(path, &["--version"])?;
        let release = answer.lines().find(|line| line.contains("release"));
        Ok(release.unwrap_or(&answer).trim().trim_start_matches("Cuda compilation tools, ").to_owned())
    }

    fn system_rustc(&self) -> PathBuf {
        PathBuf::from("/usr/bin/rustc")
    }

    fn memory(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    }
}

/// Silences wrappers of rustc that cargo's configuration names for a package in this folder.
///
/// Empty values do that, but with them cargo does not remember what rustc says of itself, and asks it ten times a build: they
/// are set where there may be a wrapper alone.
pub(crate) fn without_wrappers(command: &mut Command, package: &Path) {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let folders = package.ancestors().map(|folder| folder.join(".cargo")).chain(home);
    let names_one = |folder: PathBuf| {
        ["config.toml", "config"].iter().any(|file| {
            let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
            // A file may include others.
            text.contains("wrapper") || text.contains("include")
        })
    };
    if folders.into_iter().any(names_one) {
        command.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
    }
}

fn ask(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    clean(&mut command);
    let output = command.args(arguments).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("it fails: {}", message.lines().next().unwrap_or("")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Takes from a command what a build script inherits from the cargo that runs it.
///
/// The compiler of the kernels is another one, with another target: flags, wrappers and toolchain choices
/// meant for the host would break it. What says where cargo keeps things and how it reaches registries stays.
pub(crate) fn clean(command: &mut Command) {
    const TAKEN: [&str; 6] = ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN", "DEP_"];
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTRY_",
        "CARGO_REGISTRIES_",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    const FOR_BUILD_SCRIPTS: [&str; 8] =
        ["OUT_DIR", "TARGET", "HOST", "NUM_JOBS", "OPT_LEVEL", "PROFILE", "DEBUG", "MAKEFLAGS"];
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let inherited = begins(&TAKEN) && !begins(&KEPT);
        if inherited || FOR_BUILD_SCRIPTS.contains(&name) {
            command.env_remove(name);
        }
    }
}
