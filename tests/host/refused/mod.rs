//! What rustc says of a launch whose arguments are wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright_support::suite::Outcome;

/// The most lines of an error.
const LINES: usize = 15;

const LAUNCHES: &str = include_str!("launches.rs");

const MANIFEST: &str = r#"
[package]
name = "launches"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
tilewright = { path = "ROOT", default-features = false }
tilewright-device = { path = "ROOT/device" }
"#;

/// What rustc says.
fn said() -> Result<String, Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = target.join("launches");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), MANIFEST.replace("ROOT", env!("CARGO_MANIFEST_DIR")))?;
    fs::write(folder.join("src/main.rs"), LAUNCHES)?;
    // With versions that are there, so that nothing is fetched.
    fs::copy(root.join("tests/row_scale/Cargo.lock"), folder.join("Cargo.lock"))?;
    let output = Command::new(env!("CARGO"))
        .args(["check", "--release", "--color=never", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target.parent().ok_or("no target folder")?)
        .output()?;
    assert!(!output.status.success(), "it should not compile");
    Ok(String::from_utf8(output.stderr)?)
}

/// Each wrong launch has one error, of few lines, which points at it and says what it should.
pub fn in_few_lines() -> Outcome {
    let said = said()?;
    let errors: Vec<&str> =
        said.split("\n\n").filter_map(|part| part.find("error[").map(|at| &part[at..])).collect();
    let expected: Vec<_> = LAUNCHES
        .lines()
        .enumerate()
        .filter_map(|(i, line)| Some((i + 1, line.split_once(" //~ ")?.1)))
        .collect();
    assert!(expected.len() > 10);
    for &(line, text) in &expected {
        let place = format!("--> src/main.rs:{line}:");
        let there: Vec<_> = errors.iter().filter(|error| error.contains(&place)).collect();
        assert!(matches!(there[..], [error] if error.contains(text)), "line {line}, `{text}`: {said}");
    }
    assert_eq!(errors.len(), expected.len(), "{said}");
    for error in errors {
        assert!(error.lines().count() <= LINES, "{} lines: {error}", error.lines().count());
    }
    Ok(())
}
