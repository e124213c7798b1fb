//! The products of a gradient.

use tilewright_device::layout::Registers;
use tilewright_device::tile::{Accumulates, Element, FragmentLayout, Gemm, GemmRegisters, Swizzle};

use super::side::Weights;
use super::wanted::Wanted;

/// A policy of the products of a tile of `BM` rows with blocks of `BN`, of `D` columns, whose results are left operands of the next ones in
/// registers: S and dP, and P or dS times `R` columns.
pub trait Products<T: Element, const BM: usize, const BN: usize, const D: usize, const R: usize>:
    Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Self>
    + GemmRegisters<T, BM, R, BN, B = Swizzle<128>, D = Self, R = Self>
    + Accumulates<BM, BN>
    + Accumulates<BM, R>
{
}

impl<Y, T: Element, const BM: usize, const BN: usize, const D: usize, const R: usize>
    Products<T, BM, BN, D, R> for Y
where
    Y: Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Self>
        + GemmRegisters<T, BM, R, BN, B = Swizzle<128>, D = Self, R = Self>
        + Accumulates<BM, BN>
        + Accumulates<BM, R>,
{
}

/// A policy of dQ = dS K, of a block of `BN` queries and a tile of `BM` keys of `D` columns.
pub trait AddedProducts<T: Element, const BM: usize, const BN: usize, const D: usize>:
    Gemm<T, BN, D, BM, A = Swizzle<128>, B = Swizzle<128>, D = Self> + Accumulates<BN, D> + 'static
{
}

impl<Z, T: Element, const BM: usize, const BN: usize, const D: usize> AddedProducts<T, BM, BN, D> for Z where
    Z: Gemm<T, BN, D, BM, A = Swizzle<128>, B = Swizzle<128>, D = Self> + Accumulates<BN, D> + 'static
{
}

/// Whether scores may be capped: not where a thread adds dQ up too, and has so many of a block's elements that registers have no room for their slopes.
pub const fn caps<W, Y, T: Element, const BM: usize, const BN: usize, const D: usize>() -> bool
where
    W: Wanted<T, BM, BN, D>,
    Y: FragmentLayout<BM, BN>,
{
    !(W::ADDS && Weights::<T, BM, BN, Y>::MANY)
}

/// Whether a thread has room for what capped scores have added to them, beside their slopes: it has at most 64 of the gradients' elements.
pub const fn adds_to_capped<
    W,
    Y,
    T: Element,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const R: usize,
>() -> bool
where
    W: Wanted<T, BM, BN, D>,
    Y: Products<T, BM, BN, D, R>,
{
    let gradients = W::SCORES as usize + W::VALUES as usize;
    !W::ADDS && gradients * <<Y as FragmentLayout<BM, R>>::Regs<f32> as Registers<f32>>::LEN <= 64
}
