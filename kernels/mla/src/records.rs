//! Tokens of a latent cache of 8 bits, as they lie in memory, and as a gemm's tile.

use core::marker::PhantomData;
use core::ptr;

use tilewright_device::arch::shared::{self, dynamic_shared, dynamic_shared_volatile};
use tilewright_device::arch::special::{cluster_rank, same_number, thread_x};
use tilewright_device::arch::warp::{elect_one, shfl_idx_u32, uniform, vote_ballot};
use tilewright_device::arch::{mbarrier, sync, tma};
use tilewright_device::tile::barriers::WARPGROUP;
use tilewright_device::tile::{Cta, InBlock, Shared, Swizzle, TwoRoles, bf16};

use crate::pooled::Pooled;
use crate::relay::Filling;
use crate::rewrite::Rewritten;
use crate::widened::Lines;
use crate::work::KeyBlocks;

/// Columns of a token's latent part, which are values, too.
pub const LATENT: usize = 512;
/// Columns of its rotary part.
pub const ROTARY: usize = 64;
/// Columns of the latent part that share a scale.
pub const SCALED: usize = 128;
/// Bytes of a token: [`LATENT`] codes e4m3, a scale in f32 for [`SCALED`] of them each, [`ROTARY`] columns of bf16. It is FlashMLA's.
pub const RECORD: usize = SCALES + LATENT / SCALED * 4 + 2 * ROTARY;

/// Where a token's scales begin.
pub(crate) const SCALES: usize = LATENT;
/// Where its rotary part begins.
pub(crate) const ROTATED: usize = RECORD - 2 * ROTARY;
/// Bytes that a swizzle spans, of which a tile's planes are.
pub(crate) const LINE: u32 = 128;
/// Tokens that arrive together: those of a pattern of the swizzle.
pub(crate) const GROUP: u32 = 8;
/// Tokens that are copied by themselves at a time.
const TOGETHER: usize = 4;
/// Bytes of a piece.
pub(crate) const PIECE: u32 = 16;

/// Memory for the records of one block of `R` tokens that this CTA writes: an equal part of them for each CTA of `P`'s cluster. Each warp of the role that fills
/// stages has its own tokens: it copies them, waits for them, and writes them to the stages of all CTAs, with no other warp in between.
pub struct Records<P, const R: usize> {
    /// Where they begin in the CTA's shared memory; behind them is a barrier for each group.
    begin: u32,
    roles: PhantomData<P>,
}

impl<P: TwoRoles, const R: usize> Records<P, R> {
    /// Groups that a CTA writes, and one of its warps.
    const GROUPS: u32 = R as u32 / GROUP / P::CLUSTER;
    const EACH: u32 = Self::GROUPS / P::FILLING;
    /// Blocks whose records are there or on their way: where a CTA has half of them, two.
    const AHEAD: u32 = P::CLUSTER;
    /// Bytes of a stage that other CTAs write.
    pub const FROM_OTHERS: u32 = (P::CLUSTER - 1) * Self::GROUPS * GROUP * 2 * (LATENT + ROTARY) as u32;

    /// Memory for a block's records. Make it before the relay, which all wait for.
    #[inline(always)]
    pub fn new(cta: &mut Cta<P>) -> Self {
        const {
            assert!(P::FILLING > 0 && P::CLUSTER <= 2, "a role of one or two CTAs fills stages");
            assert!(
                R as u32 == GROUP * P::CLUSTER * P::FILLING * Self::EACH,
                "each warp has as many groups of a block's tokens"
            );
        };
        let bytes = Self::AHEAD * Self::GROUPS * (GROUP * RECORD as u32 + 8);
        let begin = cta.reserve(bytes, PIECE) - dynamic_shared();
        let records = Records { begin, roles: PhantomData };
        if thread_x() == 0 {
            let mut group = 0;
            while group < Self::AHEAD * Self::GROUPS {
                // SAFETY: the memory was just taken; nobody uses the barriers before the relay's threads met.
                unsafe { mbarrier::init(records.full(group), 1) };
                group += 1;
            }
        }
        records
    }

    #[inline(always)]
    fn group(&self, group: u32) -> u32 {
        dynamic_shared_volatile() + self.begin + group * GROUP * RECORD as u32
    }
    #[inline(always)]
    fn full(&self, group: u32) -> u32 {
        dynamic_shared_volatile()
            + self.begin
            + Self::AHEAD * Self::GROUPS * GROUP * RECORD as u32
            + group * 8
    }

