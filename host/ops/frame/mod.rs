//! What all operators have in common: the tensors of a call are checked, the kernels rated, one chosen, its workspace found.
//!
//! It serves operators outside of this crate too. One supplies
//!
//! - the description of its kernels, of which [`kernels!`](tilewright_device::kernels) makes the table: [`Rated`];
//! - its checks: [`check`] for the tensors, and what else its arguments must be;
//! - its estimate, and the reasons for which a kernel cannot compute a call: [`Choice`].
//!
//! It gets candidates in the order of preference, plans that explain themselves, kernels that are forced by name, and messages
//! that read as those of the others.

#[cfg(any(
    feature = "attention",
    feature = "gemm",
    feature = "rows",
    feature = "scaled_gemm",
    feature = "ssd"
))]
mod absent;
#[cfg(any(feature = "conv", feature = "gemm", feature = "scaled_gemm"))]
mod alike;
mod candidate;
mod choice;
mod descriptor;
#[cfg(any(feature = "dequant_gemm", feature = "gemm", feature = "scaled_gemm"))]
mod number;
mod operand;
mod plan;
mod rejection;
mod table;
#[cfg(any(feature = "dequant_gemm", feature = "gemm", feature = "scaled_gemm"))]
mod tile_parts;
#[cfg(any(feature = "attention", feature = "mla", feature = "scaled_gemm"))]
mod units;
mod workspace;

pub use crate::tensor::{Named, check, of_shape};
pub(super) use crate::tensor::{Operands, PLANNED_ROOM, Places, of_address};
#[cfg(any(
    feature = "attention",
    feature = "gemm",
    feature = "rows",
    feature = "scaled_gemm",
    feature = "ssd"
))]
pub(super) use absent::absent;
#[cfg(any(feature = "conv", feature = "gemm", feature = "scaled_gemm"))]
pub(super) use alike::{MOST_ALIKE, alike};
pub use candidate::Candidate;
pub use choice::Choice;
pub use descriptor::{Cycles, Descriptor, Estimate, Rated};
#[cfg(any(feature = "dequant_gemm", feature = "gemm", feature = "scaled_gemm"))]
use number::launch_number;
pub(super) use operand::{Copies, Operand, PIECE, expect_mapped};
pub use plan::Plan;
pub(super) use plan::explained;
pub use rejection::Rejection;
pub use table::Table;
#[cfg(any(feature = "dequant_gemm", feature = "gemm", feature = "scaled_gemm"))]
pub(super) use tile_parts::TileParts;
#[cfg(feature = "gemm")]
pub(super) use tile_parts::whole_tiles;
#[cfg(any(feature = "mla", feature = "scaled_gemm"))]
pub(super) use units::UNIT;
#[cfg(any(feature = "attention", feature = "mla", feature = "scaled_gemm"))]
pub(super) use units::units;
pub(super) use workspace::{Workspace, room};
