//! For programs that install what builds need: what is there already, and where to put what is not.

use std::path::{Path, PathBuf};

use crate::environment::Machine;
use crate::files::shared_folder;
use crate::{BuildError, Ptxas, Toolchain, ptxas, toolchain};

pub use crate::error::{OLDEST, RUSTUP_COMMAND};

/// The compiler that a build would take.
///
/// # Errors
/// There is none, or the environment names one that will not do.
pub fn toolchain() -> Result<Toolchain, BuildError> {
    toolchain::find(&Machine)
}

/// The rustc beside the cargo that runs this, if it would do but for the sources of its library.
pub fn without_sources() -> Option<PathBuf> {
    toolchain::without_sources(&Machine)
}

/// The `ptxas` that a build would check kernels with, if `inside` is a path in its target folder.
///
/// # Errors
/// The environment names one that will not do.
pub fn ptxas(inside: &Path) -> Result<Option<Ptxas>, BuildError> {
    ptxas::find(&Machine, &shared_folder(inside))
}

/// NVIDIA's disassembler, if `inside` is a path in the target folder whose setup may have fetched it.
pub fn nvdisasm(inside: &Path) -> Option<PathBuf> {
    ptxas::places(&Machine, &nvdisasm_folder(inside), "nvdisasm").next()
}

/// The folder in which [`nvdisasm`] looks for NVIDIA's Python package `nvidia-cuda-nvdisasm`, installed with `pip --target`.
pub fn nvdisasm_folder(inside: &Path) -> PathBuf {
    shared_folder(inside).join("nvdisasm")
}

/// The folder in which a build looks for NVIDIA's Python package `nvidia-cuda-nvcc`, installed with `pip --target`.
pub fn ptxas_folder(inside: &Path) -> PathBuf {
    ptxas::fetched(&shared_folder(inside))
}