    /// The records of the blocks, one after the other, of which the first are copied now.
    #[inline(always)]
    pub fn of(&self, cache: InBlock<Pooled<u8, 1, 1>>, blocks: KeyBlocks) -> Arriving<'_, P, R> {
        let first = (uniform(thread_x() / 32) - (P::WARPS[0] + P::WARPS[1])) * Self::EACH;
        let rank = if P::CLUSTER == 1 { 0 } else { cluster_rank() };
        let mut arriving = Arriving { records: self, cache, blocks, first, rank, slot: 0, phase: 0 };
        let mut block = 0;
        while block < Self::AHEAD {
            if let Some(block) = arriving.blocks.next() {
                let place = arriving.look_up(block);
                let mut i = 0;
                while i < Self::EACH {
                    arriving.copy(i, place);
                    i += 1;
                }
            }
            arriving.advance();
            block += 1;
        }
        arriving.phase = 0;
        arriving
    }
}

/// Records on their way: those of the next block, in a warp.
pub struct Arriving<'r, P, const R: usize> {
    records: &'r Records<P, R>,
    cache: InBlock<Pooled<u8, 1, 1>>,
    /// Those that were not copied yet.
    blocks: KeyBlocks,
    /// The warp's first group, of the CTA's.
    first: u32,
    /// The CTA in its cluster.
    rank: u32,
    /// Which of the blocks on their way is next, and the parity of its barriers' phase.
    slot: u32,
    phase: u32,
}

/// Where a thread's token lies: its page, which the pool may not have, and its row there.
#[derive(Clone, Copy)]
struct Place {
    page: u32,
    row: u32,
}

