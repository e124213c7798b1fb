//! `cargo xtask ci`: what must hold before a change goes in.

use crate::setup::setup;
use crate::shell::{Done, cargo, run};
use crate::test::{example_packages, test};

/// Formatting, lints, documentation, tests.
pub fn ci() -> Done {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    for package in example_packages() {
        run(cargo(&["fmt", "--check", "--manifest-path"]).arg(package))?;
    }
    setup()?;
    // In release, as the tests are, so that the kernels are built once.
    run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--release",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--release", "--quiet"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    test()
}
