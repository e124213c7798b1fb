//! When sums of int8 products become numbers.

use tilewright_device::layout::Sum;
use tilewright_device::tile::{
    Fragment, FragmentLayout, Fresh, GemmRegisters, I8x2, Operand, Pending, Rows, Shared, Swizzle,
    Transposed, gemm,
};

/// Pairs of int8 that one gemm is deep.
pub(super) const PAIRS: usize = 64;

/// Whose scales weights have.
pub trait Scaling: Copy + Default + Send + Sync + 'static {
    /// What a tile's sums are.
    type Sum: Sum;
    /// The scales of a part of the depth.
    type Scales<const M: usize, const N: usize, L: FragmentLayout<M, N>>;
    /// True for scales of groups.
    const GROUPS: bool;

    /// The part's scales, if it needs any.
    fn part<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        load: impl FnOnce() -> Rows<f32, M, N, L>,
    ) -> Self::Scales<M, N, L>;

    /// Adds the part's products to the tile's sums.
    fn multiply<Y, const M: usize, const N: usize>(
        weights: Operand<I8x2, M, PAIRS, Y::R>,
        a: Transposed<'_, Shared<I8x2, N, PAIRS, Swizzle<128>>>,
        scales: Self::Scales<M, N, Y::D>,
        sums: Fragment<Self::Sum, M, N, Y::D>,
    ) -> impl Pending<Done = Fragment<Self::Sum, M, N, Y::D>> + use<Self, Y, M, N>
    where
        Y: GemmRegisters<I8x2, M, N, PAIRS, i32, B = Swizzle<128>>;

    /// The sums over all of the depth as numbers.
    fn finish<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        sums: Fragment<Self::Sum, M, N, L>,
    ) -> Fragment<f32, M, N, L>;
}

/// One scale a row: the sums over all of the depth are exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfRows;

/// A scale for each group of 128: its sum is exact, and scaled sums are added in f32.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfGroups;

impl Scaling for OfRows {
    type Sum = i32;
    type Scales<const M: usize, const N: usize, L: FragmentLayout<M, N>> = ();
    const GROUPS: bool = false;

    #[inline(always)]
    fn part<const M: usize, const N: usize, L: FragmentLayout<M, N>>(_: impl FnOnce() -> Rows<f32, M, N, L>) {
    }

    #[inline(always)]
    fn multiply<Y, const M: usize, const N: usize>(
        weights: Operand<I8x2, M, PAIRS, Y::R>,
        a: Transposed<'_, Shared<I8x2, N, PAIRS, Swizzle<128>>>,
        (): (),
        sums: Fragment<i32, M, N, Y::D>,
    ) -> impl Pending<Done = Fragment<i32, M, N, Y::D>> + use<Y, M, N>
    where
        Y: GemmRegisters<I8x2, M, N, PAIRS, i32, B = Swizzle<128>>,
    {
        gemm(Y::default(), weights, a, sums)
    }

    #[inline(always)]
    fn finish<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        sums: Fragment<i32, M, N, L>,
    ) -> Fragment<f32, M, N, L> {
        sums.map(|sum| sum as f32)
    }
}

impl Scaling for OfGroups {
    type Sum = f32;
    type Scales<const M: usize, const N: usize, L: FragmentLayout<M, N>> = Rows<f32, M, N, L>;
    const GROUPS: bool = true;

    #[inline(always)]
    fn part<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        load: impl FnOnce() -> Rows<f32, M, N, L>,
    ) -> Rows<f32, M, N, L> {
        load()
    }

    #[inline(always)]
    fn multiply<Y, const M: usize, const N: usize>(
        weights: Operand<I8x2, M, PAIRS, Y::R>,
        a: Transposed<'_, Shared<I8x2, N, PAIRS, Swizzle<128>>>,
        scales: Rows<f32, M, N, Y::D>,
        sums: Fragment<f32, M, N, Y::D>,
    ) -> impl Pending<Done = Fragment<f32, M, N, Y::D>> + use<Y, M, N>
    where
        Y: GemmRegisters<I8x2, M, N, PAIRS, i32, B = Swizzle<128>>,
    {
        gemm(Y::default(), weights, a, Fresh::<Y::D, i32>::new()).then(
            #[inline(always)]
            move |group| {
                sums.zip(&group.map(|sum| sum as f32).zip_rows(&scales, |x, scale| x * scale), |sum, x| {
                    sum + x
                })
            },
        )
    }

    #[inline(always)]
    fn finish<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        sums: Fragment<f32, M, N, L>,
    ) -> Fragment<f32, M, N, L> {
        sums
    }
}
