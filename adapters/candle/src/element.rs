//! The element types that candle and tilewright both have.

use candle_core::WithDType;

/// An element type of both.
pub(crate) trait Native: tilewright::Element + WithDType + OnCuda {}
impl<T: tilewright::Element + WithDType + OnCuda> Native for T {}

/// An element type of candle's CUDA tensors.
#[cfg(feature = "cuda")]
pub(crate) trait OnCuda:
    candle_core::cuda_backend::CudaDType + candle_core::cuda_backend::cudarc::driver::DeviceRepr
{
}
#[cfg(feature = "cuda")]
impl<T> OnCuda for T where
    T: candle_core::cuda_backend::CudaDType + candle_core::cuda_backend::cudarc::driver::DeviceRepr
{
}

/// Without candle's CUDA device any type will do.
#[cfg(not(feature = "cuda"))]
pub(crate) trait OnCuda {}
#[cfg(not(feature = "cuda"))]
impl<T> OnCuda for T {}

/// Computes `$body` with `$T` the tensor's element type, f16 or bf16.
macro_rules! half {
    ($name:literal $tensor:expr, $T:ident => $body:expr) => {
        match $tensor.dtype() {
            candle_core::DType::F16 => {
                type $T = half::f16;
                $body
            }
            candle_core::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            other => crate::call::refuse($name, format!("of {}", other.as_str()), "of f16 or bf16"),
        }
    };
}
pub(crate) use half;

/// The same of f16, bf16 and f32.
macro_rules! float {
    ($name:literal $tensor:expr, $T:ident => $body:expr) => {
        match $tensor.dtype() {
            candle_core::DType::F16 => {
                type $T = half::f16;
                $body
            }
            candle_core::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            candle_core::DType::F32 => {
                type $T = f32;
                $body
            }
            other => crate::call::refuse($name, format!("of {}", other.as_str()), "of f16, bf16 or f32"),
        }
    };
}
pub(crate) use float;
