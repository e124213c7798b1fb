//! The operators: each checks its arguments, chooses a kernel, and launches it. [`warm_up`] loads their kernels ahead.
//!
//! | operator | computes |
//! | --- | --- |
//! | [`dequant_gemm()`](dequant_gemm()), [`DequantGemm`] | C = act(alpha A Wᵀ + bias), W of 1 to 8 bits a weight, f16 and bf16 |
//! | [`dequant_gemm_int8()`](dequant_gemm_int8()), [`DequantGemmInt8`] | C = act(tokens A (q scales)ᵀ + bias), or the exact sums, A of int8, q integers of 2 to 8 bits |
//! | [`conv()`](conv()), [`Conv`], [`ConvGradient`] | y = act(x ∗ w + bias + residual) of images, sequences and volumes, and its gradients, f16 and bf16; depthwise f32 |
//! | [`scaled_gemm()`](scaled_gemm()), [`ScaledGemm`] | C = act(alpha scales A Bᵀ + bias), A and B of e4m3, e5m2, int8 or f32, as tf32 or nearly in full precision |
//! | [`gemm()`](gemm()), [`Gemm`] | C = act(alpha A B + beta C + bias), batched, f16, bf16 and f32 |
//! | [`grouped_gemm()`](grouped_gemm()), [`GroupedGemm`] | C's rows of group g = A's rows of group g, times B\[g\], f16 and bf16: a product for each expert |
//! | [`grouped_dequant_gemm()`](grouped_dequant_gemm()), [`GroupedDequantGemm`] | the same with narrow weights of 4 and 8 bits |
//! | [`grouped_scaled_gemm()`](grouped_scaled_gemm()), [`GroupedScaledGemm`] | the same of 8-bit floats with scales of blocks |
//! | [`k_grouped_gemm()`](k_grouped_gemm()), [`KGroupedGemm`] | C\[g\] = A's rows of group g, transposed, times B's: the gradient by each expert's matrix |
//! | [`Moe`] | layers of experts with gated units: router, products and sums, f16 and bf16 |
//! | [`group_order`], [`group_combine`] | the order that brings rows into groups, and the weighted sums of what groups made of them |
//! | [`attention()`](attention()), [`Attention`], [`AttentionGradient`] | O = softmax(scale Q Kᵀ + mask) V and its gradients, f16 and bf16; decoding over caches of e4m3 and int8 too |
//! | [`causal_conv1d()`](causal_conv1d()), [`CausalConv1d`], [`CausalConv1dGradient`] | depthwise causal convolution of sequences, its step of one token and its gradients, f16, bf16, f32 |
//! | [`Ssd`], [`SsdStep`], [`SsdGradient`] | Mamba-2's state-space scan, its step of one token and its gradients, f16, bf16 |
//! | [`linear_attention()`](linear_attention()), [`LinearAttention`], [`LinearAttentionGradient`] | attention by a state: linear attention, retention, gates of rows or channels, the delta rule, steps; gradients of all but the delta rule; f16 and bf16 |
//! | [`mla()`](mla()), [`Mla`] | O = softmax(scale Q Kᵀ) V over a latent cache, f16 and bf16 |
//! | [`cross_entropy()`](cross_entropy()), [`CrossEntropy`] | losses of rows of logits and their gradient in one pass, f16, bf16, f32 |
//! | [`rms_norm`], [`layer_norm`], [`Norm`], [`NormGradient`] | RMSNorm and LayerNorm of rows, with weight, bias and residual addition, and their gradients, f16, bf16, f32 |
//! | [`reduce()`](reduce()), [`Reduce`] | sum, mean, maximum, minimum, product and norm over any dimensions, f16, bf16, f32 |
//! | [`argmax()`](argmax()), [`Argmax`] | the places of the largest elements over a dimension, or of the least, f16, bf16, f32 |
//! | [`elementwise()`](elementwise()), [`Elementwise`] | functions of the elements of one to three tensors, f16, bf16, f32 |
//! | [`cast()`](cast()), [`Cast`] | conversions between f16, bf16, f32, e4m3, e5m2, i8, u8 and i32 |
//! | [`copy`], [`transpose()`](transpose()), [`Transpose`] | dimensions in another order, other strides, any element type |
//! | [`embedding()`](embedding()), [`Embedding`] | rows of a table by index, f16, bf16, f32 |
//! | [`swiglu`], [`geglu`], [`Gated`] | act(gate) up and its gradients, f16, bf16, f32 |
//! | [`rope()`](rope()), [`Rope`] | rotary position embedding of q and k and its inverse, f16, bf16, f32 |
//! | [`top_k()`](top_k()), [`TopK`] | the largest elements of rows, or the least, with their places, f16, bf16, f32 |
//! | [`softmax()`](softmax()), [`log_softmax`], [`Softmax`] | softmax of rows or its logarithm, with masks, and its gradient, f16, bf16, f32 |
#![cfg_attr(
    not(all(
        feature = "attention",
        feature = "conv",
        feature = "dequant_gemm",
        feature = "gemm",
        feature = "grouped_gemm",
        feature = "linear_attention",
        feature = "mla",
        feature = "pointwise",
        feature = "reduce",
        feature = "rows",
        feature = "scaled_gemm",
        feature = "ssd"
    )),
    allow(rustdoc::broken_intra_doc_links, reason = "operators whose features are off have no pages")
)]

