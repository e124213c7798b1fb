//! What a kernel's author sees: each program in `cases/src/bin` compiles, or fails as its comments say, in a few lines.
//!
//! `code //~ TEXT` expects an error at this line, and TEXT in what the builder shows; `//~ TEXT` on a line of its own
//! expects the text alone, for errors that only show when a kernel is instantiated. Texts are compared, not whole
//! messages: these are rustc's and change with it.

mod whole;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright_builder::{Arch, BuildError, KernelBuilder};

/// The most lines of an error that the builder shows, and a line for the crate that has it.
const LINES: usize = 13;

/// What is expected to be shown: at which line, if it says so, and the text.
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

/// Builds the program for the host; instantiating errors show only then. Gives rustc's words if it does not compile.
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

/// What the builder shows of a program that is the library of a device crate.
fn refusal(package: &Path, source: &str) -> Result<String, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused");
    let out = folder.join("out");
    // On the first line, so that the lines have their numbers.
    let library =
        "#![no_std] #![cfg_attr(target_arch = \"nvptx64\", feature(abi_ptx, asm_experimental_arch))] "
            .to_owned()
            + &source.replace("fn main()", "#[unsafe(no_mangle)] pub fn main()");
    let manifest = fs::read_to_string(package.join("Cargo.toml")).map_err(|error| error.to_string())?;
    let device = format!("path = \"{}\"", env!("CARGO_MANIFEST_DIR"));
    let manifest = manifest
        .replace("name = \"cases\"", "name = \"refused_case\"")
        .replace("path = \"../../..\"", &device);
    for (path, text) in [("Cargo.toml", manifest), ("src/lib.rs", library)] {
        let path = folder.join(path);
        let written =
            fs::create_dir_all(path.parent().unwrap_or(&path)).and_then(|()| fs::create_dir_all(&out));
        written.and_then(|()| fs::write(&path, text)).map_err(|error| error.to_string())?;
    }
    match KernelBuilder::new(folder).arch(Arch::Sm90a).out_dir(out).build() {
        Err(error @ BuildError::Compile { .. }) => Ok(error.to_string()),
        other => Err(format!("it should not compile: {other:?}")),
    }
}

/// What is wrong with how the program compiles.
fn judge(package: &Path, source: &Path) -> Result<(), String> {
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let source = fs::read_to_string(source).map_err(|error| error.to_string())?;
    let expected = expectations(&source);
    if expected.is_empty() {
        return build(package, &name).map_err(|said| format!("{name} should compile:\n{said}"));
    }
    let said = refusal(package, &source).map_err(|problem| format!("{name}: {problem}"))?;
    for Expected { line, text } in expected {
        let place = line.map(|line| format!("lib.rs:{line}:"));
        if !said.contains(&text) || place.is_some_and(|place| !said.contains(&place)) {
            return Err(format!("{name} should fail with `{text}` at line {line:?}, but:\n{said}"));
        }
    }
    match said.lines().count() {
        0..=LINES => Ok(()),
        count => Err(format!("{name} fails in {count} lines:\n{said}")),
    }
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
