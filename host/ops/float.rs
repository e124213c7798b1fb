//! The element types that operators compute with.

use crate::quant::HalfType;
use crate::{Element, F8E4M3, bf16, f16};

/// Element types that operators read and round to, where they compute in f32: `f16`, `bf16` and `f32`.
pub trait FloatElement: Element + sealed::Float {}

/// Element types that tensor cores multiply at full speed: `f16` and `bf16`.
pub trait HalfElement: FloatElement + CacheElement<Self> + LatentElement<Self> + sealed::Half {
    /// The type as a value, of the 16-bit types alone.
    const HALF: HalfType;
}

/// Element types of the keys and values that queries of `T` attend to: `T`, and codes of 8 bits, [`F8E4M3`] and `i8`, whose values scales multiply.
pub trait CacheElement<T>: Element + sealed::Cache<T> {}

/// Element types of the latent cache that queries of `T` attend to: `T`, and for `bf16` bytes, `u8`, of which 656 are a token.
pub trait LatentElement<T>: Element + sealed::Latent<T> {}

mod sealed {
    pub trait Cache<T> {}
    pub trait Float {}
    pub trait Half {}
    pub trait Latent<T> {}
}

macro_rules! types {
    ($($t:ty)*) => { $( impl sealed::Float for $t {} impl FloatElement for $t {} )* };
}
types!(f16 bf16 f32);

macro_rules! caches {
    ($of:ty: $($t:ty)*) => { $(
        impl sealed::Cache<$of> for $t {}
        impl CacheElement<$of> for $t {}
    )* };
}
macro_rules! latents {
    ($of:ty: $($t:ty)*) => { $(
        impl sealed::Latent<$of> for $t {}
        impl LatentElement<$of> for $t {}
    )* };
}
latents!(f16: f16);
latents!(bf16: bf16 u8);

macro_rules! halves {
    ($($t:ty: $half:ident)*) => { $(
        impl sealed::Half for $t {}
        caches!($t: $t F8E4M3 i8);
        impl HalfElement for $t {
            const HALF: HalfType = HalfType::$half;
        }
    )* };
}
halves!(f16: F16 bf16: BF16);
