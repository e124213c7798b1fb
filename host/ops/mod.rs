//! The operators: each checks its arguments, chooses a kernel, and launches it.
//!
//! | operator | computes |
//! | --- | --- |
//! | [`gemm()`](gemm()), [`Gemm`] | C = act(alpha A B + beta C + bias), batched, f16 and bf16 |
//! | [`attention()`](attention()), [`Attention`] | O = softmax(scale Q Kᵀ + mask) V, f16 and bf16 |
//! | [`mla()`](mla()), [`Mla`] | O = softmax(scale Q Kᵀ) V over a latent cache, f16 and bf16 |

mod attention;
mod gemm;
mod mla;
mod workspace;

pub use attention::{Attention, AttentionCandidate, AttentionElement, AttentionPlan, attention};
pub use gemm::{Activation, Candidate, Gelu, Gemm, GemmInput, GemmOutput, Identity, Plan, Relu, Silu, gemm};
pub use mla::{Mla, MlaCandidate, MlaElement, MlaPlan, mla};

/// The kernels of this crate.
static KERNELS: crate::KernelSet = crate::include_kernels!();

/// The compiled kernels of this crate's operators.
pub fn kernels() -> &'static crate::KernelSet {
    &KERNELS
}
