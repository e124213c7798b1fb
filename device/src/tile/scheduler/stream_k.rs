//! Stream-K: tiles whose depth is divided evenly among all CTAs (Osama et al. 2023).

use core::marker::PhantomData;
use core::ops::Range;

use crate::abi::PassedAsIs;
use crate::arch::special::{block_x, cluster_rank, grid_x, thread_x, thread_x_volatile};
use crate::arch::warp::uniform;
use crate::arch::{atomic, global, sync};
use crate::layout::{Registers, Sum};
use crate::tile::cta::Cta;
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::cta::collective::Collective;
use crate::tile::fragment::Fragment;
use crate::tile::memory::division::Division;
use crate::tile::memory::in_place::InPlace;
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::scheduler::raster::{RasterOrder, TileIndex};

/// Threads that sum up their part of a tile by themselves.
const GROUP: u32 = 128;
/// Loads of a part's sums that a thread has under way, where there are registers for them.
const AHEAD: usize = 4;

/// The order in which CTAs take the tiles of an output, and how they share the steps of depth of some of them.
///
/// The first tiles are taken whole, in turn. The steps of the rest, tile after tile, are cut into as many equal parts as there
/// are CTAs; the CTA that has a tile's first steps adds up all parts of it, in the order of the steps. CTAs that take tiles together,
/// as a cluster or, where `BESIDE`, as [neighbours](StreamOrder::beside), count as one here, and their tiles as one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StreamOrder<const BESIDE: bool = false> {
    raster: RasterOrder,
    /// Tiles that are taken whole.
    whole: u32,
    /// Steps that are shared.
    shared: u32,
    /// Division by a tile's steps.
    by_tile: Division,
    /// Division by the steps of a CTA's part.
    by_part: Division,
    /// Where the parts' sums are written: see [`workspace`](StreamOrder::workspace).
    sums: u64,
    /// A flag for each group of 128 threads of each place of a part's sums: any values, but `launch`, before the kernel.
    flags: u64,
    /// What a flag is when its part's sums are written: a number of this launch alone, not 0. Who has read them sets the flag to 0.
    launch: u64,
    /// Division by the CTAs that take neighbours along N.
    by_beside: Division,
}

impl StreamOrder {
    /// Steps of all tiles together that an order can describe.
    pub const MAX_STEPS: u32 = 1 << 30;

    /// An order of tiles of `steps` steps, of which all but the first `whole` are shared among `ctas` CTAs.
    ///
    /// [`with`](Self::with) gives it memory. `None` when there are more than [`MAX_STEPS`](Self::MAX_STEPS) to share.
    pub fn new(raster: RasterOrder, steps: u32, whole: u32, ctas: u32) -> Option<Self> {
        let whole = if steps == 0 { raster.total() } else { whole.min(raster.total()) };
        let shared =
            (raster.total() - whole).checked_mul(steps).filter(|&shared| shared <= Self::MAX_STEPS)?;
        let part = shared.div_ceil(ctas.max(1));
        let (by_tile, by_part) = (Division::by(steps), Division::by(part));
        let by_beside = Division::by(1);
        Some(StreamOrder { raster, whole, shared, by_tile, by_part, sums: 0, flags: 0, launch: 0, by_beside })
    }

    /// With a tile's place taken by so many tiles that are neighbours along N, and a CTA's by as many: those read the same lines of A at the same
    /// time, which come from L2 then.
    pub fn beside(self, tiles: u32) -> StreamOrder<true> {
        let StreamOrder { raster, whole, shared, by_tile, by_part, sums, flags, launch, .. } = self;
        let by_beside = Division::by(tiles.max(1));
        StreamOrder { raster, whole, shared, by_tile, by_part, sums, flags, launch, by_beside }
    }

    /// Bytes of sums and of flags for `shared` tiles of `m` x `n` that `ctas` CTAs of `threads` threads share.
    pub const fn workspace(shared: u32, ctas: u32, [m, n]: [u32; 2], threads: u32) -> [u64; 2] {
        if shared == 0 {
            return [0, 0];
        }
        [2 * ctas as u64 * m as u64 * n as u64 * 4, 2 * ctas as u64 * (threads / GROUP) as u64 * 8]
    }
}

