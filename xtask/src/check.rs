//! `cargo xtask ci`: what must hold before a change goes in.

use crate::setup::setup;
use crate::shell::{Done, cargo, run, target};
use crate::test::{outside_packages, test};

/// The features of the library, each with an operator.
const OPERATORS: [&str; 8] =
    ["attention", "dequant_gemm", "gemm", "linear_attention", "mla", "pointwise", "reduce", "rows"];

/// Formatting, lints, documentation, tests.
pub fn ci() -> Done {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    for package in outside_packages() {
        run(cargo(&["fmt", "--all", "--check", "--manifest-path"]).arg(package))?;
    }
    setup()?;
    lint()?;
    // With the examples dependencies have the features that they have in tests: without them all kernels would be built again.
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--release", "--quiet", "--lib", "--examples"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    test()
}

/// Lints everything: the workspace, the library without its operators and with each alone, the packages outside.
fn lint() -> Done {
    // In release, as the tests are, so that the kernels are built once.
    let clippy = ["clippy", "--release", "--quiet", "--all-targets"];
    let denied = ["--", "-D", "warnings"];
    run(cargo(&clippy).arg("--workspace").args(denied))?;
    run(cargo(&["clippy", "--release", "--quiet", "--no-default-features", "--lib"]).args(denied))?;
    for operator in OPERATORS {
        let alone =
            ["clippy", "--release", "--quiet", "--no-default-features", "--lib", "--features", operator];
        run(cargo(&alone).args(denied))?;
    }
    for package in outside_packages() {
        let mut command = cargo(&clippy);
        command.arg("--workspace").arg("--manifest-path").arg(package).arg("--target-dir").arg(target()?);
        run(command.args(denied))?;
    }
    Ok(())
}
