//! Which gradients a kernel computes.

use core::iter::{Once, once};
use core::marker::PhantomData;

use tilewright_device::tile::{
    BlockSums, Cta, Element, Fragment, FragmentLayout, Fresh, GlobalTileMut, HandsOut, InFlight, InPlace,
    Pending, RowMajor, ScratchPair, Shared, Src, SumTurn, Swizzle, TileQueue, TileSlots, copy, gemm,
};

use super::HeadOrder;
use super::divided::Parts;
use super::products::AddedProducts;
use super::turns::{Place, Places, Turns};

/// The gradients that a kernel computes of the tiles that its CTAs have.
pub trait Wanted<T: Element, const BM: usize, const BN: usize, const D: usize>:
    Copy + Default + 'static
{
    /// Its name.
    const NAME: &'static str;
    /// Tiles are of keys and walk over queries; or of queries, over keys.
    const OF_KEYS: bool;
    /// By the columns of scores: dK of keys, dQ of queries.
    const SCORES: bool;
    /// By values.
    const VALUES: bool;
    /// dQ is added up by the tiles of keys.
    const ADDS: bool;
    /// Shared memory that it takes.
    type Room<P: HandsOut>;

    /// A CTA's tiles, each with its head and its sequence.
    type Tiles<P: HandsOut>: Iterator<Item = Place>;

    /// Its shared memory.
    fn room<P: HandsOut>(cta: &mut Cta<P>) -> Self::Room<P>;

    /// The tiles: as many as the CTA is in time for, or that of its place in the grid.
    fn tiles<P: HandsOut>(slots: TileSlots<P>, turns: Turns, order: HeadOrder) -> Self::Tiles<P>;

    /// Adds what so many steps put there to dQ, where and when `to` says. Threads that do not compute call it.
    fn add<P: HandsOut>(
        room: &mut Self::Room<P>,
        cta: &Cta<P>,
        steps: u32,
        to: impl FnMut() -> (*mut f32, Option<SumTurn>),
    );

    /// Stores a gradient of a tile's own rows in `to`, or where its part of a head has it: dV, if it is `of_values`.
    fn store<L: FragmentLayout<BM, R>, const R: usize>(
        parts: InPlace<Parts>,
        place: [u32; 3],
        of_values: bool,
        gradient: Fragment<f32, BM, R, L>,
        to: impl FnOnce() -> GlobalTileMut<T, 4, RowMajor, 0>,
    );

    /// Waits for the gemms of dV and then for those of dK, which `scores` issues. Between them it computes what dSᵀ adds to dQ. The first call of a CTA is not
    /// `odd`, and every other one is.
    fn follow<P: HandsOut, L: FragmentLayout<BM, BN>, I: Pending, J: Pending>(
        room: &mut Self::Room<P>,
        odd: bool,
        d_s: Fragment<T, BM, BN, L>,
        keys: Src<'_, Shared<T, BM, D, Swizzle<128>>>,
        values: InFlight<I>,
        scores: impl FnOnce() -> J,
    ) -> (I::Done, J::Done);
}

