//! What all operators have in common.

mod tensors;
mod workspace;

pub(super) use tensors::{Named, check};
pub(super) use workspace::Workspace;
