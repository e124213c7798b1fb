//! What pointwise operators have in common: the order of their pieces, and the choice between vectors and single elements.

mod choose;
mod pieces;

pub use choose::PointwisePlan;
pub(super) use choose::{Call, Options, launch};
pub(super) use pieces::{Lies, Operand, Pieces};
