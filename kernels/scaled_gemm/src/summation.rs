//! How products are summed up, and what becomes of the sums.

use core::convert::identity;
use core::marker::PhantomData;
use core::ops::Range;

use tilewright_device::layout::Sum;
use tilewright_device::tile::{
    Accumulates, ColMajor, Cols, Element, Fill, Fragment, Full, Gemm, Global, InPlace, Issued, Loads,
    OutputLayout, Over, Pipeline, Ring, RowMajor, Rows, Schedule, Shared, StepRows, Swizzle, TileIndex,
    Turns, gemm,
};

/// Columns of a scale of B's blocks.
pub(crate) const BLOCK: u32 = 128;

/// Scales of sums of 128 along K.
pub type Scales = InPlace<Global<f32, 2, RowMajor, 0>>;
/// The same of several matrices.
pub type Scales3 = InPlace<Global<f32, 3, RowMajor, 0>>;

/// The rings of A's and B's tiles.
type Rings<'r, T, const BM: usize, const BN: usize, const BK: usize, const N: usize> =
    (&'r Ring<Shared<T, BM, BK, Swizzle<128>>, N>, &'r Ring<Shared<T, BK, BN, Swizzle<128>, ColMajor>, N>);

/// How products of elements `T` are summed up: the main loop of a tile of `BM` rows and `BN` columns, in steps of `BK`.
pub trait Summation<Y, T: Element, const BM: usize, const BN: usize, const BK: usize>:
    Copy + Default + Send + Sync + 'static
{
    /// What a tile's sums are.
    type Sum: Sum;
    /// How they lie in registers.
    type D: Accumulates<BM, BN> + OutputLayout<BM, BN>;
    /// How 128 of depth are added up, as the host tells kernels apart.
    const MODE: Mode;
    /// Whether warpgroups take turns to begin sums of 128.
    const IN_TURN: bool = false;

    /// The sums over `steps` of the tile at `at`, in the threads that compute.
    fn sum<P: Schedule, const N: usize>(
        pipe: &mut Pipeline<P, N>,
        steps: Range<u32>,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        rings: Rings<'_, T, BM, BN, BK, N>,
        scales: (Scales, Scales),
        at_and_computes: (TileIndex, bool),
        turns: &Turns<P>,
    ) -> Fragment<Self::Sum, BM, BN, Self::D>;
}

/// How sums are made, as far as it decides which kernel serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// All of the depth in the tensor cores' accumulators.
    Straight,
    /// 128 of depth there, and those sums in f32.
    Promoted,
    /// The same, with a scale for each of those sums.
    Blocks,
}

/// When the warpgroups of a tile begin sums of 128.
pub trait Order: Copy + Default + Send + Sync + 'static {
    /// Whether they take turns.
    const IN_TURN: bool = false;
    /// Whether a warpgroup's gemms run while it adds the sum before.
    const AHEAD: bool = false;
}

/// In turn, where registers do not allow a second sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTurn;

impl Order for InTurn {
    const IN_TURN: bool = true;
}

/// While they add the sum before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead;

impl Order for Ahead {
    const AHEAD: bool = true;
}

/// All of the depth in the tensor cores' accumulators, of `S`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Straight<S>(PhantomData<S>);

/// Sums of 128 along K, added up in f32: the accumulators of 8-bit floats keep fewer bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promoted<O = Ahead>(PhantomData<O>);

/// The same, each multiplied by the scales of its blocks: 1 x 128 of A, 128 x 128 of B.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks<O = Ahead>(PhantomData<O>);

/// The same of the transposed product: 128 x 128 of A, 1 x 128 of B.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwappedBlocks;

impl<Y, T, S, const BM: usize, const BN: usize, const BK: usize> Summation<Y, T, BM, BN, BK> for Straight<S>
where
    Y: Gemm<T, BM, BN, BK, S, A = Swizzle<128>, B = Swizzle<128>, D: OutputLayout<BM, BN>>,
    T: Element,
    S: Sum + Default,
{
    type Sum = S;
    type D = Y::D;
    const MODE: Mode = Mode::Straight;

    #[inline(always)]
    fn sum<P: Schedule, const N: usize>(
        pipe: &mut Pipeline<P, N>,
        steps: Range<u32>,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        (a, b): Rings<'_, T, BM, BN, BK, N>,
        _: (Scales, Scales),
        _: (TileIndex, bool),
        _: &Turns<P>,
    ) -> Fragment<S, BM, BN, Y::D> {
        let sums = Fragment::<S, BM, BN, Y::D>::splat(S::ZERO);
        pipe.run(
            steps,
            sums,
            load,
            #[inline(always)]
            |sums, s, _| gemm(Y::default(), a.at(s), b.at(s), sums),
        )
    }
}

