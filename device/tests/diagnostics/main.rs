//! What a kernel's author sees: each program in `cases/src/bin` compiles, or fails as its comments say.
//!
//! `code //~ TEXT` expects an error at this line, and TEXT in what rustc prints; `//~ TEXT` on a line of its own
//! expects the text alone, for errors that only show when a kernel is instantiated. Texts are compared, not whole
//! messages: these are rustc's and change with it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What rustc is expected to say: at which line, if it says so, and the text.
#[derive(Debug)]
struct Expected {
    line: Option<usize>,
    text: String,
}

fn expectations(source: &str) -> Vec<Expected> {
    let comment = |(number, line): (usize, &str)| {
        let (code, text) = line.split_once("//~ ")?;
        let line = (!code.trim().is_empty()).then_some(number + 1);
        Some(Expected { line, text: text.trim().to_owned() })
    };
    source.lines().enumerate().filter_map(comment).collect()
}

/// Builds the program; instantiating errors show only then. Gives rustc's words if it does not compile.
fn build(package: &Path, name: &str) -> Result<(), String> {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--color=never", "--bin", name, "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("diagnostics"))
        .output()
        .expect("cargo runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// What is wrong with how the program compiles.
fn judge(package: &Path, source: &Path) -> Result<(), String> {
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let expected = expectations(&std::fs::read_to_string(source).map_err(|error| error.to_string())?);
    let said = match (build(package, &name), expected.is_empty()) {
        (Ok(()), true) => return Ok(()),
        (Ok(()), false) => return Err(format!("{name} compiles, and should not")),
        (Err(said), true) => return Err(format!("{name} should compile:\n{said}")),
        (Err(said), false) => said,
    };
    for Expected { line, text } in expected {
        let place = line.map(|line| format!("{name}.rs:{line}:"));
        if !said.contains(&text) || place.is_some_and(|place| !said.contains(&place)) {
            return Err(format!("{name} should fail with `{text}` at line {line:?}, but:\n{said}"));
        }
    }
    Ok(())
}

#[test]
fn kernels_compile_or_say_why_not() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics/cases");
    let mut sources: Vec<PathBuf> = package
        .join("src/bin")
        .read_dir()
        .expect("cases")
        .map(|entry| entry.expect("a case").path())
        .collect();
    sources.sort();
    assert!(sources.len() > 10, "{sources:?}");
    let wrong: Vec<_> = sources.iter().filter_map(|source| judge(&package, source).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n\n{}", wrong.len(), sources.len(), wrong.join("\n\n"));
}
