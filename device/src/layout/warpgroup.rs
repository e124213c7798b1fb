//! The policy of one warpgroup among others that do something else.

use super::fragment::{FragmentLayout, Warpgroups};

/// Warp policy of `wgmma`: warpgroup `G` of the CTA owns all of the accumulator.
///
/// [`FullRow<1>`](super::FullRow) for the threads from 128 `G` on: a role's policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Warpgroup<const G: usize>;

/// A policy that gives all of a tile to one warpgroup.
pub trait OneWarpgroup: Copy + Default + 'static {
    /// Which one of the CTA's.
    const GROUP: u32;
}

impl<const G: usize> OneWarpgroup for Warpgroup<G> {
    const GROUP: u32 = G as u32;
}

/// Warp policy of `wgmma`: each of `W` warpgroups has an accumulator of its own, of another tile.
///
/// For schedules whose warpgroups compute tiles in turn; see [`Pipeline::run_in_turn`](crate::tile::Pipeline::run_in_turn).
#[derive(Clone, Copy, Debug, Default)]
pub struct PerWarpgroup<const W: usize>;

type Whole = Warpgroups<1, 1>;

/// The layout of a warpgroup's whole accumulator, for each from the `first`-th to the one before the `end`-th.
macro_rules! whole {
    ($policy:ident<$g:ident>, $first:expr, $end:expr) => {
        impl<const M: usize, const N: usize, const $g: usize> FragmentLayout<M, N> for $policy<$g>
        where
            Whole: FragmentLayout<M, N>,
        {
            type Regs<T: Copy> = <Whole as FragmentLayout<M, N>>::Regs<T>;
            type Rows<T: Copy> = <Whole as FragmentLayout<M, N>>::Rows<T>;
            type Cols<T: Copy> = <Whole as FragmentLayout<M, N>>::Cols<T>;
            const THREADS: u32 = 128 * $end;
            const ROW_LANES: u32 = <Whole as FragmentLayout<M, N>>::ROW_LANES;
            const RUN: usize = <Whole as FragmentLayout<M, N>>::RUN;
            const QUADS: bool = <Whole as FragmentLayout<M, N>>::QUADS;

            #[inline(always)]
            fn coord(thread: u32, i: usize) -> (u32, u32) {
                // Threads of other warpgroups hold nothing, or their own.
                <Whole as FragmentLayout<M, N>>::coord(thread % 128, i)
            }
            #[inline(always)]
            fn offset(i: usize) -> (u32, u32) {
                <Whole as FragmentLayout<M, N>>::offset(i)
            }
            #[inline(always)]
            fn owner(row: u32, col: u32) -> (u32, usize) {
                let (thread, i) = <Whole as FragmentLayout<M, N>>::owner(row, col);
                (128 * $first + thread, i)
            }
            #[inline(always)]
            fn row(i: usize) -> usize {
                <Whole as FragmentLayout<M, N>>::row(i)
            }
            #[inline(always)]
            fn col(i: usize) -> usize {
                <Whole as FragmentLayout<M, N>>::col(i)
            }
        }
    };
}
whole!(Warpgroup<G>, G as u32, (G as u32 + 1));
whole!(PerWarpgroup<W>, 0, W as u32);
