//! GPU kernels for machine learning, written as Rust tile programs and launched from plain Rust.
//!
//! This crate is the host's side: a [`Device`], its [`Stream`]s, [`Tensor`]s and views of them, and
//! [`ops`], the operators. The kernels are Rust too (the crate `tilewright-device`); they were compiled
//! to PTX when this crate was built and are embedded in it, so nothing but NVIDIA's driver is needed to run. Without a GPU
//! an emulator runs the same PTX on the CPU: see [`Device::default`].
//!
//! ```no_run
//! use tilewright::{Device, Tensor};
//!
//! # fn main() -> tilewright::Result<()> {
//! let device = Device::default()?;
//! let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! assert_eq!(x.view().transpose(0, 1)?.to_vec()?, [1.0, 3.0, 2.0, 4.0]);
//! # Ok(())
//! # }
//! ```
//!
//! [`quant`] makes narrow weights of wide ones or of checkpoints, and packs them for kernels; it needs no device.
//!
//! # What waits and what does not
//!
//! Operators and kernel launches put work on a [`Stream`] and return; they neither allocate nor wait, so they
//! can be captured in a [`Graph`]. Making a [`Tensor`], reading it back and dropping it wait for the device.
//! Work on one stream runs in order; work on different streams is ordered by [`Event`]s alone.
//!
//! # Working with other libraries
//!
//! The CUDA device uses its primary context, as the CUDA runtime does. Memory of cudarc, candle, PyTorch or
//! cust on the same GPU is used through [`TensorView::from_raw_parts`], their streams through [`Stream::from_raw`],
//! and [`Tensor::address`] and [`Stream::raw`] hand out this crate's. Memory that a pool allocates while a stream is captured
//! is known to the driver only when the graph runs: [`TensorView::from_raw_parts_unchecked`].
//!
//! # Kernels of one's own
//!
//! A crate that writes kernels compiles them with `tilewright-builder` in its build script, embeds them with
//! [`include_kernels!`], and launches them through [`Device::kernel`].
//!
//! # Features
//!
//! All are on unless `default-features = false`.
//!
//! - Each operator is one of its name: what is left out is not compiled.
//! - `sm_80`, `sm_90a`: the architectures that the operators' kernels are embedded for. Kernels for `sm_80` run on everything since Ampere;
//!   those for `sm_90a` on Hopper, which needs `sm_80` too for the kernels that have no form of their own there. A program without either
//!   builds, and takes no compiler for kernels; what it then lacks, an operator's error names.
//! - `emulator`: the CPU as a device.
//!
//! Off are `cudarc` and `cust`: views of these crates' memory, and their streams; `dlpack`: tensors from and for other libraries by DLPack; and `nccl`:
//! layers on several GPUs, by NCCL (`parallel`).
#![cfg_attr(
    not(all(
        feature = "attention",
        feature = "conv",
        feature = "dequant_gemm",
        feature = "gemm",
        feature = "mla"
    )),
    allow(dead_code, unused_imports, unused_macros, reason = "some of it is for operators alone")
)]

extern crate self as tilewright;

/// The code in the README and in these pages of the book compiles.
#[cfg(all(doctest, feature = "attention", feature = "dlpack", feature = "gemm", feature = "rows"))]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/start.md")]
    struct Start;
    #[doc = include_str!("../docs/frameworks.md")]
    struct Frameworks;
}

mod backend;
#[cfg(feature = "cudarc")]
pub mod cudarc;
#[cfg(feature = "cust")]
pub mod cust;
mod device;
#[cfg(feature = "dlpack")]
pub mod dlpack;
mod element;
#[cfg(feature = "emulator")]
mod emulated;
mod error;
mod event;
#[cfg(any(feature = "cudarc", feature = "cust"))]
mod foreign;
mod fp8;
mod graph;
mod kernel;
pub mod ops;
#[cfg(feature = "gemm")]
pub mod parallel;
#[cfg(feature = "emulator")]
pub mod profile;
pub mod quant;
#[cfg(any(feature = "gemm", feature = "scaled_gemm"))]
mod scratch;
mod stream;
mod tensor;

pub use device::Device;
pub use element::{DType, Element};
#[cfg(feature = "emulator")]
pub use emulated::EmulatorOptions;
pub use error::{Error, Result};
pub use event::Event;
pub use fp8::{F8E4M3, F8E5M2};
pub use graph::Graph;
pub use half::{bf16, f16};
#[doc(hidden)]
pub use kernel::Fits;
pub use kernel::{
    AnyFunction, Argument, Arguments, Function, KernelEntry, KernelSet, Launch, OrWhereUnreadable, Parameter,
    Takes, ptx,
};
pub use stream::Stream;
pub use tensor::{MAX_RANK, Tensor, TensorView, TensorViewMut};
pub use tilewright_device::include_kernels;
pub use tilewright_device::kernel::{Arch, Described, Instance, Kernel, Listed};
pub use tilewright_device::signature::{SafeKernel, Signature};
#[cfg(feature = "emulator")]
pub use tilewright_emulator::{Limits, Progress};
