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

type Whole = Warpgroups<1, 1>;

impl<const M: usize, const N: usize, const G: usize> FragmentLayout<M, N> for Warpgroup<G>
where
    Whole: FragmentLayout<M, N>,
{
    type Regs<T: Copy> = <Whole as FragmentLayout<M, N>>::Regs<T>;
    type Rows<T: Copy> = <Whole as FragmentLayout<M, N>>::Rows<T>;
    type Cols<T: Copy> = <Whole as FragmentLayout<M, N>>::Cols<T>;
    const THREADS: u32 = 128 * (G as u32 + 1);
    const ROW_LANES: u32 = <Whole as FragmentLayout<M, N>>::ROW_LANES;
    const RUN: usize = <Whole as FragmentLayout<M, N>>::RUN;

    #[inline(always)]
    fn coord(thread: u32, i: usize) -> (u32, u32) {
        // Threads of other warpgroups hold nothing.
        <Whole as FragmentLayout<M, N>>::coord(thread % 128, i)
    }
    #[inline(always)]
    fn offset(i: usize) -> (u32, u32) {
        <Whole as FragmentLayout<M, N>>::offset(i)
    }
    #[inline(always)]
    fn owner(row: u32, col: u32) -> (u32, usize) {
        let (thread, i) = <Whole as FragmentLayout<M, N>>::owner(row, col);
        (128 * G as u32 + thread, i)
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
