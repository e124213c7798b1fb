//! What the gemms of a chunk ask of their policies.

use tilewright_device::tile::{
    Accumulates, Element, Gemm, GemmRegisters, OutputLayout, RowsOfWarps, Swizzle,
};

/// Rows of a chunk.
pub const CHUNK: usize = 64;

// In bounds it is a literal: rustc compares no named constants there.

/// A policy that keeps states Sᵀ \[DV, D\] in registers, and multiplies them by what lies in shared memory.
pub trait States<T: Element, const DV: usize, const D: usize>:
    GemmRegisters<T, DV, 64, D, A = Swizzle<128>, B = Swizzle<128>, D = Self, R = Self>
    + GemmRegisters<T, DV, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self, R = Self>
    + GemmRegisters<T, DV, D, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self, R = Self>
    + Accumulates<DV, 64>
    + Accumulates<DV, D>
    + RowsOfWarps<DV, 64, Transposed: OutputLayout<64, DV> + Accumulates<64, DV>>
{
}

impl<Y, T: Element, const DV: usize, const D: usize> States<T, DV, D> for Y where
    Y: GemmRegisters<T, DV, 64, D, A = Swizzle<128>, B = Swizzle<128>, D = Self, R = Self>
        + GemmRegisters<T, DV, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self, R = Self>
        + GemmRegisters<T, DV, D, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self, R = Self>
        + Accumulates<DV, 64>
        + Accumulates<DV, D>
        + RowsOfWarps<DV, 64, Transposed: OutputLayout<64, DV> + Accumulates<64, DV>>
{
}

/// A policy of Q Kᵀ of a chunk, both in shared memory.
pub trait Scores<T: Element, const DK: usize>:
    Gemm<T, 64, 64, DK, A = Swizzle<128>, B = Swizzle<128>, D = Self> + Accumulates<64, 64>
{
}

impl<X, T: Element, const DK: usize> Scores<T, DK> for X where
    X: Gemm<T, 64, 64, DK, A = Swizzle<128>, B = Swizzle<128>, D = Self> + Accumulates<64, 64>
{
}

/// A policy of the products of a chunk that is prepared.
pub trait Prepares<T: Element, const DK: usize>:
    Gemm<T, 64, 64, DK, A = Swizzle<128>, B = Swizzle<128>, D = Self>
    + Gemm<T, 64, DK, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self>
    + Gemm<T, 64, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self>
    + Accumulates<64, 64>
    + Accumulates<64, DK>
{
}

impl<Z, T: Element, const DK: usize> Prepares<T, DK> for Z where
    Z: Gemm<T, 64, 64, DK, A = Swizzle<128>, B = Swizzle<128>, D = Self>
        + Gemm<T, 64, DK, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self>
        + Gemm<T, 64, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self>
        + Accumulates<64, 64>
        + Accumulates<64, DK>
{
}
