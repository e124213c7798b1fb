//! Pointwise operators: functions of elements, copies and transposition, rotary position embedding, gated activations and their gradients,
//! rows by index. Each thread reads all of its pieces before it writes the first of them.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod activation;
mod angle;
mod copies;
mod fp8;
mod functions;
mod gated_units;
mod indexed_rows;
mod list;
mod number;
mod operation;
mod pieces;
mod rope_target;
mod rotary;
mod transposition;

pub use angle::Frequencies;
pub use copies::{CopiedArgs, RANK, copied};
pub use functions::{Computed, ElementwiseArgs, elementwise};
pub use gated_units::{GatedArgs, GatedGradientArgs, gated, gated_gradient};
pub use indexed_rows::{EmbeddingArgs, embedding};
pub use list::{Operator, POINTWISE, PointwiseKernel};
pub use number::Number;
pub use operation::{Binary, Formula, Operation, Ternary, Unary};
pub use pieces::{PieceOrder, Strided};
pub use rope_target::RopeCaches;
pub use rotary::{RopeAppendArgs, RopeArgs, RopeShape, RopeTable, rope, rope_append};
pub use transposition::{Exchanged, TransposedArgs, transposed};

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
