//! What row-wise operators have in common: rows of tensors of any shape and strides, and the choice among their kernels.

mod choose;
mod matrices;
mod prepared;
#[cfg(test)]
mod tests;

pub(super) use super::FloatElement;
pub(super) use choose::{Compiled, Selection};
pub(super) use matrices::{Matrices, Operand};
pub(super) use prepared::{Planned, Prepared, Tensor};
