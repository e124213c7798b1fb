//! `cargo xtask run`: an example by its name, with the kernels that it takes.

use serde_json::Value;

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
        // Kernels of operators that it does not call are minutes of compilation.
        let operators = operators(name)?;
        if !operators.is_empty() {
            let features = format!("{},emulator,sm_80,sm_90a", operators.join(","));
            command.args(["--no-default-features", "--features", &features]);
        }
    }
    let arguments = rest.strip_prefix(&["--"]).unwrap_or(rest);
    if !arguments.is_empty() {
        command.arg("--").args(arguments);
    }
    shell::run(&mut command)
}

/// The operators that Cargo.toml says an example needs; none where it says nothing, which may be all of them.
fn operators(name: &str) -> Result<Vec<String>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot read `cargo metadata`: {error}");
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))?;
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let targets = list(&metadata, "packages").into_iter().flat_map(|package| list(&package, "targets"));
    let example = targets.into_iter().find(|target| target["name"] == name && target["kind"][0] == "example");
    let features = example.map(|target| list(&target, "required-features")).unwrap_or_default();
    Ok(features.iter().filter_map(|feature| Some(feature.as_str()?.to_owned())).collect())
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

#[cfg(test)]
mod tests {
    use super::operators;

    #[test]
    fn an_example_names_its_operators() {
        assert_eq!(operators("gemm"), Ok(vec!["gemm".to_owned()]));
        assert_eq!(operators("warm_up"), Ok(vec![]));
    }
}
