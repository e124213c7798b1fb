//! Split-K: the CTAs of a cluster each take a part of the depth, and one adds up what they computed.

use core::marker::PhantomData;
use core::ops::Range;

use super::{Accumulates, Fragment};
use crate::arch::special::{cluster_rank, thread_x, thread_x_volatile};
use crate::arch::{mbarrier, shared, sync};
use crate::layout::Registers;

/// The share of one CTA in a tile whose depth `SPLIT` CTAs of a cluster divide among themselves.
///
/// The others write their partial sums to the shared memory of the cluster's first CTA (`st.async`, sm_90), which
/// adds them up. With `SPLIT` of 1 it is nothing at all.
pub struct SplitK<const M: usize, const N: usize, L, const SPLIT: usize> {
    base: u32,
    tiles: u32,
    layout: PhantomData<L>,
}

/// The named barrier that the first CTA's consumers meet at when they have read the partial sums.
const READ: u32 = 5;

/// Bytes of shared memory that a [`SplitK`] takes: partial sums of the other CTAs, and two barriers.
pub const fn split_k_bytes(m: usize, n: usize, split: usize) -> u32 {
    if split == 1 { 0 } else { ((split - 1) * m * n * 4 + 16) as u32 }
}

impl<const M: usize, const N: usize, L: Accumulates<M, N>, const SPLIT: usize> SplitK<M, N, L, SPLIT> {
    /// Bytes of one CTA's partial sums.
    const PARTIAL: u32 = (M * N * 4) as u32;

    /// Completes when all partial sums of a tile have arrived; in the first CTA.
    fn arrived(&self) -> u32 {
        self.base + (SPLIT as u32 - 1) * Self::PARTIAL
    }
    /// Completes when the first CTA has read the last tile's partial sums; in the others.
    fn read(&self) -> u32 {
        self.arrived() + 8
    }

    /// # Safety
    /// Every role of every CTA of the cluster calls it with the same `base`, which nothing else uses.
    #[inline(always)]
    pub(super) unsafe fn open(base: u32) -> Self {
        let split = SplitK { base, tiles: 0, layout: PhantomData };
        if SPLIT > 1 {
            // SAFETY: one thread initialises the barriers, and nobody uses them before the cluster met.
            unsafe {
                if thread_x() == 0 {
                    mbarrier::init(split.arrived(), 1);
                    mbarrier::init(split.read(), 1);
                    sync::fence_mbarrier_init();
                }
                sync::cluster_arrive_release();
                sync::cluster_wait();
            }
        }
        split
    }

    /// This CTA's part of `steps` steps of depth.
    #[inline(always)]
    pub fn steps(&self, steps: u32) -> Range<u32> {
        if SPLIT == 1 {
            return 0..steps;
        }
        let (rank, split) = (cluster_rank(), SPLIT as u32);
        rank * steps / split..(rank + 1) * steps / split
    }

    /// The sum of the cluster's accumulators, in its first CTA; `None` in the others.
    #[inline(always)]
    pub fn reduce(&mut self, mut acc: Fragment<f32, M, N, L>) -> Option<Fragment<f32, M, N, L>> {
        if SPLIT == 1 {
            return Some(acc);
        }
        let leads = cluster_rank() == 0;
        if thread_x() < L::THREADS {
            // SAFETY: partial sums are written after the first CTA has read the last tile's, and read after they
            // arrived. No CTA leaves too early: the first waits for the last sums, the others for its word that
            // they may send them.
            unsafe { if leads { self.gather(&mut acc) } else { self.send(&acc) } }
        }
        self.tiles += 1;
        leads.then_some(acc)
    }

    /// Where this thread's four registers from `i` on lie in the partial sums.
    #[inline(always)]
    fn place(thread: u32, i: usize) -> u32 {
        (i as u32 / 4 * L::THREADS + thread) * 16
    }

    #[inline(always)]
    unsafe fn send(&self, acc: &Fragment<f32, M, N, L>) {
        // SAFETY: the caller's.
        unsafe {
            if self.tiles > 0 {
                mbarrier::wait(self.read(), (self.tiles - 1) % 2);
            }
            let slot = shared::mapa(self.base, 0) + (cluster_rank() - 1) * Self::PARTIAL;
            let arrived = shared::mapa(self.arrived(), 0);
            let thread = thread_x_volatile();
            let mut i = 0;
            while i < L::Regs::<f32>::LEN {
                let values = [acc.regs.get(i), acc.regs.get(i + 1), acc.regs.get(i + 2), acc.regs.get(i + 3)];
                shared::st_async_f32x4(slot + Self::place(thread, i), values, arrived);
                i += 4;
            }
        }
    }

    #[inline(always)]
    unsafe fn gather(&self, acc: &mut Fragment<f32, M, N, L>) {
        // SAFETY: the caller's.
        unsafe {
            let thread = thread_x_volatile();
            if self.tiles > 0 {
                // All have read the last tile's sums: the others may send again.
                sync::bar_sync(READ, L::THREADS);
                if thread == 0 {
                    let mut other = 1;
                    while other < SPLIT as u32 {
                        mbarrier::arrive_remote(shared::mapa(self.read(), other));
                        other += 1;
                    }
                }
            }
            if thread == 0 {
                mbarrier::arrive_expect_tx(self.arrived(), (SPLIT as u32 - 1) * Self::PARTIAL);
            }
            mbarrier::wait(self.arrived(), self.tiles % 2);
            let mut other = 0;
            while other < SPLIT as u32 - 1 {
                let slot = self.base + other * Self::PARTIAL;
                let mut i = 0;
                while i < L::Regs::<f32>::LEN {
                    let values = shared::load_f32x4(slot + Self::place(thread, i));
                    let mut q = 0;
                    while q < 4 {
                        acc.regs.set(i + q, acc.regs.get(i + q) + values[q]);
                        q += 1;
                    }
                    i += 4;
                }
                other += 1;
            }
        }
    }
}
