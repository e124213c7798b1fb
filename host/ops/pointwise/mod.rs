//! What pointwise operators have in common: the order of their pieces, and the choice between vectors and single elements.

mod choose;
mod pieces;
mod prepared;

pub(super) use choose::{Call, Compiled, Options, SINGLE, estimate, kernels, launch, launch_ctas, skewed};
pub use choose::{PointwiseCandidate, PointwisePlan};
pub(super) use pieces::{Lies, Operand, Pieces};
pub(super) use prepared::{Prepared, placed};
