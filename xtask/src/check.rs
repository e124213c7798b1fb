//! `cargo xtask ci`: what must hold before a change goes in.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::book::book_if_there;
use crate::package::package;
use crate::record;
use crate::setup::setup;
use crate::shell::{Done, cargo, commit_number, root, run, say, succeeds, target};
use crate::test::{Outside, outside_packages, test};

/// The features of the library, each with an operator.
const OPERATORS: [&str; 12] = [
    "attention",
    "conv",
    "dequant_gemm",
    "gemm",
    "grouped_gemm",
    "linear_attention",
    "mla",
    "pointwise",
    "reduce",
    "rows",
    "scaled_gemm",
    "ssd",
];

/// Targets that the host's crates are compiled for, beside the one of this machine.
const TARGETS: [&str; 2] = ["x86_64-pc-windows-msvc", "aarch64-unknown-linux-gnu"];

/// The operator whose package is made and proved: one of few kernels.
const PACKAGED: &str = "grouped_gemm";

/// Formatting, lints, documentation, the book, another machine, tests, what is recorded of kernels, packages.
pub fn ci() -> Done {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    // With `--all` they would format what they depend on too, which is all of the workspace, each time.
    for manifest in outside_packages().into_iter().flat_map(|package| with_kernels(&package.manifest)) {
        run(cargo(&["fmt", "--check", "--manifest-path"]).arg(manifest))?;
    }
    setup()?;
    lint()?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--release", "--quiet", "--lib"]);
    run(without_kernels(&mut doc).env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut doc = cargo(&["doc", "--no-deps", "--release", "--quiet", "--lib", "--no-default-features"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    book_if_there()?;
    elsewhere()?;
    test()?;
    record::sample()?;
    package(&[PACKAGED])
}

/// A package's manifest and that of its kernels' package, which lies in its folder.
fn with_kernels(manifest: &Path) -> Vec<PathBuf> {
    let folders = ["device", "kernels"].map(|folder| manifest.with_file_name(folder).join("Cargo.toml"));
    let kernels = folders.into_iter().filter(|manifest| manifest.is_file());
    std::iter::once(manifest.to_owned()).chain(kernels).collect()
}

/// Checks that the crates compile for another machine, another one with each commit: the host's for another operating system or processor, adapters for their
/// frameworks' GPUs.
fn elsewhere() -> Done {
    // Not by the digit that chooses the operators which are linted alone.
    match TARGETS.get(commit_number() / 16 % (TARGETS.len() + 1)) {
        Some(machine) => on(machine),
        None => on_cuda(),
    }
}

/// Checks that the host's crates compile for a machine: without kernels, which are the same everywhere.
fn on(machine: &str) -> Done {
    if !succeeds("rustup", &["target", "add", machine]) {
        say(&format!("rustup has nothing for {machine}: whether the crates compile for it is not checked"));
        return Ok(());
    }
    let features = OPERATORS.join(",") + ",emulator";
    let mut command =
        cargo(&["check", "--release", "--quiet", "--lib", "-p", "tilewright", "-p", "tilewright-builder"]);
    command.args(["--no-default-features", "--features", &features, "--target", machine]);
    run(command.env("RUSTFLAGS", "-D warnings"))
}

/// Lints what adapters have for their frameworks' CUDA devices, their tests too, on machines without CUDA's toolkit. Frameworks compile kernels of their own by `nvcc` when they
/// are built; where Rust is only checked, nothing asks what these kernels are.
///
/// In a target folder of its own: whoever builds for a GPU is not to find empty kernels there.
fn on_cuda() -> Done {
    let folder = root().join("xtask/no_toolkit");
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&others)));
    let path = path.map_err(|error| format!("PATH with the folder of xtask/no_toolkit: {error}"))?;
    for package in outside_packages().into_iter().filter(Outside::is_adapter) {
        let mut command = cargo(&["clippy", "--release", "--quiet", "--all-targets"]);
        command.args(["--no-default-features", "--features", "cuda,emulator", "--manifest-path"]);
        command.arg(&package.manifest).arg("--target-dir").arg(target()?.join("no_toolkit"));
        command.env("PATH", &path).env_remove("NVCC");
        // What the build scripts would ask a toolkit or a GPU for.
        command.envs([("CUDA_COMPUTE_CAP", "90"), ("CUDARC_CUDA_VERSION", "13000")]);
        run(command.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Chooses all operators without an architecture: what is not run needs no kernels, and the compiler checks it all the same.
fn without_kernels(command: &mut Command) -> &mut Command {
    let features: Vec<_> =
        OPERATORS.iter().chain(&["emulator"]).map(|name| format!("tilewright/{name}")).collect();
    command.args(["--no-default-features", "--features", &features.join(",")])
}

/// Lints everything: the workspace, the library without its operators, with some alone and with what is off by default, the packages outside.
fn lint() -> Done {
    let clippy = ["clippy", "--release", "--quiet", "--all-targets"];
    let denied = ["--", "-D", "warnings"];
    run(without_kernels(cargo(&clippy).arg("--workspace")).args(denied))?;
    // The example of a feature that is off by default.
    let example = ["--workspace", "--features", "tilewright/nccl", "--example", "tensor_parallel"];
    run(without_kernels(cargo(&["clippy", "--release", "--quiet"]).args(example)).args(denied))?;
    run(cargo(&["clippy", "--release", "--quiet", "--no-default-features", "--lib"]).args(denied))?;
    // A third of the operators, another one with each commit.
    let part = commit_number();
    let some = OPERATORS.into_iter().enumerate().filter(|(index, _)| index % 3 == part % 3);
    for feature in some.map(|(_, feature)| feature).chain(["cudarc", "cust", "dlpack", "nccl"]) {
        let alone =
            ["clippy", "--release", "--quiet", "--no-default-features", "--lib", "--features", feature];
        // cust's build scripts look for CUDA's toolkit, but for documentation.
        run(cargo(&alone).args(denied).env("DOCS_RS", "1"))?;
    }
    // One of the other packages, another one with each commit. Adapters are linted for their frameworks' GPUs.
    let others: Vec<_> = outside_packages().into_iter().filter(|one| !one.is_adapter()).collect();
    if let Some(package) = others.get(commit_number() % others.len().max(1)) {
        let mut command = cargo(&clippy);
        command
            .args(["--workspace", "--features", package.features, "--manifest-path"])
            .arg(&package.manifest);
        run(package.quickly(&mut command)?.args(denied))?;
    }
    Ok(())
}