#[cfg(feature = "reduce")]
mod argmax;
#[cfg(feature = "attention")]
mod attention;
#[cfg(feature = "pointwise")]
mod cast;
#[cfg(feature = "ssd")]
mod causal_conv1d;
#[cfg(feature = "conv")]
mod conv;
#[cfg(feature = "rows")]
mod cross_entropy;
#[cfg(feature = "dequant_gemm")]
mod dequant_gemm;
#[cfg(feature = "pointwise")]
mod elementwise;
#[cfg(feature = "pointwise")]
mod embedding;
mod float;
pub mod frame;
#[cfg(feature = "pointwise")]
mod gated;
#[cfg(feature = "gemm")]
mod gemm;
#[cfg(feature = "grouped_gemm")]
mod grouped_gemm;
#[cfg(any(feature = "dequant_gemm", feature = "grouped_gemm", feature = "scaled_gemm"))]
mod groups;
#[cfg(any(feature = "pointwise", feature = "reduce", feature = "rows"))]
mod index;
#[cfg(any(
    feature = "attention",
    feature = "dequant_gemm",
    feature = "grouped_gemm",
    feature = "linear_attention",
    feature = "mla",
    feature = "pointwise",
    feature = "scaled_gemm",
    feature = "ssd"
))]
mod indices;
#[cfg(feature = "linear_attention")]
mod linear_attention;
#[cfg(feature = "mla")]
mod mla;
#[cfg(all(feature = "grouped_gemm", feature = "pointwise", feature = "reduce", feature = "rows"))]
mod moe;
#[cfg(feature = "rows")]
mod norm;
#[cfg(feature = "pointwise")]
mod pointwise;
#[cfg(feature = "reduce")]
mod reduce;
#[cfg(feature = "pointwise")]
mod rope;
#[cfg(feature = "rows")]
mod rows;
#[cfg(any(feature = "gemm", feature = "pointwise", feature = "reduce", feature = "rows"))]
mod runs;
#[cfg(feature = "scaled_gemm")]
mod scaled_gemm;
#[cfg(any(feature = "attention", feature = "linear_attention", feature = "mla"))]
mod scores;
#[cfg(feature = "rows")]
mod softmax;
#[cfg(feature = "ssd")]
mod ssd;
#[cfg(feature = "reduce")]
mod top_k;
#[cfg(feature = "pointwise")]
mod transpose;
mod tuner;
mod warm_up;

