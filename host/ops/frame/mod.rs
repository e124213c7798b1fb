//! What all operators have in common: the tensors of a call are checked, the kernels rated, one chosen, its workspace found.
//!
//! An operator supplies its descriptors of kernels ([`Descriptor`]), its own checks and its estimate ([`Choice`]).

mod candidate;
mod choice;
mod descriptor;
mod operand;
mod plan;
mod rejection;
mod table;
mod tensors;
mod workspace;

pub use candidate::Candidate;
pub(super) use choice::Choice;
pub use descriptor::{Descriptor, Estimate};
pub(super) use operand::{Copies, Operand, PIECE, expect_mapped};
pub use plan::Plan;
pub(super) use rejection::Rejection;
pub(super) use table::Table;
pub(super) use tensors::{Named, check, of_shape};
pub(super) use workspace::Workspace;
