//! Split-K: the CTAs of a cluster each take a part of the depth, and add up what they computed.

use core::marker::PhantomData;
use core::ops::Range;

use crate::arch::special::{cluster_rank, thread_x, thread_x_volatile};
use crate::arch::warp::uniform;
use crate::arch::{mbarrier, shared, sync};
use crate::layout::{Registers, Sum};
use crate::tile::cta::Cta;
use crate::tile::cta::barriers::SPLIT_SUMS;
use crate::tile::cta::collective::Collective;
use crate::tile::fragment::Fragment;
use crate::tile::mma::accumulates::Accumulates;

/// Threads of a warpgroup: each of them adds up its own part of the tile.
const GROUP: u32 = 128;

/// The share of one CTA in a tile whose depth `SPLIT` CTAs of a cluster divide among themselves.
///
/// Each warpgroup's part of the tile belongs to one of the CTAs, in turn. The same warpgroup of the others writes its
/// partial sums to that CTA's shared memory (`st.async`, sm_90), which adds them up. With `SPLIT` of 1 it is nothing at all.
pub struct SplitK<const M: usize, const N: usize, L, const SPLIT: usize> {
    base: u32,
    tiles: u32,
    layout: PhantomData<L>,
}

/// Bytes of shared memory that the [`SplitK`] of an `m` x `n` tile over `threads` threads takes: the partial sums of
/// other CTAs for its own parts of the tile, and two barriers for each warpgroup.
const fn split_k_bytes(m: usize, n: usize, split: usize, threads: u32) -> u32 {
    let groups = threads / GROUP;
    if split == 1 { 0 } else { sums_bytes(m, n, split as u32, groups) + groups * 16 }
}

const fn sums_bytes(m: usize, n: usize, split: u32, groups: u32) -> u32 {
    groups.div_ceil(split) * (split - 1) * ((m * n * 4) as u32 / groups)
}

impl<const M: usize, const N: usize, L: Accumulates<M, N>, const SPLIT: usize> SplitK<M, N, L, SPLIT> {
    const CTAS: u32 = SPLIT as u32;
    const GROUPS: u32 = L::THREADS / GROUP;
    /// Bytes of one warpgroup's partial sums.
    const PARTIAL: u32 = (M * N * 4) as u32 / Self::GROUPS;

    /// Completes when all partial sums of this warpgroup's part have arrived; in the CTA that it belongs to.
    fn arrived(&self, group: u32) -> u32 {
        self.base + sums_bytes(M, N, Self::CTAS, Self::GROUPS) + group * 16
    }
    /// Completes when the last tile's partial sums have been read; in the other CTAs.
    fn read(&self, group: u32) -> u32 {
        self.arrived(group) + 8
    }

