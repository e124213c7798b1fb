//! The element types that operators compute with.

use crate::quant::HalfType;
use crate::{Element, bf16, f16};

/// Element types that operators read and round to, where they compute in f32: `f16`, `bf16` and `f32`.
pub trait FloatElement: Element + sealed::Float {}

/// Element types that tensor cores multiply at full speed: `f16` and `bf16`.
pub trait HalfElement: FloatElement + sealed::Half {
    /// The type as a value, of the 16-bit types alone.
    const HALF: HalfType;
}

mod sealed {
    pub trait Float {}
    pub trait Half {}
}

macro_rules! types {
    ($($t:ty)*) => { $( impl sealed::Float for $t {} impl FloatElement for $t {} )* };
}
types!(f16 bf16 f32);

macro_rules! halves {
    ($($t:ty: $half:ident)*) => { $(
        impl sealed::Half for $t {}
        impl HalfElement for $t {
            const HALF: HalfType = HalfType::$half;
        }
    )* };
}
halves!(f16: F16 bf16: BF16);