impl<Y, T, O, const BM: usize, const BN: usize, const BK: usize> Summation<Y, T, BM, BN, BK> for Promoted<O>
where
    O: Order,
    Y: Gemm<T, BM, BN, BK, A = Swizzle<128>, B = Swizzle<128>, D: OutputLayout<BM, BN>>,
    T: Element,
{
    type Sum = f32;
    type D = Y::D;
    const MODE: Mode = Mode::Promoted;
    const IN_TURN: bool = O::IN_TURN;

    #[inline(always)]
    fn sum<P: Schedule, const N: usize>(
        pipe: &mut Pipeline<P, N>,
        steps: Range<u32>,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        (a, b): Rings<'_, T, BM, BN, BK, N>,
        _: (Scales, Scales),
        (_, computes): (TileIndex, bool),
        turns: &Turns<P>,
    ) -> Fragment<f32, BM, BN, Y::D> {
        let count = steps.end - steps.start;
        let mut stages = pipe.loads(steps, load);
        if !computes {
            return Fragment::zero();
        }
        let product = identity(
            #[inline(always)]
            |s: Full<'_, N>, sum| gemm(Y::default(), a.at(s), b.at(s), sum),
        );
        let add = identity(
            #[inline(always)]
            |all: Fragment<f32, BM, BN, Y::D>, sum: &Fragment<f32, BM, BN, Y::D>, ()| {
                all.zip(sum, |x, y| x + y)
            },
        );
        if O::AHEAD {
            stages.run_promoted_ahead(count, || (), product, add)
        } else {
            stages.run_promoted(count, turns, || (), product, add)
        }
    }
}

impl<Y, T, O, const BM: usize, const BN: usize, const BK: usize> Summation<Y, T, BM, BN, BK> for Blocks<O>
where
    O: Order,
    Y: Gemm<T, BM, BN, BK, A = Swizzle<128>, B = Swizzle<128>, D: OutputLayout<BM, BN>>,
    T: Element,
{
    type Sum = f32;
    type D = Y::D;
    const MODE: Mode = Mode::Blocks;
    const IN_TURN: bool = O::IN_TURN;

    #[inline(always)]
    fn sum<P: Schedule, const N: usize>(
        pipe: &mut Pipeline<P, N>,
        steps: Range<u32>,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        (a, b): Rings<'_, T, BM, BN, BK, N>,
        (line_scales, block_scales): (Scales, Scales),
        (at, computes): (TileIndex, bool),
        turns: &Turns<P>,
    ) -> Fragment<f32, BM, BN, Y::D> {
        const { assert!(BK as u32 * 2 == BLOCK && BLOCK.is_multiple_of(BN as u32), "a step has one scale of B") };
        let (first, count) = (steps.start, steps.end - steps.start);
        let mut stages = pipe.loads(steps, load);
        if !computes {
            return Fragment::zero();
        }
        let block = at.n * BN as u32 / BLOCK;
        by_blocks::<O, _, _, _, _, N, BM, BN>(
            &mut stages,
            count,
            turns,
            #[inline(always)]
            |step| {
                let k = first + step;
                let of_b = block_scales.get().tile([block, k]).element::<1, 1>(0, 0);
                (Rows::<f32, BM, BN, Y::D>::load_or_zero(line_scales.get().tile([at.m, k])), of_b)
            },
            #[inline(always)]
            |s, sum| gemm(Y::default(), a.at(s), b.at(s), sum),
        )
    }
}

