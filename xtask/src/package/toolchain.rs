//! The oldest Rust that the crates promise to be built by.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{line, say, succeeds};

/// The folder with the programs of stable Rust of this version: rustup's, fetched if need be, or else of the Rust that runs this.
pub fn stable(version: &str) -> Result<PathBuf, String> {
    let installed = || {
        let folder = answer(Command::new("rustup").args(["which", "--toolchain", version, "rustc"])).ok()?;
        Path::new(&folder).parent().map(Path::to_owned)
    };
    if let Some(folder) = installed() {
        return Ok(folder);
    }
    succeeds("rustup", &["toolchain", "install", version, "--profile", "minimal", "--no-self-update"]);
    if let Some(folder) = installed() {
        return Ok(folder);
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = answer(Command::new(rustc).args(["--print", "sysroot"]))?;
    say(&format!("rustup has no Rust {version}, and cannot fetch it: another one is taken"));
    Ok(Path::new(&sysroot).join("bin"))
}

/// What a program writes, without the end of the line.
pub fn answer(command: &mut Command) -> Result<String, String> {
    let line = line(command);
    let output = command.output().map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
