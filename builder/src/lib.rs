//! Compiles a crate of GPU kernels to PTX from a build script, and checks the result.
//!
//! A *device crate* is an ordinary Rust library with functions marked `#[kernel]`. It is compiled twice: for the GPU by its own build
//! script, then for the host, where it embeds what the build script wrote, and others take types and constants from it:
//!
//! ```text
//! // build.rs
//! fn main() {
//!     #[cfg(feature = "build")]
//!     {
//!         use tilewright_builder::{Arch, KernelBuilder};
//!         KernelBuilder::this_package().arch(Arch::Sm80).arch(Arch::Sm90a).build_or_exit();
//!     }
//! }
//!
//! // src/lib.rs
//! #[cfg(feature = "build")]
//! pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
//! ```
//!
//! The builder compiles it for the GPU without its default features. One of those is the builder, which is of no use on the inside and
//! would be compiled once more:
//!
//! ```toml
//! [features]
//! default = ["build"]
//! build = ["dep:tilewright-builder"]
//!
//! [build-dependencies]
//! tilewright-builder = { version = "0.1", optional = true }
//! ```
//!
//! An error in the kernels is the builder's: once, in a few lines, with what would be right. What comes after it, the same crate for the
//! host, is not compiled then. The code that launches kernels may stand in the same package, with `#[cfg(target_arch = "nvptx64")]` on what
//! is only for the GPU. [`KernelBuilder::new`] compiles a crate in another folder; that one's host side is then compiled beside
//! it, and rustc has its own, long words for the same errors there.
//!
//! # How it compiles
//!
//! The device crate is compiled by rustc's own NVPTX backend, so it needs a rustc with the sources of its
//! library, 1.95 or later: the one that the environment variable `TILEWRIGHT_RUSTC` names, that of the toolchain which builds (`rustup component add
//! rust-src`), another of rustup's, or a distribution's. The crate around it stays on stable. The kernels' launch bounds are put into the PTX,
//! which rustc cannot do; PTX that would run badly (local memory, spills, serialised `wgmma`) is refused with the
//! kernel's name. The checks that need `ptxas` run where it is at hand: `TILEWRIGHT_PTXAS`, the one that
//! the project's own setup fetched, `CUDA_HOME`, or the path.
//!
//! Crates of one target folder are compiled side by side, as many as cargo's `-j` and the memory allow, each in a folder
//! of its own; what they depend on is compiled once. On Linux, where cargo writes to a terminal, a line there says what is
//! being done.
//!
//! # Packages that carry their kernels
//!
//! A package with a folder `prebuilt`, which [`Built::pack`] writes, is built without that compiler: its build script takes the kernels
//! from there, if they are what the folder's manifest says and were compiled from the package's sources. `TILEWRIGHT_BUILD=source`
//! in the environment of the build compiles them all the same; with `TILEWRIGHT_BUILD=prebuilt` it is an error to have to. What the
//! crate embeds is the same. Architectures that are features, [`KernelBuilder::arch_if`], leave out of a program what it has no use for.
//!
//! # For who works on kernels
//!
//! `device_print!` and `device_assert!` of kernels are code with [`KernelBuilder::debug`] alone, or with `TILEWRIGHT_DEBUG=1` in the
//! environment of the build.
//!
//! With `TILEWRIGHT_SANITIZE=1` in the environment of the build every lane arrives at mbarriers where else one does for its warp: for
//! tools that follow each thread by itself, such as compute-sanitizer's racecheck.
//!
//! rustc compiles all kernels of a crate again when one has changed. [`KernelBuilder::only`], or `TILEWRIGHT_KERNELS=PACKAGE::KERNEL` in the
//! environment of the build, compiles one alone, for who works on it.
//!
//! With [`KernelBuilder::debug_lines`], or `TILEWRIGHT_DEBUG_LINES=1` in the environment of the build, the PTX says which
//! source line each instruction was made of: the emulator's messages then name it, and the calls that led there, down to
//! the kernel's own line. rustc says in DWARF where functions were inlined, which the builder writes into the PTX as `inlined_at`.

mod arch;
mod build;
mod built;
mod checks;
mod compile;
mod dependencies;
mod diagnostics;
mod environment;
mod error;
mod files;
mod kernel;
mod output;
mod prebuilt;
mod process;
mod progress;
mod ptx;
mod ptxas;
mod record;
mod slots;
mod sources;
mod special;
mod toolchain;
mod unchecked;

pub mod setup;

pub use arch::Arch;
pub use build::{Check, KernelBuilder};
pub use built::Built;
pub use error::{BuildError, Complaint, Tried};
pub use kernel::Kernel;
pub use ptxas::{Assembled, Ptxas};
pub use toolchain::Toolchain;
