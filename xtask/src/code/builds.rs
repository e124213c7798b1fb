//! Building a package, and where the builder wrote its kernels.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tilewright_builder::Built;

use crate::shell::{cargo, line, root, say, target};

/// Variables of the environment that a build without them compiles the kernels as everybody's are.
pub const BUILT_FOR_ALL: [(&str, Option<&OsStr>); 5] = [
    ("TILEWRIGHT_BUILD", None),
    ("TILEWRIGHT_DEBUG", None),
    ("TILEWRIGHT_DEBUG_LINES", None),
    ("TILEWRIGHT_KERNELS", None),
    ("TILEWRIGHT_SANITIZE", None),
];

/// Builds the package, and gives the output folders of its own build script and those of what it depends on that have kernels.
pub fn folders(manifest: &Path, arguments: &[&str]) -> Result<Vec<PathBuf>, String> {
    let manifest = manifest.canonicalize().map_err(|error| format!("{}: {error}", manifest.display()))?;
    let mut command = build(&manifest);
    if manifest.starts_with(root()) {
        // In one target folder with the rest, as `cargo xtask run` builds examples.
        command.arg("--target-dir").arg(target()?);
    }
    command.args(arguments);
    outputs(command, &manifest)
}

/// The output folders of what the workspace's tests are built of.
pub fn folders_of_tests() -> Result<Vec<PathBuf>, String> {
    let mut command = cargo(&["test", "--workspace", "--release", "--no-run", "--tests"]);
    command.arg("--message-format=json-render-diagnostics");
    for (name, _) in BUILT_FOR_ALL {
        command.env_remove(name);
    }
    outputs(command, &root().join("Cargo.toml"))
}

/// As [`folders`] in this target folder, with variables of the environment set or, without a value, taken away.
pub fn folders_in(
    manifest: &Path,
    target: &Path,
    variables: &[(&str, Option<&OsStr>)],
) -> Result<Vec<PathBuf>, String> {
    let mut command = build(manifest);
    command.arg("--target-dir").arg(target);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    outputs(command, manifest)
}

fn build(manifest: &Path) -> Command {
    let mut command =
        cargo(&["build", "--release", "--message-format=json-render-diagnostics", "--manifest-path"]);
    command.arg(manifest);
    command
}

/// Runs the build.
fn outputs(mut command: Command, manifest: &Path) -> Result<Vec<PathBuf>, String> {
    command.stderr(Stdio::inherit());
    let line = line(&command);
    say(&line);
    let output = command.output().map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` failed: {}", output.status));
    }
    let found = scripts(&String::from_utf8_lossy(&output.stdout));
    let found: Vec<_> = found.into_iter().filter(|folder| Built::is_in(folder)).collect();
    match found.is_empty() {
        true => Err(format!("nothing that {} is built of has kernels", manifest.display())),
        false => Ok(found),
    }
}

/// The output folders of the build scripts that cargo's messages tell of.
fn scripts(messages: &str) -> Vec<PathBuf> {
    let folder = |message: &str| {
        let message: Value = serde_json::from_str(message).ok()?;
        let is_script = message.get("reason")?.as_str()? == "build-script-executed";
        is_script.then_some(PathBuf::from(message.get("out_dir")?.as_str()?))
    };
    messages.lines().filter_map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_scripts_are_found_among_messages() {
        let messages = r#"{"reason":"compiler-artifact","filenames":["a"]}
{"reason":"build-script-executed","package_id":"p","out_dir":"/t/release/build/p-1/out","env":[]}
not a message
{"reason":"build-finished","success":true}"#;
        assert_eq!(scripts(messages), [Path::new("/t/release/build/p-1/out")]);
    }
}
