//! The products of a block, in one layout.

use tilewright_device::tile::{Accumulates, Element, Gemm, GemmRegisters, OutputLayout, Swizzle};

/// A policy of the products of a block of 64 tokens with B and C of `N` columns, whose results are left operands of the next ones in
/// registers: C Bᵀ and C Hᵀ, weights times x, xᵀ B.
pub trait Products<T: Element, const N: usize>:
    Gemm<T, 64, 64, N, A = Swizzle<128>, B = Swizzle<128>, D = Self>
    + GemmRegisters<T, 64, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self, R = Self>
    + GemmRegisters<T, 64, N, 64, B = Swizzle<128>, D = Self, R = Self>
    + Accumulates<64, 64>
    + Accumulates<64, N>
    + OutputLayout<64, 64>
{
}

impl<Y, T: Element, const N: usize> Products<T, N> for Y where
    Y: Gemm<T, 64, 64, N, A = Swizzle<128>, B = Swizzle<128>, D = Self>
        + GemmRegisters<T, 64, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Self, R = Self>
        + GemmRegisters<T, 64, N, 64, B = Swizzle<128>, D = Self, R = Self>
        + Accumulates<64, 64>
        + Accumulates<64, N>
        + OutputLayout<64, 64>
{
}
