//! The packages' archives, as a registry would get them, and what must be true of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::crates::Crate;
use super::package_of;
use super::stage::LICENCES;
use crate::shell::{Done, cargo, run, say};

/// The most bytes that crates.io takes.
const MOST: u64 = 10_485_760;

/// Makes the archives of the crates of this workspace, and checks their sizes and contents. The packages of these operators carry
/// their kernels.
pub fn make(workspace: &Path, crates: &[Crate], operators: &[String], folder: &Path) -> Done {
    // Compiling each from its archive would take kernels that this call does not compile: the proof compiles what it does.
    let mut command = cargo(&["package", "--quiet", "--no-verify", "--allow-dirty"]);
    command.arg("--manifest-path").arg(workspace.join("Cargo.toml")).arg("--target-dir").arg(folder);
    for one in crates {
        command.args(["-p", &one.name]);
    }
    run(&mut command)?;
    let with_kernels: Vec<_> = operators.iter().map(|operator| package_of(operator)).collect();
    for one in crates {
        let path = archive(one, folder);
        let bytes = path.metadata().map_err(|error| format!("{}: {error}", path.display()))?.len();
        if bytes > MOST {
            return Err(format!("{} has {bytes} bytes; a registry takes {MOST}", path.display()));
        }
        let files = files(&path)?;
        let mut expected = vec!["Cargo.toml", "README.md"];
        expected.extend(LICENCES);
        if with_kernels.contains(&one.name) {
            expected.extend(["build.rs", "prebuilt/manifest.json"]);
        }
        let root = format!("{}-{}/", one.name, one.version);
        let has = |name: &&&str| files.iter().any(|file| file.strip_prefix(&root) == Some(**name));
        if let Some(missing) = expected.iter().find(|name| !has(name)) {
            return Err(format!("{} lacks {missing}", path.display()));
        }
        say(&format!("{} {}: {bytes} bytes, {} files", one.name, one.version, files.len()));
    }
    Ok(())
}

/// Where cargo writes a crate's archive.
pub fn archive(one: &Crate, folder: &Path) -> PathBuf {
    folder.join("package").join(format!("{}-{}.crate", one.name, one.version))
}

/// The names of the files in an archive.
fn files(archive: &Path) -> Result<Vec<String>, String> {
    let mut tar = Command::new("tar");
    let output =
        tar.arg("-tzf").arg(archive).output().map_err(|error| format!("cannot run `tar`: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "tar cannot read {}: {}",
            archive.display(),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
