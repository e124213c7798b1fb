//! The operators: each checks its arguments, chooses a kernel, and launches it.
//!
//! | operator | computes |
//! | --- | --- |
//! | [`dequant_gemm()`](dequant_gemm()), [`DequantGemm`] | C = act(alpha A Wᵀ + bias), W of 1 to 8 bits a weight, f16 and bf16 |
//! | [`dequant_gemm_int8()`](dequant_gemm_int8()), [`DequantGemmInt8`] | C = act(tokens A (q scales)ᵀ + bias), or the exact sums, A of int8, q integers of 2 to 8 bits |
//! | [`gemm()`](gemm()), [`Gemm`] | C = act(alpha A B + beta C + bias), batched, f16 and bf16 |
//! | [`attention()`](attention()), [`Attention`] | O = softmax(scale Q Kᵀ + mask) V, f16 and bf16 |
//! | [`mla()`](mla()), [`Mla`] | O = softmax(scale Q Kᵀ) V over a latent cache, f16 and bf16 |

mod activation;
mod attention;
mod dequant_gemm;
mod frame;
mod gemm;
mod mla;
mod scores;

pub use activation::Activation;
pub use attention::{Attention, AttentionCandidate, AttentionElement, AttentionPlan, attention};
pub use dequant_gemm::{
    DequantCandidate, DequantElement, DequantGemm, DequantGemmInt8, DequantPlan, DeviceWeights, Int8Output,
    dequant_gemm, dequant_gemm_int8,
};
pub use frame::{Candidate, Plan};
pub use gemm::{Gemm, GemmCandidate, GemmInput, GemmOutput, GemmPlan, gemm};
pub use mla::{Mla, MlaCandidate, MlaElement, MlaPlan, mla};

/// The kernels of this crate.
static KERNELS: crate::KernelSet = crate::include_kernels!();

/// The compiled kernels of this crate's operators.
pub fn kernels() -> &'static crate::KernelSet {
    &KERNELS
}
