//! The output of a tile of queries, in one accumulator or in two.

use tilewright_device::tile::{
    Accumulates, Element, Fragment, Gemm, GlobalTileMut, PartOfTile, Pending, Rows, Shared, Src, Swizzle,
    copy, gemm,
};

use crate::{B, KeyStages, RelayTurn, StagedColumns, rescale, store_scaled};

/// The weighted sums of values so far, in accumulators of `W` columns each of policy `O`.
///
/// Two take the instructions twice, each of half of the columns: of a CTA with four warpgroups a thread has 128 registers when it begins, and
/// ptxas takes no instruction with more than those have room for, whatever `setmaxnreg` gives the role.
pub trait Accumulators<T: Element, O: StagedColumns<W>, const W: usize>: Sized {
    /// How many they are.
    const COUNT: usize;
    /// No values.
    fn zero() -> Self;
    /// All times `by`, and the values of a block by their weights.
    fn add<const D: usize>(
        self,
        by: &Rows<f32, B, W, O>,
        weights: Src<'_, Shared<T, B, B, Swizzle<128>>>,
        latent: Src<'_, Shared<T, B, D, Swizzle<128>>>,
    ) -> impl Pending<Done = Self>;
    /// Copies them, times `by`, to a part.
    fn copy_to<F: Fn(u32) -> Option<u32>>(self, by: &Rows<f32, B, W, O>, to: impl Fn() -> PartOfTile<F>);
    /// Stores them, times `by`, by way of a stage: `to` gives the tile of the columns of an accumulator.
    fn store<const D: usize, const N: usize>(
        self,
        by: &Rows<f32, B, W, O>,
        stages: &KeyStages<T, D, N>,
        turn: &mut RelayTurn<N>,
        to: impl Fn(u32) -> GlobalTileMut<T, 3>,
    );
}

impl<T, O, const W: usize> Accumulators<T, O, W> for Fragment<f32, B, W, O>
where
    T: Element,
    O: Gemm<T, B, W, B, A = Swizzle<128>, B = Swizzle<128>, D = O> + StagedColumns<W> + Accumulates<B, W>,
{
    const COUNT: usize = 1;
    #[inline(always)]
    fn zero() -> Self {
        Fragment::zero()
    }
    #[inline(always)]
    fn add<const D: usize>(
        self,
        by: &Rows<f32, B, W, O>,
        weights: Src<'_, Shared<T, B, B, Swizzle<128>>>,
        latent: Src<'_, Shared<T, B, D, Swizzle<128>>>,
    ) -> impl Pending<Done = Self> {
        gemm(O::default(), weights, latent.columns::<0, W>(), rescale(self, by))
    }
    #[inline(always)]
    fn copy_to<F: Fn(u32) -> Option<u32>>(self, by: &Rows<f32, B, W, O>, to: impl Fn() -> PartOfTile<F>) {
        copy(self.zip_rows(by, |x, by| x * by), to());
    }
    #[inline(always)]
    fn store<const D: usize, const N: usize>(
        self,
        by: &Rows<f32, B, W, O>,
        stages: &KeyStages<T, D, N>,
        turn: &mut RelayTurn<N>,
        to: impl Fn(u32) -> GlobalTileMut<T, 3>,
    ) {
        store_scaled(self, by, stages.at(turn.rewrite_own()).columns::<0, W>(), || to(0));
    }
}

impl<T, O, const W: usize> Accumulators<T, O, W> for [Fragment<f32, B, W, O>; 2]
where
    T: Element,
    O: Gemm<T, B, W, B, A = Swizzle<128>, B = Swizzle<128>, D = O> + StagedColumns<W> + Accumulates<B, W>,
{
    const COUNT: usize = 2;
    #[inline(always)]
    fn zero() -> Self {
        [Fragment::zero(), Fragment::zero()]
    }
    #[inline(always)]
    fn add<const D: usize>(
        self,
        by: &Rows<f32, B, W, O>,
        weights: Src<'_, Shared<T, B, B, Swizzle<128>>>,
        latent: Src<'_, Shared<T, B, D, Swizzle<128>>>,
    ) -> impl Pending<Done = Self> {
        let [first, second] = self;
        let first = gemm(O::default(), weights.columns::<0, B>(), latent.part::<W>(0), rescale(first, by));
        let second = gemm(O::default(), weights, latent.part::<W>(1), rescale(second, by));
        (first, second).then(|(first, second)| [first, second])
    }
    #[inline(always)]
    fn copy_to<F: Fn(u32) -> Option<u32>>(self, by: &Rows<f32, B, W, O>, to: impl Fn() -> PartOfTile<F>) {
        let [first, second] = self;
        copy(first.zip_rows(by, |x, by| x * by), to());
        copy(second.zip_rows(by, |x, by| x * by), to().from_column(W as u32));
    }
    #[inline(always)]
    fn store<const D: usize, const N: usize>(
        self,
        by: &Rows<f32, B, W, O>,
        stages: &KeyStages<T, D, N>,
        turn: &mut RelayTurn<N>,
        to: impl Fn(u32) -> GlobalTileMut<T, 3>,
    ) {
        let [first, second] = self;
        store_scaled(first, by, stages.at(turn.rewrite_own()).columns::<0, W>(), || to(0));
        store_scaled(second, by, stages.at(turn.rewrite_own()).columns::<W, W>(), || to(1));
    }
}
