//! `cargo xtask run`: an example by its name.

use crate::setup::setup_to_run;
use crate::shell::{self, Done, cargo, root, target};

/// Sets up, then builds and runs the example.
pub fn run(name: &str, rest: &[&str]) -> Done {
    let package = root().join("examples").join(name).join("Cargo.toml");
    let single = root().join("examples").join(format!("{name}.rs"));
    if !package.is_file() && !single.is_file() {
        return Err(format!("there is no example `{name}`: {}", list()));
    }
    setup_to_run()?;
    let mut command = cargo(&["run", "--release"]);
    if package.is_file() {
        // In one target folder with the rest, so that nothing is compiled or fetched twice.
        command.arg("--manifest-path").arg(package).arg("--target-dir").arg(target()?);
    } else {
        command.args(["--example", name]);
    }
    let arguments = rest.strip_prefix(&["--"]).unwrap_or(rest);
    if !arguments.is_empty() {
        command.arg("--").args(arguments);
    }
    shell::run(&mut command)
}

/// The examples' names.
pub fn list() -> String {
    let entries = root().join("examples").read_dir().into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| {
            entry.path().join("Cargo.toml").is_file() || entry.path().extension().is_some_and(|e| e == "rs")
        })
        .filter_map(|entry| Some(entry.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    if names.is_empty() { "there are none yet".to_owned() } else { format!("there are {}", names.join(", ")) }
}
