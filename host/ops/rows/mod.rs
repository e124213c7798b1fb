//! What row-wise operators have in common: rows of tensors of any shape and strides, and the choice among their kernels.

mod choose;
mod matrices;
#[cfg(test)]
mod tests;

pub(super) use choose::{Compiled, Selection};
pub(super) use matrices::{Matrices, Operand, absent};

use crate::{Element, bf16, f16};

/// Element types of row-wise operators: `f16`, `bf16` and `f32`.
pub trait RowsElement: Element + sealed::Rows {}

mod sealed {
    pub trait Rows {}
}

macro_rules! types {
    ($($t:ty)*) => { $( impl sealed::Rows for $t {} impl RowsElement for $t {} )* };
}
types!(f16 bf16 f32);
