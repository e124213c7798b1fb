//! Two products in a row, the first one's result the second one's left operand in registers.

use crate::layout::{Element, FragmentLayout};
use crate::tile::epilogue::output::OutputLayout;
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::gemm::{Gemm, GemmRegisters};

/// A policy by which D = A B of \[M, K\] and \[K, N\] becomes the left operand of a product with \[N, V\], in registers: attention.
/// `DEPTH` is that of the second product, N, or of pairs of bytes half of it.
///
/// The scores, their rows' statistics and the second accumulator lie alike; nothing moves between threads.
#[diagnostic::on_unimplemented(
    message = "policy `{Self}` cannot chain a {M} x {N} x {K} gemm of `{T}` and one with {V} columns",
    note = "each warp needs whole rows of the scores: use a FullRow policy"
)]
pub trait ChainedGemm<
    T: Element,
    const M: usize,
    const N: usize,
    const K: usize,
    const V: usize,
    const DEPTH: usize = N,
>:
    Gemm<T, M, N, K, D = Self>
    + GemmRegisters<T, M, V, DEPTH, D = Self, R = Self>
    + Accumulates<M, N>
    + Accumulates<M, V>
    + OutputLayout<M, V>
    + FragmentLayout<M, DEPTH>
    + FragmentLayout<M, V, Rows<f32> = <Self as FragmentLayout<M, N>>::Rows<f32>>
{
}

impl<Y, T: Element, const M: usize, const N: usize, const K: usize, const V: usize, const DEPTH: usize>
    ChainedGemm<T, M, N, K, V, DEPTH> for Y
where
    Y: Gemm<T, M, N, K, D = Self>
        + GemmRegisters<T, M, V, DEPTH, D = Self, R = Self>
        + Accumulates<M, N>
        + Accumulates<M, V>
        + OutputLayout<M, V>
        + FragmentLayout<M, DEPTH>
        + FragmentLayout<M, V, Rows<f32> = <Self as FragmentLayout<M, N>>::Rows<f32>>,
{
}
