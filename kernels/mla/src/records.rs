//! Tokens of a latent cache of 8 bits, as they lie in memory, and as a gemm's tile.

use core::ptr;

use tilewright_device::arch::cvt;
use tilewright_device::arch::shared::{self, dynamic_shared, dynamic_shared_volatile};
use tilewright_device::arch::special::{same_number, thread_x, thread_x_volatile};
use tilewright_device::arch::warp::{elect_one, shfl_idx_u32, uniform, vote_ballot};
use tilewright_device::arch::{global, mbarrier, sync, tma};
use tilewright_device::tile::{Cta, InBlock, PageTable, Shared, SharedLayout, Swizzle, TwoRoles, bf16};

use crate::pooled::Pooled;
use crate::rewrite::Rewritten;
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
const SCALES: usize = LATENT;
/// Where its rotary part begins.
const ROTATED: usize = RECORD - 2 * ROTARY;
/// Bytes that a swizzle spans, of which a tile's planes are.
const LINE: u32 = 128;
/// Tokens that arrive together: those of a pattern of the swizzle.
const GROUP: u32 = 8;
/// Groups of a block that a warp has.
const GROUPS: usize = 2;
/// Tokens that are copied by themselves at a time.
const TOGETHER: usize = 4;
/// Tokens of a group that are loaded ahead of the one that is written.
const AHEAD: usize = 3;
/// Bytes of a piece.
const PIECE: u32 = 16;

/// Memory for the records of one block of `R` tokens. Each warp of the role that fills stages has its own tokens: it copies them, waits for
/// them, and writes them to the stage, with no other warp in between.
pub struct Records<const R: usize> {
    /// Where they begin in the CTA's shared memory; behind them is a barrier for each group.
    begin: u32,
}

impl<const R: usize> Records<R> {
    /// Memory for a block's records. Make it before the relay, which all wait for.
    #[inline(always)]
    pub fn new<P: TwoRoles>(cta: &mut Cta<P>) -> Self {
        const {
            assert!(
                P::FILLING > 0 && R as u32 == GROUPS as u32 * GROUP * P::FILLING,
                "each warp of the role that fills stages has as many groups of a block's tokens"
            )
        };
        let groups = R as u32 / GROUP;
        let records =
            Records { begin: cta.reserve((R * RECORD) as u32 + 8 * groups, PIECE) - dynamic_shared() };
        if thread_x() == 0 {
            let mut group = 0;
            while group < groups {
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
        dynamic_shared_volatile() + self.begin + (R * RECORD) as u32 + group * 8
    }

    /// The records of the blocks, one after the other, of which the first are copied now.
    #[inline(always)]
    pub fn of<P: TwoRoles>(&self, cache: InBlock<Pooled<u8, 1, 1>>, blocks: KeyBlocks) -> Arriving<'_, R> {
        let first = (uniform(thread_x() / 32) - (P::WARPS[0] + P::WARPS[1])) * GROUPS as u32;
        let mut arriving = Arriving { records: self, cache, blocks, first, phase: 0 };
        if let Some(block) = arriving.blocks.next() {
            let place = arriving.look_up(block);
            let mut i = 0;
            while i < GROUPS as u32 {
                arriving.copy(i, place);
                i += 1;
            }
        }
        arriving
    }
}

/// Records on their way: those of the next block, in a warp.
pub struct Arriving<'r, const R: usize> {
    records: &'r Records<R>,
    cache: InBlock<Pooled<u8, 1, 1>>,
    /// Those that were not copied yet.
    blocks: KeyBlocks,
    /// The warp's first group.
    first: u32,
    /// The parity of the barriers' phase.
    phase: u32,
}

/// Where a thread's token lies: its page, which the pool may not have, and its row there.
#[derive(Clone, Copy)]
struct Place {
    page: u32,
    row: u32,
}

