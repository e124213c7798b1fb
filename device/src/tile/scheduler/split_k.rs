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
/// partial sums to that CTA's shared memory (`st.async`, sm_90), which adds them up: one after the other, in pieces, since there is room for one
/// piece. With `SPLIT` of 1 it is nothing at all.
pub struct SplitK<const M: usize, const N: usize, L, const SPLIT: usize> {
    base: u32,
    tiles: u32,
    layout: PhantomData<L>,
}

/// The most bytes of a piece of partial sums.
const MOST: u32 = 32768;

/// Bytes of shared memory that the [`SplitK`] of an `m` x `n` tile over `threads` threads takes: a piece of the partial sums of another CTA for
/// each of its own parts of the tile, and two barriers for each warpgroup.
const fn split_k_bytes(m: usize, n: usize, split: usize, threads: u32) -> u32 {
    let groups = threads / GROUP;
    if split == 1 { 0 } else { sums_bytes(m, n, split as u32, groups) + groups * 16 }
}

const fn sums_bytes(m: usize, n: usize, split: u32, groups: u32) -> u32 {
    groups.div_ceil(split) * piece_bytes(m, n, groups)
}

const fn piece_bytes(m: usize, n: usize, groups: u32) -> u32 {
    let partial = (m * n * 4) as u32 / groups;
    partial / partial.div_ceil(MOST)
}

impl<const M: usize, const N: usize, L: Accumulates<M, N>, const SPLIT: usize> SplitK<M, N, L, SPLIT> {
    const CTAS: u32 = SPLIT as u32;
    const GROUPS: u32 = L::THREADS / GROUP;
    /// Bytes of a piece of one warpgroup's partial sums.
    const PIECE: u32 = piece_bytes(M, N, Self::GROUPS);
    /// Registers of a piece.
    const REGS: usize = {
        let regs = (Self::PIECE / (GROUP * 4)) as usize;
        assert!(
            regs.is_multiple_of(4) && L::Regs::<f32>::LEN.is_multiple_of(regs),
            "pieces of whole vectors"
        );
        regs
    };
    /// Pieces of one warpgroup's partial sums.
    const PIECES: u32 = (L::Regs::<f32>::LEN / Self::REGS) as u32;

    /// Completes when a piece of partial sums of this warpgroup's part has arrived; in the CTA that it belongs to.
    fn arrived(&self, group: u32) -> u32 {
        self.base + sums_bytes(M, N, Self::CTAS, Self::GROUPS) + group * 16
    }
    /// Completes when there is room for this CTA's next piece; in the other CTAs.
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
            // SAFETY: a piece is written after its owner has read the one before, and read after it arrived.
            // No CTA leaves too early: owners wait for the last sums, the others for the word that they may send them.
            unsafe { if owns { self.gather(group, &mut acc) } else { self.send(group, &acc) } }
        }
        self.tiles += 1;
        owns.then_some(acc)
    }

    /// Where a piece for this warpgroup's part lies.
    #[inline(always)]
    fn slot(&self, group: u32) -> u32 {
        self.base + group / Self::CTAS * Self::PIECE
    }

    /// Where a thread's four registers from `i` of a piece on lie in it.
    #[inline(always)]
    fn place(thread: u32, i: usize) -> u32 {
        (i as u32 / 4 * GROUP + thread % GROUP) * 16
    }

    #[inline(always)]
    unsafe fn send<S: Sum>(&self, group: u32, acc: &Fragment<S, M, N, L>) {
        let (rank, owner) = (cluster_rank(), group % Self::CTAS);
        // The first sender's first piece needs no word.
        let first = if (if rank < owner { rank } else { rank - 1 }) == 0 { 1 } else { 0 };
        // SAFETY: the caller's.
        unsafe {
            let slot = shared::mapa(self.slot(group), owner);
            let arrived = shared::mapa(self.arrived(group), owner);
            let thread = thread_x_volatile();
            let word = |i| f32::from_bits(acc.regs.get(i).bits());
            let mut piece = 0;
            while piece < Self::PIECES {
                let sent = self.tiles * Self::PIECES + piece;
                if sent >= first {
                    mbarrier::wait(self.read(group), (sent - first) % 2);
                }
                let mut i = 0;
                while i < Self::REGS {
                    let at = piece as usize * Self::REGS + i;
                    let values = [word(at), word(at + 1), word(at + 2), word(at + 3)];
                    shared::st_async_f32x4(slot + Self::place(thread, i), values, arrived);
                    i += 4;
                }
                piece += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn gather<S: Sum>(&self, group: u32, acc: &mut Fragment<S, M, N, L>) {
        let (thread, owner) = (thread_x_volatile(), cluster_rank());
        let mut round = self.tiles * (Self::CTAS - 1) * Self::PIECES;
        let mut sender = 0;
        while sender < Self::CTAS - 1 {
            let other = if sender < owner { sender } else { sender + 1 };
            let mut piece = 0;
            while piece < Self::PIECES {
                // SAFETY: the caller's.
                unsafe {
                    if round > 0 {
                        // All have read the last piece: there is room for the next one.
                        sync::bar_sync(SPLIT_SUMS.of(group), GROUP);
                        if mbarrier::arrives(thread, GROUP) {
                            mbarrier::arrive_remote(shared::mapa(self.read(group), other));
                        }
                    }
                    if thread.is_multiple_of(GROUP) {
                        mbarrier::arrive_expect_tx(self.arrived(group), Self::PIECE);
                    }
                    mbarrier::wait(self.arrived(group), round % 2);
                    let mut i = 0;
                    while i < Self::REGS {
                        let values = shared::load_f32x4(self.slot(group) + Self::place(thread, i));
                        let at = piece as usize * Self::REGS + i;
                        let mut q = 0;
                        while q < 4 {
                            let sum = acc.regs.get(at + q).plus(S::from_bits(values[q].to_bits()));
                            acc.regs.set(at + q, sum);
                            q += 1;
                        }
                        i += 4;
                    }
                }
                round += 1;
                piece += 1;
            }
            sender += 1;
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
