//! Device crates among the tests, compiled by the builder and assembled by `ptxas`.

use std::path::Path;

use tilewright_builder::{Arch, Built, KernelBuilder};

/// Builds the package in this folder of the tests for every architecture, or says what is missing or wrong.
pub fn build(package: &str) -> Result<Built, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(package);
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("built").join(package);
    std::fs::create_dir_all(&out).map_err(|error| error.to_string())?;
    let builder = KernelBuilder::new(folder).arch(Arch::Sm80).arch(Arch::Sm90a).out_dir(out);
    let built = builder.build().map_err(|error| error.to_string())?;
    match built.ptxas {
        Some(_) => Ok(built),
        None => Err("there is no ptxas to assemble with: `cargo xtask setup` fetches it".into()),
    }
}
