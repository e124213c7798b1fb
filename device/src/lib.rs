//! Tile primitives of Tilewright: what kernels are written with, the operators' own as anyone's.
//!
//! One crate, compiled twice. For `nvptx64` it is the code of the kernels; for the host it is their
//! types and constants: configurations, arguments, layouts. Everything type-checks on both.
//!
//! - [`arch`]: one thin function per PTX instruction, the only place with inline assembly.
//! - [`layout`]: which thread and register, or which byte, holds an element.
//! - [`quantize`]: how wide weights become narrow ones.
//! - [`tile`]: tiles in global memory, shared memory and registers, and what moves between them. Its page explains how
//!   layouts are inferred.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch, stdarch_nvptx))]
#![cfg_attr(
    target_arch = "nvptx64",
    allow(
        unused_features,
        reason = "entry points are compiled in the crate that is built, not in its dependencies"
    )
)]

extern crate self as tilewright_device;

pub mod abi;
pub mod arch;
#[cfg(not(target_arch = "nvptx64"))]
pub mod embedded;
pub mod kernel;
pub mod layout;
pub mod print;
pub mod quantize;
pub mod signature;
pub mod tile;

pub use half::{bf16, f16};
pub use tilewright_macros::{device_assert, device_print, kernel, kernels};

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: `trap` stops the kernel; it has no preconditions.
    unsafe { core::arch::nvptx::trap() }
}