impl<const BESIDE: bool> StreamOrder<BESIDE> {
    /// With memory for one launch: the addresses of as many bytes of sums and of flags as [`workspace`](StreamOrder::workspace) says, aligned to 16,
    /// and the launch's number.
    ///
    /// The memory may hold anything but that number where flags are. A number that no launch before had, at random of 64 bits, is nowhere in
    /// it; and a graph may repeat the launch with its number, since every launch leaves flags of 0.
    pub const fn with(self, [sums, flags]: [u64; 2], launch: u64) -> Self {
        StreamOrder { sums, flags, launch, ..self }
    }

    /// Tiles of the output.
    pub const fn total(&self) -> u32 {
        self.raster.total()
    }

    /// The first and the last CTA that have a part of shared tile `t`.
    #[inline(always)]
    fn ctas(&self, t: u32) -> (u32, u32) {
        let steps = self.by_tile.divisor;
        (self.by_part.of(t * steps).0, self.by_part.of(t * steps + steps - 1).0)
    }

    /// Where CTA `cta` puts its sum of shared tile `t`: each has two places, one for the tile in which its part begins.
    #[inline(always)]
    fn place(&self, cta: u32, t: u32) -> u32 {
        2 * cta + (cta * self.by_part.divisor < t * self.by_tile.divisor) as u32
    }
}

impl<const BESIDE: bool> PassedAsIs for StreamOrder<BESIDE> {}

/// A part of a tile: some of its steps.
#[derive(Clone, Debug)]
pub struct TilePart {
    /// The tile.
    pub tile: TileIndex,
    /// The steps.
    pub steps: Range<u32>,
    /// Which of the shared tiles it is; none if all of its steps are here.
    shared: Option<u32>,
}

/// The parts of tiles that this CTA takes; `BESIDE` other CTAs, at the same time, those of their neighbours along N.
pub struct StreamK<P, const BESIDE: bool = false> {
    order: InPlace<StreamOrder<BESIDE>>,
    step: u32,
    end: u32,
    next: u32,
    schedule: PhantomData<P>,
}

impl<P: Collective, const BESIDE: bool> StreamK<P, BESIDE> {
    /// The number, known to be the same in all lanes of those who compute: so are then their turns of the loop over parts.
    #[inline(always)]
    fn uniform(x: u32) -> u32 {
        if thread_x() < P::CONSUMERS { uniform(x) } else { x }
    }

    #[inline(always)]
    pub(in crate::tile) fn new(in_place: InPlace<StreamOrder<BESIDE>>) -> Self {
        let order = in_place.get();
        let part = order.by_part.divisor;
        let (cluster, _) = Self::place(&order);
        let step = cluster * part;
        let end = if step + part < order.shared { step + part } else { order.shared };
        let (step, end) = (Self::uniform(step), Self::uniform(end));
        let order = in_place;
        StreamK { order, step, end, next: cluster, schedule: PhantomData }
    }

    /// The next part, if there is one.
    #[inline(always)]
    pub fn part(&mut self) -> Option<TilePart> {
        let order = self.order.get();
        let (steps, whole) = (Self::uniform(order.by_tile.divisor), Self::uniform(order.whole));
        if self.step < self.end {
            let (t, from) = order.by_tile.of(self.step);
            let (t, from) = (Self::uniform(t), Self::uniform(from));
            let left = self.end - self.step;
            let to = if from + left < steps { from + left } else { steps };
            self.step += to - from;
            let shared = if to - from < steps { Some(t) } else { None };
            return Some(TilePart { tile: Self::tile(&order, whole + t), steps: from..to, shared });
        }
        let t = self.next;
        if t >= whole {
            return None;
        }
        let all = grid_x() / P::CLUSTER;
        self.next = t + if BESIDE { order.by_beside.of(all).0 } else { all };
        Some(TilePart { tile: Self::tile(&order, t), steps: 0..steps, shared: None })
    }

