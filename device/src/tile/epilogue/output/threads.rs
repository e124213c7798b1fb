//! Storing the fragments of threads: each stores its own runs, which need no staging.

use super::OutputLayout;
use crate::arch::tma::Coords;
use crate::layout::threads::{Each, SharedOut};
use crate::layout::{Element, Major, Threads};
use crate::tile::copy::fragment::store_runs;
use crate::tile::fragment::Fragment;
use crate::tile::memory::global_tile::GlobalTileMut;

impl<const M: usize, const N: usize, const TY: usize, const TX: usize, const RUN: usize> OutputLayout<M, N>
    for Threads<TY, TX, RUN>
where
    Each: SharedOut<M, TY> + SharedOut<N, TX>,
{
    const STAGING_BYTES: u32 = 0;

    #[inline(always)]
    unsafe fn store<T, O, const RANK: usize, const BOX: usize>(
        _staging: u32,
        regs: &Self::Regs<T>,
        tile: &GlobalTileMut<T, RANK, O, BOX>,
    ) where
        T: Element,
        O: Major,
        [u32; RANK]: Coords,
    {
        store_runs(&Fragment::<T, M, N, Self> { regs: *regs }, tile);
    }

    #[inline(always)]
    unsafe fn finish() {}
}