/// The sums over `count` stages of a tile: those of each stage, which `gemm` begins, multiplied by what `scales` gives for a step, of its rows and of all of it.
#[inline(always)]
pub(crate) fn by_blocks<O, P, I, F, L, const N: usize, const BM: usize, const BN: usize>(
    stages: &mut Loads<'_, P, N, false, I, F>,
    count: u32,
    turns: &Turns<P>,
    scales: impl Fn(u32) -> (Rows<f32, BM, BN, L>, f32),
    gemm: impl Fn(Full<'_, N>, Over<Fragment<f32, BM, BN, L>>) -> Issued<Fragment<f32, BM, BN, L>>,
) -> Fragment<f32, BM, BN, L>
where
    O: Order,
    P: Schedule,
    I: Iterator<Item = u32>,
    F: for<'s> FnMut(Fill<'s, P, N>, u32),
    L: Accumulates<BM, BN>,
{
    let mut factors = StepRows::new(
        scales,
        #[inline(always)]
        |(rows, of_all): (Rows<f32, BM, BN, L>, f32)| rows.map(|scale| scale * of_all),
    );
    let next = identity(
        #[inline(always)]
        || factors.take(),
    );
    let add = identity(
        #[inline(always)]
        |all: Fragment<f32, BM, BN, L>, sum: &Fragment<f32, BM, BN, L>, scales| all.add_scaled(sum, &scales),
    );
    if O::AHEAD {
        stages.run_promoted_ahead(count, next, gemm, add)
    } else {
        stages.run_promoted(count, turns, next, gemm, add)
    }
}

impl<Y, T, const R: usize, const BN: usize, const BK: usize> Summation<Y, T, R, BN, BK> for SwappedBlocks
where
    Y: Gemm<T, R, BN, BK, A = Swizzle<128>, B = Swizzle<128>, D: OutputLayout<R, BN>>,
    T: Element,
{
    type Sum = f32;
    type D = Y::D;
    const MODE: Mode = Mode::Blocks;

    #[inline(always)]
    fn sum<P: Schedule, const N: usize>(
        pipe: &mut Pipeline<P, N>,
        steps: Range<u32>,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        (a, b): Rings<'_, T, R, BN, BK, N>,
        (line_scales, block_scales): (Scales, Scales),
        (at, computes): (TileIndex, bool),
        turns: &Turns<P>,
    ) -> Fragment<f32, R, BN, Y::D> {
        const { assert!(BK as u32 * 2 == BLOCK && BLOCK.is_multiple_of(R as u32), "a step has one scale of A") };
        let (first, count) = (steps.start, steps.end - steps.start);
        let mut stages = pipe.loads(steps, load);
        if !computes {
            return Fragment::zero();
        }
        let block = at.m * R as u32 / BLOCK;
        by_swapped_blocks(
            &mut stages,
            count,
            turns,
            #[inline(always)]
            |step| {
                let k = first + step;
                let of_a = block_scales.get().tile([block, k]).element::<1, 1>(0, 0);
                let cols = Cols::<f32, R, BN, Y::D>::indexed(
                    #[inline(always)]
                    |col| line_scales.get().tile([at.n, k]).element::<BN, 1>(col, 0),
                );
                (cols, of_a)
            },
            #[inline(always)]
            |s, sum| gemm(Y::default(), a.at(s), b.at(s), sum),
        )
    }
}

/// As [`by_blocks`], of one part, where `scales` gives those of columns.
#[inline(always)]
pub(crate) fn by_swapped_blocks<P, I, F, L, const N: usize, const R: usize, const BN: usize>(
    stages: &mut Loads<'_, P, N, false, I, F>,
    count: u32,
    turns: &Turns<P>,
    scales: impl Fn(u32) -> (Cols<f32, R, BN, L>, f32),
    gemm: impl Fn(Full<'_, N>, Over<Fragment<f32, R, BN, L>>) -> Issued<Fragment<f32, R, BN, L>>,
) -> Fragment<f32, R, BN, L>
where
    P: Schedule,
    I: Iterator<Item = u32>,
    F: for<'s> FnMut(Fill<'s, P, N>, u32),
    L: Accumulates<R, BN>,
{
    // A step ahead.
    let (mut step, mut next) = (0, scales(0));
    stages.run_promoted(
        count,
        turns,
        #[inline(always)]
        || {
            step += 1;
            core::mem::replace(&mut next, scales(step))
        },
        gemm,
        #[inline(always)]
        |all, sum, (cols, of_all)| {
            let scaled = sum.zip_cols(&cols, |x, scale| x * (scale * of_all));
            all.zip(&scaled, |x, y| x + y)
        },
    )
}
