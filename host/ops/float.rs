//! The element types of operators that compute in f32.

use crate::{Element, bf16, f16};

/// Element types of row-wise and pointwise operators: `f16`, `bf16` and `f32`.
pub trait RowsElement: Element + sealed::Rows {}

mod sealed {
    pub trait Rows {}
}

macro_rules! types {
    ($($t:ty)*) => { $( impl sealed::Rows for $t {} impl RowsElement for $t {} )* };
}
types!(f16 bf16 f32);
