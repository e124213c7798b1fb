//! All that cargo shows of a crate of kernels that does not compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most lines, cargo's own among them.
const LINES: usize = 15;

const MANIFEST: &str = r#"
[package]
name = "whole"
version = "0.0.0"
edition = "2024"

[workspace]

[features]
default = ["build"]
build = ["dep:tilewright-builder"]

[dependencies]
tilewright-device = { path = "DEVICE" }

[build-dependencies]
tilewright-builder = { path = "DEVICE/../builder", optional = true }
"#;

const SCRIPT: &str = r#"
fn main() {
    #[cfg(feature = "build")]
    {
        use tilewright_builder::{Arch, KernelBuilder};
        KernelBuilder::this_package().arch(Arch::Sm80).arch(Arch::Sm90a).build_or_exit();
    }
}
"#;

/// Builds a package with this library, as its author does: what went to the terminal, but for the steps that were done.
fn built(library: &str) -> Result<Vec<String>, Vec<String>> {
    let device = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    // The folder of temporaries is that of all tests of the workspace.
    let folder = target.join("diagnosed_whole");
    let manifest = MANIFEST.replace("DEVICE", env!("CARGO_MANIFEST_DIR"));
    // With versions that are there, so that nothing is fetched.
    let lock = fs::read_to_string(device.join("../tests/row_scale/Cargo.lock")).expect("a lock file");
    let files = [
        ("Cargo.toml", manifest.as_str()),
        ("Cargo.lock", &lock),
        ("build.rs", SCRIPT),
        ("src/lib.rs", library),
    ];
    fs::create_dir_all(folder.join("src")).expect("a folder");
    for (path, text) in files {
        let path = folder.join(path);
        let there = fs::read_to_string(&path);
        // cargo adds the package's own name to the lock file.
        let kept = there.is_ok_and(|old| old == text || path.ends_with("Cargo.lock"));
        if !kept {
            fs::write(path, text).expect("a file");
        }
    }
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--color=never", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        // That of the workspace, where the dependencies of kernels are compiled already.
        .arg("--target-dir")
        .arg(target.parent().expect("a target folder"))
        .output()
        .expect("cargo runs");
    let steps = ["Compiling ", "Locking ", "Adding ", "Updating ", "Finished ", "Blocking "];
    let shown: Vec<_> = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| {
            !steps.iter().any(|step| line.trim_start().starts_with(step))
                && !line.contains("there is no ptxas")
        })
        .map(str::to_owned)
        .collect();
    if output.status.success() { Ok(shown) } else { Err(shown) }
}

/// What is shown of a library that does not compile.
fn refused(library: &str) -> String {
    let lines = built(library).expect_err("it should not compile");
    assert!(lines.len() <= LINES, "{} lines:\n{}", lines.len(), lines.join("\n"));
    let text = lines.join("\n");
    let mut errors: Vec<_> = lines.iter().filter(|line| line.contains(" error[E")).collect();
    errors.sort();
    let told = errors.len();
    errors.dedup();
    assert_eq!(errors.len(), told, "{text}");
    text
}

#[test]
fn cargo_shows_each_error_once_with_its_cure() {
    let shape = refused(include_str!("kernels/no_such_shape.rs"));
    for part in [
        "12 columns cannot be divided among 1 warps or warpgroups",
        "each takes a multiple of 8 columns, at most 256",
        "policy `Warpgroups<2, 1>` cannot compute a 128 x 12 x 64 tile",
        "each warpgroup takes blocks of 64 rows and 8 to 256 columns",
        "src/lib.rs:19:46",
    ] {
        assert!(shape.contains(part), "{part}:\n{shape}");
    }
    let library = include_str!("kernels/generic_policy.rs");
    let conflict = refused(library);
    let cure = "`Y: Gemm<f16, 128, 64, 64, A = Swizzle<128>>, Y: Gemm<f16, 128, 128, 64, A = Swizzle<128>>`";
    assert!(conflict.contains(cure), "{conflict}");
    // It is one.
    let cured = library
        .replace("Y: Gemm<f16, 128, 128, 64, D", "Y: Gemm<f16, 128, 128, 64, A = Swizzle<128>, D")
        .replace("Y: Gemm<f16, 128, 64, 64>", "Y: Gemm<f16, 128, 64, 64, A = Swizzle<128>>");
    assert_ne!(cured, library);
    assert_eq!(built(&cured), Ok(vec![]));
}