    /// This CTA's number, where those that take tiles together count as one, and which of the neighbours along N it takes.
    #[inline(always)]
    fn place(order: &StreamOrder<BESIDE>) -> (u32, u32) {
        let cluster = block_x() / P::CLUSTER;
        if BESIDE { order.by_beside.of(cluster) } else { (cluster, 0) }
    }

    /// This CTA's tile of those that count as tile `t`.
    #[inline(always)]
    fn tile(order: &StreamOrder<BESIDE>, t: u32) -> TileIndex {
        let tile = order.raster.tile(t).own::<P>();
        if !BESIDE {
            return tile;
        }
        TileIndex { n: tile.n * order.by_beside.divisor + Self::place(order).1, ..tile }
    }

    /// Whether this CTA has the tile's first steps, and then the sum of all its parts: the others leave theirs in memory.
    ///
    /// A CTA comes to its last tile's first steps at its end, when those that have the tile's other steps, with which they began, are
    /// long done: it hardly waits. They do not wait at all.
    #[inline(always)]
    pub fn sum<S: Sum, const M: usize, const N: usize, L: Accumulates<M, N>>(
        &self,
        part: &TilePart,
        acc: &mut Fragment<S, M, N, L>,
    ) -> bool {
        let Some(t) = part.shared else { return true };
        if thread_x() >= L::THREADS {
            return false;
        }
        let order = self.order.get();
        let (first, last) = order.ctas(t);
        let thread = thread_x_volatile();
        let group = uniform(thread / GROUP);
        let (cluster, column) = Self::place(&order);
        let rank = column * P::CLUSTER + if P::CLUSTER == 1 { 0 } else { cluster_rank() };
        let together = if BESIDE { order.by_beside.divisor * P::CLUSTER } else { P::CLUSTER };
        let at = |cta: u32, i: usize| {
            let place = (order.place(cta, t) * together + rank) as u64 * (M * N * 4) as u64;
            (order.sums + place + (i as u32 / 4 * L::THREADS + thread) as u64 * 16) as *mut [u32; 4]
        };
        let flag = |cta: u32| {
            let place = order.place(cta, t) * together + rank;
            (order.flags + (place * (L::THREADS / GROUP) + group) as u64 * 8) as *mut u64
        };
        // SAFETY: places and their flags are the CTAs' own. A group sets its flag when all of its sums are written, and they are read
        // when all flags are set. Who waits, waits for later CTAs alone, which do not wait: of those that run at the same time, all end but
        // one, or those that count as one with it.
        unsafe {
            if cluster != first {
                let mut i = 0;
                while i < L::Regs::<S>::LEN {
                    let four = [0, 1, 2, 3].map(
                        #[inline(always)]
                        |q| acc.regs.get(i + q).bits(),
                    );
                    global::st_global_u32x4(at(cluster, i), four);
                    i += 4;
                }
                // The release is of what all threads wrote before the barrier: it is cumulative (PTX ISA, "Causality Order").
                sync::bar_sync(WARPGROUP.of(group), GROUP);
                if thread.is_multiple_of(GROUP) {
                    atomic::st_release_u64(flag(cluster), order.launch);
                }
                return false;
            }
            // A thread for each part.
            let mut cta = first + 1 + thread % GROUP;
            while cta <= last {
                while atomic::ld_acquire_u64(flag(cta)) != order.launch {}
                // A graph launches again with the same number.
                atomic::st_relaxed_u64(flag(cta), 0);
                cta += GROUP;
            }
            sync::bar_sync(WARPGROUP.of(group), GROUP);
            let mut cta = first + 1;
            while cta <= last {
                if const { BESIDE && L::Regs::<S>::LEN <= 4 * AHEAD } {
                    // Sums so short that those of several parts are on their way before the first is used.
                    let arrived = [0, 1, 2, 3].map(
                        #[inline(always)]
                        |part| {
                            [0, 4, 8, 12].map(
                                #[inline(always)]
                                |i| match i < L::Regs::<S>::LEN && cta + part <= last {
                                    true => global::ld_global_u32x4(at(cta + part, i)),
                                    false => [0; 4],
                                },
                            )
                        },
                    );
                    let mut part = 0;
                    while part < AHEAD {
                        let there = cta + part as u32 <= last;
                        let mut i = 0;
                        while i < L::Regs::<S>::LEN {
                            let sum = acc.regs.get(i).plus(S::from_bits(arrived[part][i / 4][i % 4]));
                            acc.regs.set(i, if there { sum } else { acc.regs.get(i) });
                            i += 1;
                        }
                        part += 1;
                    }
                    cta += AHEAD as u32;
                    continue;
                }
                let mut i = 0;
                while i < L::Regs::<S>::LEN {
                    // All are on their way before the first is used.
                    let ahead = const { if BESIDE && L::Regs::<S>::LEN <= 104 { AHEAD } else { 1 } };
                    let mut arrived = [[0; 4]; AHEAD];
                    let mut j = 0;
                    while j < ahead && i + 4 * j < L::Regs::<S>::LEN {
                        arrived[j] = global::ld_global_u32x4(at(cta, i + 4 * j));
                        j += 1;
                    }
                    let mut q = 0;
                    while q < 4 * ahead && i + q < L::Regs::<S>::LEN {
                        let sum = acc.regs.get(i + q).plus(S::from_bits(arrived[q / 4][q % 4]));
                        acc.regs.set(i + q, sum);
                        q += 1;
                    }
                    i += 4 * ahead;
                }
                cta += 1;
            }
        }
        true
    }
}

