//! Compiles the kernels with what they print and assert, and beside that without.

use std::path::PathBuf;

use tilewright_builder::{Arch, KernelBuilder};

fn main() {
    let builder = || KernelBuilder::new("device").arch(Arch::Sm80);
    if let Some(out) = std::env::var_os("OUT_DIR") {
        builder().debug(false).out_dir(PathBuf::from(out).join("silent")).build_or_exit();
    }
    builder().debug(true).build_or_exit();
}
