//! Test programs, several at a time: one test that takes long leaves the other cores without work, and `cargo test` runs one program after the other.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::shell::{Done, cargo, line, root, say, succeeds, target};

/// A program of tests that cargo has built.
struct Program {
    /// Of its sources.
    name: String,
    executable: PathBuf,
    /// The package's folder, which tests run in.
    folder: PathBuf,
}

/// Builds the workspace's test programs and runs all of them, then the examples in docstrings; `count` is told each line that they print.
pub fn run(mut count: impl FnMut(&str) + Send) -> Done {
    let programs = build()?;
    // Tests may fill a GPU's memory.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = if succeeds("nvidia-smi", &["-L"]) { 1 } else { cores.min(4) };
    let (waiting, failures) = (Mutex::new(VecDeque::from(programs)), Mutex::new(Vec::new()));
    let told = Mutex::new(&mut count);
    let libraries = libraries()?;
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(program) = next() {
                    let (text, result) = program.run(&libraries);
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    say(&program.name);
                    for text in text.lines() {
                        println!("{text}");
                        told(text);
                    }
                    if let Err(error) = result {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(error);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Builds them.
fn build() -> Result<Vec<Program>, String> {
    // Without examples, which clippy has seen: each is a program with the kernels of an operator.
    let arguments = ["test", "--workspace", "--release", "--no-run", "--tests"];
    let mut command = cargo(&arguments);
    command.arg("--message-format=json-render-diagnostics");
    let line = line(&command);
    say(&line);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` failed: {}", output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages.lines().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let mut programs: Vec<_> = messages.filter_map(|message| program(&message)).collect();
    // Those with the most source take the longest: first, so that none is left alone at the end.
    programs.sort_by_cached_key(|program| std::cmp::Reverse(program.source_len()));
    Ok(programs)
}

/// The program that a message of cargo's tells of, if it is one of tests.
fn program(message: &Value) -> Option<Program> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    message["profile"]["test"].as_bool().filter(|&test| test)?;
    let source = PathBuf::from(message["target"]["src_path"].as_str()?);
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let name = source.strip_prefix(root()).unwrap_or(&source).display().to_string();
    Some(Program { name, executable, folder })
}

/// Where programs find the compiler's libraries, which those of procedural macros are linked with.
fn libraries() -> Result<std::ffi::OsString, String> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.map_err(|error| format!("cannot run `rustc --print sysroot`: {error}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let before = std::env::var_os(LIBRARIES).unwrap_or_default();
    let folders = [sysroot.join("lib"), sysroot.join("bin"), target()?.join("release/deps")];
    std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&before)))
        .map_err(|error| format!("{LIBRARIES}: {error}"))
}

/// The variable that has the folders of libraries.
const LIBRARIES: &str = if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" };

impl Program {
    /// Bytes of the files beside its first one.
    fn source_len(&self) -> u64 {
        let folder = root().join(&self.name);
        let files = folder.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Runs it to its end, and gives what it printed.
    fn run(&self, libraries: &std::ffi::OsStr) -> (String, Done) {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env(LIBRARIES, libraries);
        match command.stdin(Stdio::null()).output() {
            Err(error) => (String::new(), Err(format!("cannot run {}: {error}", self.executable.display()))),
            Ok(output) => {
                let text =
                    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
                let failed = || format!("tests of {} failed: {}", self.name, output.status);
                (text.concat(), if output.status.success() { Ok(()) } else { Err(failed()) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_other_artifacts() {
        let message = |test: bool, executable: Option<&str>| {
            serde_json::json!({
                "reason": "compiler-artifact", "executable": executable, "profile": { "test": test },
                "manifest_path": root().join("ptx/Cargo.toml"), "target": { "src_path": root().join("ptx/src/lib.rs") },
            })
        };
        let found = program(&message(true, Some("/target/release/deps/ptx-1"))).unwrap();
        assert_eq!(PathBuf::from(&found.name), PathBuf::from("ptx/src/lib.rs"));
        assert_eq!(found.folder, root().join("ptx"));
        assert!(program(&message(false, Some("/target/release/examples/gemm"))).is_none());
        assert!(program(&message(true, None)).is_none());
        assert!(program(&serde_json::json!({ "reason": "build-finished" })).is_none());
    }
}
