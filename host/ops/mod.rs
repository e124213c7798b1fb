//! The operators: each checks its arguments, chooses a kernel, and launches it.
//!
//! | operator | computes |
//! | --- | --- |
//! | [`dequant_gemm()`](dequant_gemm()), [`DequantGemm`] | C = act(alpha A Wᵀ + bias), W of 1 to 8 bits a weight, f16 and bf16 |
//! | [`gemm()`](gemm()), [`Gemm`] | C = act(alpha A B + beta C + bias), batched, f16 and bf16 |
//! | [`attention()`](attention()), [`Attention`] | O = softmax(scale Q Kᵀ + mask) V, f16 and bf16 |
//! | [`mla()`](mla()), [`Mla`] | O = softmax(scale Q Kᵀ) V over a latent cache, f16 and bf16 |

mod attention;
mod dequant_gemm;
mod gemm;
mod mla;
mod workspace;

pub use attention::{Attention, AttentionCandidate, AttentionElement, AttentionPlan, attention};
pub use dequant_gemm::{
    DequantCandidate, DequantElement, DequantGemm, DequantPlan, DeviceWeights, dequant_gemm,
};
pub use gemm::{Activation, Candidate, Gelu, Gemm, GemmInput, GemmOutput, Identity, Plan, Relu, Silu, gemm};
pub use mla::{Mla, MlaCandidate, MlaElement, MlaPlan, mla};

/// The kernels of this crate.
static KERNELS: crate::KernelSet = crate::include_kernels!();

/// The compiled kernels of this crate's operators.
pub fn kernels() -> &'static crate::KernelSet {
    &KERNELS
}
