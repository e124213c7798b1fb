//! Compiles a crate of GPU kernels to PTX from a build script, and checks the result.
//!
//! A *device crate* is an ordinary Rust library with functions marked `#[kernel]`. The crate that launches them
//! has a build script:
//!
//! ```no_run
//! use tilewright_builder::{Arch, KernelBuilder};
//!
//! // build.rs
//! KernelBuilder::new("device").arch(Arch::Sm80).arch(Arch::Sm90a).build_or_exit();
//! ```
//!
//! and includes what it wrote with `tilewright::include_kernels!()`.
//!
//! The device crate is compiled by rustc's own NVPTX backend, so it needs a rustc with the sources of its
//! library: the one that the environment variable `TILEWRIGHT_RUSTC` names, a rustup nightly with `rust-src`,
//! or a distribution's. The crate around it stays on stable. The kernels' launch bounds are put into the PTX,
//! which rustc cannot do; PTX that would run badly (local memory, spills, serialised `wgmma`) is refused with the
//! kernel's name. The checks that need `ptxas` run where it is at hand: `TILEWRIGHT_PTXAS`, the one that
//! the project's own setup fetched, `CUDA_HOME`, or the path.
//!
//! With [`KernelBuilder::debug_lines`], or `TILEWRIGHT_DEBUG_LINES=1` in the environment of the build, the PTX says which
//! source line each instruction was made of: the emulator's messages then name it. It is the line of the function that
//! the instruction stands in; where that was inlined is said by compilers with an LLVM that writes `inlined_at`.

mod arch;
mod build;
mod checks;
mod compile;
mod environment;
mod error;
mod files;
mod kernel;
mod output;
mod process;
mod ptx;
mod ptxas;
mod sources;
mod toolchain;

pub mod setup;

pub use arch::Arch;
pub use build::{Built, Check, KernelBuilder};
pub use error::{BuildError, Complaint, Tried};
pub use kernel::Kernel;
pub use ptxas::Ptxas;
pub use toolchain::Toolchain;
