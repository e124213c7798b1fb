//! Where the scales of groups enter.

use core::marker::PhantomData;

use tilewright_device::tile::{
    Decode, Fill, Fragment, Fresh, Gemm, GemmRegisters, Half, Loads, Quantized, Ring, Schedule, Shared,
    Swizzle, Weights, Zeros, ZerosFirst, gemm,
};

use super::policy::Policy;
use crate::stream::CHUNK;

/// What scales multiply: the main loop of a tile of `BM` rows of W and `BN` of A, `BK` deep.
pub trait Scaling<Y, F, Z: Zeros, T: Half, const BM: usize, const BN: usize, const BK: usize>:
    Copy + Default + Send + Sync + 'static
where
    Y: Gemm<T, BM, BN, 64>,
{
    /// True if groups must be multiples of [`CHUNK`] along K, or whole rows.
    const SUMS: bool;

    /// The products' sum over `count` stages, with scales.
    fn multiply<P, I, L, const N: usize>(
        weights: Weights<F, Z, T>,
        stages: Loads<'_, P, N, false, I, L>,
        count: u32,
        w: &Ring<Quantized<F, Z, T, BM, BK>, N>,
        a: &Ring<Shared<T, BN, BK, Swizzle<128>>, N>,
    ) -> Fragment<f32, BM, BN, Y::D>
    where
        P: Schedule,
        I: Iterator<Item = u32>,
        L: for<'s> FnMut(Fill<'s, P, N>, u32);
}

/// Weights: each is decoded to what it stands for, rounded to the activations' type, as far ahead as `A` says.
///
/// With `PLAIN`, plain weights get a loop of their own: where instructions are the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfWeights<A, const PLAIN: bool = false>(PhantomData<A>);

/// Sums of [`CHUNK`] along K, of `R` rows at a time, 64 for each warpgroup: weights are decoded to their codes' values.
///
/// For few rows of A a sum's scaling takes fewer instructions than the weights'.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfSums<const R: usize>;

impl<Y, F, Z, T, A, const PLAIN: bool, const BM: usize, const BN: usize, const BK: usize>
    Scaling<Y, F, Z, T, BM, BN, BK> for OfWeights<A, PLAIN>
where
    A: Policy,
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>>,
    F: Decode<T>,
    Z: Zeros,
    T: Half,
{
    const SUMS: bool = false;

    #[inline(always)]
    fn multiply<P, I, L, const N: usize>(
        weights: Weights<F, Z, T>,
        mut stages: Loads<'_, P, N, false, I, L>,
        count: u32,
        w: &Ring<Quantized<F, Z, T, BM, BK>, N>,
        a: &Ring<Shared<T, BN, BK, Swizzle<128>>, N>,
    ) -> Fragment<f32, BM, BN, Y::D>
    where
        P: Schedule,
        I: Iterator<Item = u32>,
        L: for<'s> FnMut(Fill<'s, P, N>, u32),
    {
        weights.if_plain(
            PLAIN,
            #[inline(always)]
            |plain| {
                stages.run_gemms(
                    count,
                    (BK / 64) as u32,
                    A::ahead(plain),
                    Fragment::<f32, BM, BN, _>::zero(),
                    #[inline(always)]
                    |s, part| weights.dequantize(w.at(s), part, plain),
                    #[inline(always)]
                    |operand, s, part, acc| gemm(Y::default(), operand, a.at(s).span::<64>(part).t(), acc),
                )
            },
        )
    }
}

/// Depth of one sum.
const DEPTH: usize = CHUNK as usize;

/// How all rows of the tile lie as a left operand.
type Tile<Y, T, const BM: usize, const BN: usize> = <Y as GemmRegisters<T, BM, BN, 64>>::R;

impl<Y, F, Z, T, const R: usize, const BM: usize, const BN: usize> Scaling<Y, F, Z, T, BM, BN, DEPTH>
    for OfSums<R>
where
    Y: GemmRegisters<T, BM, BN, 64> + GemmRegisters<T, R, BN, DEPTH, B = Swizzle<128>>,
    F: Decode<T>,
    Z: ZerosFirst,
    T: Half,
{
    const SUMS: bool = true;

    #[inline(always)]
    fn multiply<P, I, L, const N: usize>(
        weights: Weights<F, Z, T>,
        mut stages: Loads<'_, P, N, false, I, L>,
        count: u32,
        w: &Ring<Quantized<F, Z, T, BM, DEPTH>, N>,
        a: &Ring<Shared<T, BN, DEPTH, Swizzle<128>>, N>,
    ) -> Fragment<f32, BM, BN, <Y as Gemm<T, BM, BN, 64>>::D>
    where
        P: Schedule,
        I: Iterator<Item = u32>,
        L: for<'s> FnMut(Fill<'s, P, N>, u32),
    {
        stages.run_apart(
            count,
            BM / R,
            Fragment::zero(),
            #[inline(always)]
            |s, block| {
                let operand = weights.unscaled::<BM, DEPTH, R, Tile<Y, T, BM, BN>, _>(w.at(s), block);
                (operand, weights.factors::<BM, DEPTH, R, BN, Tile<Y, T, BM, BN>, _>(w.at(s), block))
            },
            #[inline(always)]
            |operand, s| gemm(Y::default(), operand, a.at(s).t(), Fresh::<_, f32>::new()),
            #[inline(always)]
            |acc, sum, factors, block| acc.add_scaled_block(block, &sum, &factors),
        )
    }
}