#[cfg(feature = "reduce")]
pub use argmax::{Argmax, ArgmaxCandidate, ArgmaxPlan, argmax};
#[cfg(feature = "attention")]
pub use attention::{
    Attention, AttentionBias, AttentionBiasMut, AttentionCandidate, AttentionGradient,
    AttentionGradientCandidate, AttentionGradientPlan, AttentionGradientViews, AttentionMerge,
    AttentionMergeCandidate, AttentionMergePlan, AttentionPlan, AttentionState, AttentionViews,
    ScaledAttention, ScaledAttentionCandidate, ScaledAttentionPlan, ScaledAttentionViews, attention,
    merge_attention,
};
#[cfg(feature = "pointwise")]
pub use cast::{Cast, CastElement, cast};
#[cfg(feature = "ssd")]
pub use causal_conv1d::{
    CausalConv1d, CausalConv1dCandidate, CausalConv1dGradient, CausalConv1dPlan, CausalConv1dViews,
    causal_conv1d,
};
#[cfg(feature = "conv")]
pub use conv::{
    Conv, ConvCandidate, ConvFiltersPlan, ConvGradient, ConvImagesPlan, ConvPlan, ConvViews, conv,
};
#[cfg(feature = "rows")]
pub use cross_entropy::{CrossEntropy, CrossEntropyCandidate, CrossEntropyPlan, cross_entropy};
#[cfg(feature = "dequant_gemm")]
pub use dequant_gemm::{
    DequantCandidate, DequantGemm, DequantGemmInt8, DequantPlan, DequantViews, DeviceWeights,
    GroupedDequantCandidate, GroupedDequantGemm, GroupedDequantPlan, Int8Output, WeightFacts, WeightMemory,
    dequant_gemm, dequant_gemm_int8, grouped_dequant_gemm,
};
#[cfg(feature = "pointwise")]
pub use elementwise::{Elementwise, elementwise};
#[cfg(feature = "pointwise")]
pub use embedding::{Embedding, embedding};
pub use float::{CacheElement, FloatElement, HalfElement, LatentElement};
pub use frame::{Candidate, Plan};
#[cfg(feature = "pointwise")]
pub use gated::{Gated, GatedGradientPlan, GatedPlan, geglu, swiglu};
#[cfg(feature = "gemm")]
pub use gemm::{Gemm, GemmCandidate, GemmInput, GemmPlan, GemmViews, gemm};
#[cfg(feature = "grouped_gemm")]
pub use grouped_gemm::{
    GroupedGemm, GroupedGemmCandidate, GroupedGemmPlan, GroupedGemmViews, KGroupedGemm,
    KGroupedGemmCandidate, KGroupedGemmPlan, group_combine, group_order, grouped_gemm, k_grouped_gemm,
};
#[cfg(any(feature = "dequant_gemm", feature = "grouped_gemm", feature = "scaled_gemm"))]
pub use groups::GroupRows;
#[cfg(any(feature = "pointwise", feature = "reduce", feature = "rows"))]
pub use index::IndexElement;
#[cfg(any(
    feature = "attention",
    feature = "dequant_gemm",
    feature = "grouped_gemm",
    feature = "linear_attention",
    feature = "mla",
    feature = "pointwise",
    feature = "scaled_gemm",
    feature = "ssd"
))]
pub use indices::Indices;
#[cfg(feature = "linear_attention")]
pub use linear_attention::{
    LinearAttention, LinearAttentionCandidate, LinearAttentionGradient, LinearAttentionGradientCandidate,
    LinearAttentionGradientPlan, LinearAttentionPlan, LinearAttentionStepPlan, LinearAttentionViews,
    linear_attention,
};
#[cfg(feature = "mla")]
pub use mla::{
    IndexScores, IndexScoresCandidate, IndexerElement, Mla, MlaCandidate, MlaPlan, MlaViews, append_latent,
    mla,
};
#[cfg(all(feature = "grouped_gemm", feature = "pointwise", feature = "reduce", feature = "rows"))]
pub use moe::{Experts, Moe};
#[cfg(feature = "rows")]
pub use norm::{
    Norm, NormCandidate, NormGradient, NormGradientPlan, NormGradientViews, NormPlan, NormViews, layer_norm,
    rms_norm,
};
#[cfg(feature = "pointwise")]
pub use pointwise::{PointwiseCandidate, PointwisePlan};
#[cfg(feature = "reduce")]
pub use reduce::{Reduce, ReduceCandidate, ReducePlan, ReducedFrom, Reduction, reduce};
#[cfg(feature = "pointwise")]
pub use rope::{Pairs, Rope, RopePlan, RopeViews, rope};
#[cfg(feature = "scaled_gemm")]
pub use scaled_gemm::{
    BlockScaled, GroupedScaledGemm, GroupedScaledGemmCandidate, GroupedScaledGemmPlan, ScaledGemm,
    ScaledGemmCandidate, ScaledGemmPlan, ScaledGemmViews, ScaledInput, ScaledOutput, grouped_scaled_gemm,
    scaled_gemm,
};
#[cfg(feature = "rows")]
pub use softmax::{Softmax, SoftmaxCandidate, SoftmaxGradientPlan, SoftmaxPlan, log_softmax, softmax};
#[cfg(feature = "ssd")]
pub use ssd::{
    Ssd, SsdCandidate, SsdGradient, SsdGradientCandidate, SsdGradientPlan, SsdPlan, SsdStep,
    SsdStepCandidate, SsdStepPlan, SsdStepViews, SsdViews,
};
#[cfg(any(
    feature = "dequant_gemm",
    feature = "gemm",
    feature = "grouped_gemm",
    feature = "pointwise",
    feature = "scaled_gemm"
))]
pub use tilewright_device::tile::Activation;
#[cfg(feature = "pointwise")]
pub use tilewright_pointwise::{Binary, Formula, Ternary, Unary};
#[cfg(feature = "reduce")]
pub use top_k::{TopK, TopKCandidate, TopKPlan, top_k};
#[cfg(feature = "pointwise")]
pub use transpose::{Transpose, copy, transpose};
pub use tuner::{Measured, Tuner, Tuning};
pub use warm_up::warm_up;

/// The operators' kernels, by operator.
static SETS: &[&crate::KernelSet] = &[
    #[cfg(feature = "attention")]
    &tilewright_attention::KERNELS,
    #[cfg(feature = "conv")]
    &tilewright_conv::KERNELS,
    #[cfg(feature = "dequant_gemm")]
    &tilewright_dequant_gemm::KERNELS,
    #[cfg(feature = "gemm")]
    &tilewright_gemm::KERNELS,
    #[cfg(feature = "grouped_gemm")]
    &tilewright_grouped_gemm::KERNELS,
    #[cfg(feature = "linear_attention")]
    &tilewright_linear_attention::KERNELS,
    #[cfg(feature = "mla")]
    &tilewright_mla::KERNELS,
    #[cfg(feature = "pointwise")]
    &tilewright_pointwise::KERNELS,
    #[cfg(feature = "reduce")]
    &tilewright_reduce::KERNELS,
    #[cfg(feature = "rows")]
    &tilewright_rows::KERNELS,
    #[cfg(feature = "scaled_gemm")]
    &tilewright_scaled_gemm::KERNELS,
    #[cfg(feature = "ssd")]
    &tilewright_ssd::KERNELS,
];

/// The compiled kernels of this crate's operators.
pub fn kernels() -> impl Iterator<Item = &'static crate::KernelEntry> {
    SETS.iter().flat_map(|set| set.entries())
}