impl<const R: usize> Arriving<'_, R> {
    /// Looks up where the warp's tokens of a block lie, each by a thread. It takes a while until that is known.
    #[inline(always)]
    fn look_up(&self, [sequence, length, begin]: [u32; 3]) -> Place {
        let lane = thread_x() % 32;
        let token = begin + self.first * GROUP + lane;
        let inside = lane < GROUPS as u32 * GROUP && token < length;
        let PageTable { address, stride, entries, log2_rows, log2_bytes, .. } = self.cache.get().pages;
        if address == 0 {
            return Place { page: if inside { sequence } else { u32::MAX }, row: token };
        }
        let (entry, row) = (token >> log2_rows, token & ((1 << log2_rows) - 1));
        let there = inside && entry < entries;
        let at = address + ((u64::from(sequence) * stride + u64::from(entry)) << log2_bytes);
        // SAFETY: the host passes a table of so many sequences and entries.
        let page = unsafe { global::ld_global_u32_if(at as *const u32, there) };
        Place { page: if there { page } else { u32::MAX }, row }
    }

    /// Copies a group's records: of neighbours together, or each by itself. Those behind the sequence's last and in pages that the pool does not
    /// have become zeros.
    #[inline(always)]
    fn copy(&self, i: u32, Place { page, row }: Place) {
        let (cache, group) = (self.cache.get(), self.first + i);
        let (pool, lane, lanes) = (cache.pool.0, thread_x() % 32, i * GROUP);
        let ([pages, _, rows, _], [by_page, _, by_row, _]) = (pool.shape(), pool.strides());
        let from = pool.pointer() as u64 + u64::from(page) * by_page + u64::from(row) * by_row;
        let (to, full) = (self.records.group(group), self.records.full(group));
        // SAFETY: the warp executes it whole, and has left the records that were here. Only tokens of the pool are copied, whose addresses and bytes are
        // multiples of 16; the barrier's phase does not complete before the arrival, which says how many bytes are to come.
        unsafe {
            let there = vote_ballot(page < pages && row < rows) >> lanes & ((1 << GROUP) - 1);
            let all = there + 1 == 1 << GROUP;
            if !all {
                self.clear(to, lane.wrapping_sub(lanes), there);
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

    /// Makes those of a group's tokens zeros that are not `there`, before the arrival: `token` is this thread's, if it has one.
    ///
    /// # Safety
    /// The warp executes it whole, and the group at `to` is its own.
    #[inline(always)]
    unsafe fn clear(&self, to: u32, token: u32, there: u32) {
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

    /// Writes the next block to a tile: codes times their scales, rounded to nearest even, and the rotary part as it is. Where a warp is done with a
    /// group of tokens, it copies those of the block behind.
    #[inline(always)]
    pub fn widen(&mut self, to: Rewritten<'_, Shared<bf16, R, { LATENT + ROTARY }, Swizzle<128>>>) {
        let behind = self.blocks.next().map(
            #[inline(always)]
            |block| self.look_up(block),
        );
        // How often is not known to the compiler: a loop, which takes less of the instruction cache.
        let (mut i, groups) = (0, same_number(GROUPS as u32));
        while i < groups {
            let group = self.first + i;
            // SAFETY: the barrier is initialised; the warp's tokens are there behind it, and the tile's turn is this role's.
            unsafe {
                mbarrier::wait(self.records.full(group), self.phase);
                widen_group::<R>(self.records.group(group), to.address() + group * GROUP * LINE);
                sync::sync_warp();
            }
            if let Some(place) = behind {
                self.copy(i, place);
            }
            i += 1;
        }
        self.phase ^= 1;
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

/// Writes a group of records to their lines of a tile of `R` lines.
///
/// # Safety
/// A whole warp executes it; the records at `from` and the lines from `to` on, of a pattern of the swizzle, are readable, and writable.
#[inline(always)]
unsafe fn widen_group<const R: usize>(from: u32, to: u32) {
    // Read anew, so that no address of a token is held in registers over the blocks.
    let lane = thread_x_volatile() % 32;
    // A thread has 16 columns, two pieces of the tile: four threads have a line of 64. Every other four, and of 16 threads the other half, begin with
    // the second, so that the threads whose accesses go together meet all banks.
    let second = (lane / 4 ^ lane / 8) % 2;
    let halves = [second, second ^ 1].map(|half| from + lane * PIECE + 8 * half);
    let scales = from + SCALES as u32 + 4 * (lane / (SCALED as u32 / 16));
    // A token's line and its part of the swizzle, as one exclusive or.
    let line = |token: u32| Swizzle::<128>::offset(GROUP, LINE, token, 0);
    let pieces =
        [second, second ^ 1].map(|half| to + lane / 4 * R as u32 * LINE + (2 * lane % 8 + half) * PIECE);
    let load = |token: u32| {
        let record = token * RECORD as u32;
        // SAFETY: the caller's; inside the record.
        unsafe { (halves.map(|half| shared::load_u32x2(half + record)), shared::load_f32(scales + record)) }
    };
    // Loaded ahead: a store keeps loads behind it from being begun before it.
    let mut loaded = [([[0; 2]; 2], 0.0); AHEAD];
    let mut token = 0;
    while token < AHEAD {
        loaded[token] = load(token as u32);
        token += 1;
    }
    let mut token = 0;
    while token < GROUP as usize {
        let (codes, scale) = loaded[token % AHEAD];
        if token + AHEAD < GROUP as usize {
            loaded[token % AHEAD] = load((token + AHEAD) as u32);
        }
        // SAFETY: the caller's; inside the line.
        unsafe {
            shared::store_u32x4(pieces[0] ^ line(token as u32), scaled(codes[0], scale));
            shared::store_u32x4(pieces[1] ^ line(token as u32), scaled(codes[1], scale));
        }
        token += 1;
    }
    let (token, piece) = (lane / 8, lane % 8);
    let from = from + token * RECORD as u32 + ROTATED as u32 + piece * PIECE;
    let to = to + (LATENT / 64 * R) as u32 * LINE + Swizzle::<128>::offset(GROUP, LINE, token, piece * PIECE);
    // SAFETY: as above.
    unsafe {
        let [above, below] = [0, 4].map(|down| shared::load_u32x4(from + down * RECORD as u32));
        shared::store_u32x4(to, above);
        shared::store_u32x4(to ^ line(4), below);
    }
}

/// Eight codes times their scale, rounded to bf16.
#[inline(always)]
fn scaled(codes: [u32; 2], scale: f32) -> [u32; 4] {
    let (mut pairs, mut i) = ([0; 4], 0);
    while i < 4 {
        let pair = (codes[i / 2] >> (16 * (i as u32 % 2))) as u16;
        let [low, high] = cvt::f16x2_to_f32(cvt::e4m3x2_to_f16x2(pair));
        pairs[i] = cvt::bf16x2(low * scale, high * scale);
        i += 1;
    }
    pairs
}