impl<P: TwoRoles, const R: usize> Arriving<'_, P, R> {
    const EACH: u32 = Records::<P, R>::EACH;

    /// Goes on to the next block.
    #[inline(always)]
    fn advance(&mut self) {
        self.slot += 1;
        if self.slot == Records::<P, R>::AHEAD {
            (self.slot, self.phase) = (0, self.phase ^ 1);
        }
    }

    /// Where the warp's `i`-th group of the next block is in memory.
    #[inline(always)]
    fn place_of(&self, i: u32) -> u32 {
        self.slot * Records::<P, R>::GROUPS + self.first + i
    }

    /// The warp's first group of a block.
    #[inline(always)]
    fn first_of_block(&self) -> u32 {
        self.rank * Records::<P, R>::GROUPS + self.first
    }

    /// Looks up where the warp's tokens of a block lie, each by a thread. It takes a while until that is known.
    #[inline(always)]
    fn look_up(&self, [sequence, length, begin]: [u32; 3]) -> Place {
        let lane = thread_x() % 32;
        let token = begin + self.first_of_block() * GROUP + lane;
        let inside = lane < Self::EACH * GROUP && token < length;
        let (page, row) = if inside { self.cache.get().pages.place(sequence, token) } else { (u32::MAX, 0) };
        Place { page, row }
    }

    /// Copies a group's records: of neighbours together, or each by itself. Those behind the sequence's last and in pages that the pool does not
    /// have become zeros.
    #[inline(always)]
    fn copy(&self, i: u32, Place { page, row }: Place) {
        let (cache, group) = (self.cache.get(), self.place_of(i));
        let (pool, lane, lanes) = (cache.pool.0, thread_x() % 32, i * GROUP);
        let ([pages, _, rows, _], [by_page, _, by_row, _]) = (pool.shape(), pool.strides());
        // Of a page that the pool does not have it is nowhere, and not used.
        let from = u64::from(page).wrapping_mul(by_page).wrapping_add(u64::from(row) * by_row);
        let from = from.wrapping_add(pool.pointer() as u64);
        let (to, full) = (self.records.group(group), self.records.full(group));
        // SAFETY: the warp executes it whole, and has left the records that were here. Only tokens of the pool are copied, whose addresses and bytes are
        // multiples of 16; the barrier's phase does not complete before the arrival, which says how many bytes are to come.
        unsafe {
            let there = vote_ballot(page < pages && row < rows) >> lanes & ((1 << GROUP) - 1);
            let all = there + 1 == 1 << GROUP;
            if !all {
                clear(to, lane.wrapping_sub(lanes), there);
            }
            let neighbours = cache.pages.log2_rows >= GROUP.ilog2() && by_row == RECORD as u64;
            match (all, neighbours) {
                (true, true) => {
                    let from = lane_address(from, lanes);
                    if elect_one() {
                        mbarrier::arrive_expect_tx(full, GROUP * RECORD as u32);
                        tma::bulk_load(to, from, GROUP * RECORD as u32, full);
                    }
                }
                (true, false) => {
                    let mut first = 0;
                    while first < GROUP {
                        // Addresses of some at a time: there are no registers for all.
                        let (mut each, mut token) = ([ptr::null(); TOGETHER], 0);
                        while token < TOGETHER {
                            each[token] = lane_address(from, lanes + first + token as u32);
                            token += 1;
                        }
                        if elect_one() {
                            if first == 0 {
                                mbarrier::arrive_expect_tx(full, GROUP * RECORD as u32);
                            }
                            let mut token = 0;
                            while token < TOGETHER {
                                let to = to + (first + token as u32) * RECORD as u32;
                                tma::bulk_load(to, each[token], RECORD as u32, full);
                                token += 1;
                            }
                        }
                        first += TOGETHER as u32;
                    }
                }
                (false, _) => {
                    if elect_one() {
                        mbarrier::arrive_expect_tx(full, there.count_ones() * RECORD as u32);
                    }
                    sync::sync_warp();
                    let token = lane.wrapping_sub(lanes);
                    if token < GROUP && there >> token & 1 != 0 {
                        tma::bulk_load(to + token * RECORD as u32, from as *const u8, RECORD as u32, full);
                    }
                }
            }
            sync::sync_warp();
        }
    }

    /// Writes this CTA's tokens of the next block to a tile of each CTA: codes times their scales, rounded to nearest even, and the rotary part as it is.
    /// What other CTAs get completes on `full`, their tile's barrier. Where a warp is done with a group of tokens, it copies those of the block behind.
    #[inline(always)]
    pub fn widen(
        &mut self,
        to: Rewritten<'_, Shared<bf16, R, { LATENT + ROTARY }, Swizzle<128>>>,
        full: &Filling,
    ) {
        let behind = self.blocks.next().map(
            #[inline(always)]
            |block| self.look_up(block),
        );
        // How often is not known to the compiler: a loop, which takes less of the instruction cache.
        let (mut i, groups) = (0, if Self::EACH == 1 { 1 } else { same_number(Self::EACH) });
        while i < groups {
            let group = self.place_of(i);
            let lines = Lines::<P, R>::new(
                to.address() + (self.first_of_block() + i) * GROUP * LINE,
                full,
                self.rank,
            );
            // SAFETY: the barrier is initialised; the warp's tokens are there behind it, and the tile's turn is this role's.
            unsafe {
                mbarrier::wait(self.records.full(group), self.phase);
                lines.widen(self.records.group(group));
                sync::sync_warp();
            }
            if let Some(place) = behind {
                self.copy(i, place);
            }
            i += 1;
        }
        if P::CLUSTER > 1 {
            self.share(to.address(), full);
        }
        self.advance();
    }

    /// Copies the latent part of this CTA's tokens to the other one, when all its warps have written them: each copies some columns.
    #[inline(always)]
    fn share(&self, to: u32, full: &Filling) {
        let lines = Records::<P, R>::GROUPS * GROUP;
        let planes = LATENT as u32 / 64 / P::FILLING;
        let warp = self.first / Self::EACH;
        let own = to + self.rank * lines * LINE + warp * planes * R as u32 * LINE;
        // SAFETY: the role executes it whole; its threads meet at the barrier behind their writes, which are visible to the asynchronous unit. Until the
        // other CTA gives its stage back, nobody writes to either.
        unsafe {
            sync::fence_proxy_async_shared();
            sync::bar_sync(WARPGROUP.of(uniform(thread_x() / 128)), 32 * P::FILLING);
            let (other, full) =
                (shared::mapa(own, self.rank ^ 1), shared::mapa(full.address(), self.rank ^ 1));
            if elect_one() {
                let mut plane = 0;
                while plane < planes {
                    let below = plane * R as u32 * LINE;
                    tma::bulk_share(other + below, own + below, lines * LINE, full);
                    plane += 1;
                }
            }
        }
    }
}

/// Zeroes the tokens of a group that are not `there`, before the arrival: `token` is this thread's, if it has one.
///
/// # Safety
/// The warp executes it whole, and the group at `to` is its own.
#[inline(always)]
unsafe fn clear(to: u32, token: u32, there: u32) {
    // SAFETY: the caller's.
    unsafe {
        if token < GROUP && there >> token & 1 == 0 {
            let mut byte = 0;
            while byte < RECORD as u32 {
                shared::store_u32x4(to + token * RECORD as u32 + byte, [0; 4]);
                byte += PIECE;
            }
            // Before the next copy to this place.
            sync::fence_proxy_async_shared();
        }
        sync::sync_warp();
    }
}

/// The address that this lane has, in all lanes.
///
/// # Safety
/// A whole warp executes it.
#[inline(always)]
unsafe fn lane_address(address: u64, lane: u32) -> *const u8 {
    // SAFETY: the caller's.
    let half = |bits| u64::from(unsafe { shfl_idx_u32(bits, lane) });
    (half((address >> 32) as u32) << 32 | half(address as u32)) as *const u8
}
