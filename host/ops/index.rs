//! The element types of indices.

use crate::Element;

/// Element types of indices, labels and places: `i32`, `u32` and `i64`.
pub trait IndexElement: Element + sealed::Index {}

mod sealed {
    pub trait Index {}
}

macro_rules! types {
    ($($t:ty)*) => { $( impl sealed::Index for $t {} impl IndexElement for $t {} )* };
}
types!(i32 u32 i64);
