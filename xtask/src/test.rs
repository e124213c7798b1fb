//! `cargo xtask test`: every test, and how many were skipped.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::guide::follow;
use crate::programs;
use crate::setup::setup;
use crate::shell::{Done, QUICK, QUICKER, cargo, line, root, say, target};

/// Test results that cargo's test programs print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
}

/// Sets up, then runs the tests of the workspace and of the packages outside of it, and follows the guide.
pub fn test() -> Done {
    setup()?;
    let mut count = Count::default();
    // All of them run even when some fail: one report, not one failure at a time.
    let mut outcome = programs::run(|line| count.add(line));
    let docs = &mut cargo(&["test", "--workspace", "--release", "--no-fail-fast", "--doc"]);
    outcome = counted(docs, &mut count).and(outcome);
    for package in outside_packages() {
        let mut command = cargo(&["test", "--release", "--no-fail-fast", "--manifest-path"]);
        command.arg(&package.manifest).args(["--features", package.features]);
        outcome = counted(package.quickly(&mut command)?, &mut count).and(outcome);
    }
    outcome = follow().and(outcome);
    let Count { passed, failed, skipped } = count;
    say(&format!("{passed} tests passed, {failed} failed, {skipped} skipped"));
    outcome
}

/// A package outside of the workspace, as a user's crate would be.
pub struct Outside {
    pub manifest: PathBuf,
    /// What it is tested with, separated by commas.
    pub features: &'static str,
}

impl Outside {
    /// Whether it is an adapter for a framework.
    pub fn is_adapter(&self) -> bool {
        self.manifest.starts_with(root().join("adapters"))
    }

    /// A command of cargo's that compiles it beside the workspace, with little optimisation: the same for lints and tests, so that the second finds what both need.
    pub fn quickly<'a>(&self, command: &'a mut Command) -> Result<&'a mut Command, String> {
        command.arg("--target-dir").arg(target()?).args(QUICK);
        Ok(if self.is_adapter() { command } else { command.args(QUICKER) })
    }
}

/// Examples, an operator that tests add, and adapters for frameworks, whose tensors on the CPU the emulator takes.
pub fn outside_packages() -> Vec<Outside> {
    let folders =
        |of: &str| root().join(of).read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let plain = folders("examples").chain([root().join("tests/row_scale")]).map(|folder| (folder, ""));
    let all = plain.chain(folders("adapters").map(|folder| (folder, "emulator")));
    let packages = all.map(|(folder, features)| Outside { manifest: folder.join("Cargo.toml"), features });
    let mut packages: Vec<_> = packages.filter(|package| package.manifest.is_file()).collect();
    packages.sort_by(|a, b| a.manifest.cmp(&b.manifest));
    packages
}

/// Runs a test command, passing on and counting what it prints.
fn counted(command: &mut Command, count: &mut Count) -> Done {
    let line = line(command);
    say(&line);
    let failed = |error: std::io::Error| format!("cannot run `{line}`: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(output) = child.stdout.take() {
        for text in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&text);
            println!("{text}");
            count.add(&text);
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed: {status}")) }
}

impl Count {
    /// `test result: ok. 5 passed; 0 failed; 2 ignored; …`
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let number = |what: &str| -> usize {
            let words: Vec<_> = result.split([' ', ';']).collect();
            words.windows(2).find(|pair| pair[1] == what).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
        };
        self.passed += number("passed");
        self.failed += number("failed");
        self.skipped += number("ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut count = Count::default();
        count.add(
            "test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 1 filtered out; finished in 0.00s",
        );
        count.add("test result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s");
        count.add("test result is a word of mine ... ok");
        assert_eq!(count, Count { passed: 6, failed: 3, skipped: 2 });
    }
}
