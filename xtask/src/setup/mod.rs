//! Installing what compiling and checking kernels takes.

mod machine;
mod packages;
mod ptxas;
#[cfg(test)]
mod tests;
mod toolchain;

use std::path::PathBuf;

use machine::ThisMachine;

use crate::shell::{Done, say};

/// Installs what is not there.
pub fn setup() -> Done {
    toolchain::install(&ThisMachine)?;
    ptxas::install(&ThisMachine)
}

/// NVIDIA's disassembler, fetched if it is not there.
pub fn disassembler() -> Result<PathBuf, String> {
    ptxas::disassembler(&ThisMachine)
}

/// Installs what is not there, and does without the checks of kernels where they cannot be had.
pub fn setup_to_run() -> Done {
    toolchain::install(&ThisMachine)?;
    ptxas::install(&ThisMachine).unwrap_or_else(|why| say(&format!("kernels go unchecked: {why}")));
    Ok(())
}