    /// # Safety
    /// Every role of every CTA of the cluster calls it with the same `base`, which nothing else uses.
    #[inline(always)]
    pub(in crate::tile) unsafe fn open(base: u32) -> Self {
        const { assert!(SPLIT == 1 || !L::APART, "warpgroups that compute tiles apart take all of their depth") };
        let split = SplitK { base, tiles: 0, layout: PhantomData };
        if SPLIT > 1 {
            // SAFETY: one thread initialises the barriers, and nobody uses them before the cluster met.
            unsafe {
                if thread_x() == 0 {
                    let mut group = 0;
                    while group < Self::GROUPS {
                        mbarrier::init(split.arrived(group), 1);
                        mbarrier::init(split.read(group), mbarrier::arrivals(GROUP));
                        group += 1;
                    }
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
        let rank = cluster_rank();
        rank * steps / Self::CTAS..(rank + 1) * steps / Self::CTAS
    }

    /// The sum of the cluster's accumulators, in the warpgroups whose part of the tile belongs to this CTA; `None` in the
    /// others.
    #[inline(always)]
    pub fn reduce<S: Sum>(&mut self, mut acc: Fragment<S, M, N, L>) -> Option<Fragment<S, M, N, L>> {
        if SPLIT == 1 {
            return Some(acc);
        }
        let group = uniform(thread_x() / GROUP);
        let owns = group % Self::CTAS == cluster_rank();
        if thread_x() < L::THREADS {
            // SAFETY: partial sums are written after their owner has read the last tile's, and read after they arrived.
            // No CTA leaves too early: owners wait for the last sums, the others for the word that they may send them.
            unsafe { if owns { self.gather(group, &mut acc) } else { self.send(group, &acc) } }
        }
        self.tiles += 1;
        owns.then_some(acc)
    }

    /// Where the partial sums of the `sender`-th other CTA lie.
    #[inline(always)]
    fn slot(group: u32, sender: u32) -> u32 {
        (group / Self::CTAS * (Self::CTAS - 1) + sender) * Self::PARTIAL
    }

    /// Where a thread's four registers from `i` on lie among them.
    #[inline(always)]
    fn place(thread: u32, i: usize) -> u32 {
        (i as u32 / 4 * GROUP + thread % GROUP) * 16
    }

    #[inline(always)]
    unsafe fn send<S: Sum>(&self, group: u32, acc: &Fragment<S, M, N, L>) {
        let (rank, owner) = (cluster_rank(), group % Self::CTAS);
        let sender = if rank < owner { rank } else { rank - 1 };
        // SAFETY: the caller's.
        unsafe {
            if self.tiles > 0 {
                mbarrier::wait(self.read(group), (self.tiles - 1) % 2);
            }
            let slot = shared::mapa(self.base + Self::slot(group, sender), owner);
            let arrived = shared::mapa(self.arrived(group), owner);
            let thread = thread_x_volatile();
            let mut i = 0;
            let word = |i| f32::from_bits(acc.regs.get(i).bits());
            while i < L::Regs::<f32>::LEN {
                let values = [word(i), word(i + 1), word(i + 2), word(i + 3)];
                shared::st_async_f32x4(slot + Self::place(thread, i), values, arrived);
                i += 4;
            }
        }
    }

    #[inline(always)]
    unsafe fn gather<S: Sum>(&self, group: u32, acc: &mut Fragment<S, M, N, L>) {
        // SAFETY: the caller's.
        unsafe {
            let thread = thread_x_volatile();
            if self.tiles > 0 {
                // All have read the last tile's sums: the others may send again.
                sync::bar_sync(SPLIT_SUMS.of(group), GROUP);
                if mbarrier::arrives(thread, GROUP) {
                    let mut other = 0;
                    while other < Self::CTAS {
                        if other != cluster_rank() {
                            mbarrier::arrive_remote(shared::mapa(self.read(group), other));
                        }
                        other += 1;
                    }
                }
            }
            if thread.is_multiple_of(GROUP) {
                mbarrier::arrive_expect_tx(self.arrived(group), (Self::CTAS - 1) * Self::PARTIAL);
            }
            mbarrier::wait(self.arrived(group), self.tiles % 2);
            let mut sender = 0;
            while sender < Self::CTAS - 1 {
                let slot = self.base + Self::slot(group, sender);
                let mut i = 0;
                while i < L::Regs::<f32>::LEN {
                    let values = shared::load_f32x4(slot + Self::place(thread, i));
                    let mut q = 0;
                    while q < 4 {
                        acc.regs.set(i + q, acc.regs.get(i + q).plus(S::from_bits(values[q].to_bits())));
                        q += 1;
                    }
                    i += 4;
                }
                sender += 1;
            }
        }
    }
}

impl<P: Collective> Cta<P> {
    /// This CTA's share in a tile whose depth is divided among the `SPLIT` CTAs of its cluster.
    #[inline(always)]
    pub fn split_k<const M: usize, const N: usize, L, const SPLIT: usize>(&mut self) -> SplitK<M, N, L, SPLIT>
    where
        L: Accumulates<M, N>,
    {
        let base = self.reserve(split_k_bytes(M, N, SPLIT, L::THREADS), 16);
        // SAFETY: the memory was just taken, by every role of every CTA in the same way.
        unsafe { SplitK::open(base) }
    }
}