impl<P: Collective> Cta<P> {
    /// This CTA's parts of the tiles of an output.
    #[inline(always)]
    pub fn stream_k<const BESIDE: bool>(&self, order: InPlace<StreamOrder<BESIDE>>) -> StreamK<P, BESIDE> {
        StreamK::new(order)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Every step of every shared tile belongs to one CTA; a tile's first and last CTA are those that have its steps, and no
    /// two sums lie in one place.
    #[test]
    fn parts_cover_tiles() {
        for (tiles, steps, ctas) in
            [(1, 1, 1), (1, 7, 3), (5, 4, 3), (16, 64, 132), (112, 128, 132), (131, 3, 132), (3, 5, 16)]
        {
            let raster = RasterOrder::new(1, tiles, 1, 16).unwrap();
            let order = StreamOrder::new(raster, steps, 0, ctas).unwrap();
            let part = order.by_part.divisor;
            let mut owners = vec![Vec::new(); tiles as usize];
            for step in 0..tiles * steps {
                assert!(step / part < ctas, "every step has a CTA");
                owners[(step / steps) as usize].push(step / part);
            }
            let mut places = HashSet::new();
            for (t, mut owners) in owners.into_iter().enumerate() {
                owners.dedup();
                let (first, last) = order.ctas(t as u32);
                assert_eq!(owners, (first..=last).collect::<Vec<_>>());
                if owners.len() > 1 {
                    for cta in owners {
                        let place = order.place(cta, t as u32);
                        assert!(place < 2 * ctas && places.insert(place), "{tiles} {steps} {ctas}: {place}");
                    }
                }
            }
        }
    }

    #[test]
    fn all_but_whole_tiles_are_shared() {
        let raster = RasterOrder::new(1, 10, 3, 16).unwrap();
        assert_eq!(StreamOrder::new(raster, 8, 25, 4).unwrap().shared, 40);
        assert_eq!(StreamOrder::new(raster, 8, 99, 4).unwrap().shared, 0);
        assert!(StreamOrder::new(raster, u32::MAX, 0, 4).is_none());
        assert_eq!(StreamOrder::workspace(0, 132, [256, 16], 512), [0, 0]);
        assert_eq!(StreamOrder::workspace(3, 2, [128, 8], 256), [4 * 128 * 8 * 4, 4 * 2 * 8]);
    }
}