macro_rules! apart {
    ($($(#[$doc:meta])* $name:ident: $text:literal, $keys:literal, $scores:literal, $values:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl<T: Element, const BM: usize, const BN: usize, const D: usize> Wanted<T, BM, BN, D> for $name {
            const NAME: &'static str = $text;
            const OF_KEYS: bool = $keys;
            const SCORES: bool = $scores;
            const VALUES: bool = $values;
            const ADDS: bool = false;
            type Room<P: HandsOut> = ();
            type Tiles<P: HandsOut> = Once<Place>;

            #[inline(always)]
            fn room<P: HandsOut>(_: &mut Cta<P>) {}

            #[inline(always)]
            fn tiles<P: HandsOut>(_: TileSlots<P>, _: Turns, order: HeadOrder) -> Once<Place> {
                once(order.place($keys))
            }

            #[inline(always)]
            fn add<P: HandsOut>(_: &mut (), _: &Cta<P>, _: u32, _: impl FnMut() -> (*mut f32, Option<SumTurn>)) {}

            #[inline(always)]
            fn store<L: FragmentLayout<BM, R>, const R: usize>(
                _: InPlace<Parts>,
                _: [u32; 3],
                _: bool,
                gradient: Fragment<f32, BM, R, L>,
                to: impl FnOnce() -> GlobalTileMut<T, 4, RowMajor, 0>,
            ) {
                copy(gradient.cast::<T>(), to());
            }

            #[inline(always)]
            fn follow<P: HandsOut, L: FragmentLayout<BM, BN>, I: Pending, J: Pending>(
                _: &mut (),
                _: bool,
                _: Fragment<T, BM, BN, L>,
                _: Src<'_, Shared<T, BM, D, Swizzle<128>>>,
                values: InFlight<I>,
                scores: impl FnOnce() -> J,
            ) -> (I::Done, J::Done) {
                let (values, scores) = values.behind(scores(), || ());
                (values, scores.wait())
            }
        }
    )* };
}
apart! {
    /// dK and dV.
    KeysAndValues: "keys_values", true, true, true;
    /// dK alone.
    Keys: "keys", true, true, false;
    /// dV alone.
    Values: "values", true, false, true;
    /// dQ.
    Queries: "queries", false, true, false;
}

/// dK and dV, and dQ by additions, whose product is divided among warps by `Z`.
#[derive(Clone, Copy, Debug, Default)]
pub struct All<Z>(PhantomData<Z>);

impl<T: Element, Z, const BM: usize, const BN: usize, const D: usize> Wanted<T, BM, BN, D> for All<Z>
where
    Z: AddedProducts<T, BM, BN, D>,
{
    const NAME: &'static str = "all";
    const OF_KEYS: bool = true;
    const SCORES: bool = true;
    const VALUES: bool = true;
    const ADDS: bool = true;
    type Room<P: HandsOut> = (ScratchPair<P, Shared<T, BM, BN, Swizzle<128>>>, BlockSums<P, BN, D, Z>);
    type Tiles<P: HandsOut> = TileQueue<P, Places>;

    #[inline(always)]
    fn room<P: HandsOut>(cta: &mut Cta<P>) -> Self::Room<P> {
        (cta.scratch_pair(), cta.block_sums())
    }

    #[inline(always)]
    fn tiles<P: HandsOut>(slots: TileSlots<P>, turns: Turns, order: HeadOrder) -> TileQueue<P, Places> {
        turns.tiles(slots, order)
    }

    #[inline(always)]
    fn add<P: HandsOut>(
        (_, sums): &mut Self::Room<P>,
        cta: &Cta<P>,
        steps: u32,
        to: impl FnMut() -> (*mut f32, Option<SumTurn>),
    ) {
        // SAFETY: the host gives as much memory as all blocks of queries take, where they are only added to, in all tiles of a call with turns or in none.
        unsafe { sums.add::<1>(cta, steps, to) };
    }

    #[inline(always)]
    fn store<L: FragmentLayout<BM, R>, const R: usize>(
        parts: InPlace<Parts>,
        place: [u32; 3],
        of_values: bool,
        gradient: Fragment<f32, BM, R, L>,
        to: impl FnOnce() -> GlobalTileMut<T, 4, RowMajor, 0>,
    ) {
        parts.get().store(place, of_values, gradient, to);
    }

    #[inline(always)]
    fn follow<P: HandsOut, L: FragmentLayout<BM, BN>, I: Pending, J: Pending>(
        (pair, sums): &mut Self::Room<P>,
        odd: bool,
        d_s: Fragment<T, BM, BN, L>,
        keys: Src<'_, Shared<T, BM, D, Swizzle<128>>>,
        values: InFlight<I>,
        scores: impl FnOnce() -> J,
    ) -> (I::Done, J::Done) {
        // SAFETY: the gemm that reads the tile is waited for below, before the next call.
        let d_s = unsafe { pair.put(d_s) };
        let (values, queries) =
            values.behind(gemm(Z::default(), d_s.aligned().t(), keys.aligned(), Fresh::new()), || ());
        let (queries, scores) = queries.behind(scores(), || ());
        // SAFETY: all steps' are added, and before an odd one an odd number was put there.
        unsafe { sums.put(queries, odd.into()) };
        (values, scores.wait())
    }
}
