//! Tokens of a latent cache of 8 bits, as they lie in memory, and as a gemm's tile.

use core::ptr;

use tilewright_device::arch::cvt;
use tilewright_device::arch::shared::{self, dynamic_shared, dynamic_shared_volatile};
use tilewright_device::arch::special::thread_x;
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
const AHEAD: usize = 2;
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
            while i < GROUPS {
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
    fn copy(&self, i: usize, Place { page, row }: Place) {
        let (cache, group) = (self.cache.get(), self.first + i as u32);
        let (pool, lane, lanes) = (cache.pool.0, thread_x() % 32, i as u32 * GROUP);
        let ([pages, _, rows, _], [by_page, _, by_row, _]) = (pool.shape(), pool.strides());
        let from = pool.pointer() as u64 + u64::from(page) * by_page + u64::from(row) * by_row;
        let (to, full) = (self.records.group(group), self.records.full(group));
        // SAFETY: the warp executes it whole, and has left the records that were here. Only tokens of the pool are copied, whose addresses and bytes are
        // multiples of 16; the barrier's phase does not complete before the arrival, which says how many bytes are to come.
        unsafe {
            let there = vote_ballot(page < pages && row < rows) >> lanes & ((1 << GROUP) - 1);
            if there + 1 != 1 << GROUP {
                let token = lane.wrapping_sub(lanes);
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
            let neighbours = cache.pages.log2_rows >= GROUP.ilog2() && by_row == RECORD as u64;
            if neighbours && there + 1 == 1 << GROUP {
                let from = lane_address(from, lanes);
                if elect_one() {
                    mbarrier::arrive_expect_tx(full, GROUP * RECORD as u32);
                    tma::bulk_load(to, from, GROUP * RECORD as u32, full);
                }
            } else {
                let bytes = there.count_ones() * RECORD as u32;
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
                            mbarrier::arrive_expect_tx(full, bytes);
                        }
                        let mut token = 0;
                        while token < TOGETHER {
                            let number = first + token as u32;
                            if there >> number & 1 != 0 {
                                tma::bulk_load(to + number * RECORD as u32, each[token], RECORD as u32, full);
                            }
                            token += 1;
                        }
                    }
                    first += TOGETHER as u32;
                }
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
        let mut i = 0;
        while i < GROUPS {
            let group = self.first + i as u32;
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
    let lane = thread_x() % 32;
    let place = |token: u32, piece: u32| {
        let offset = Swizzle::<128>::offset(GROUP, LINE, token, piece % 8 * PIECE);
        to + piece / 8 * R as u32 * LINE + offset
    };
    // A thread has 16 columns, two pieces of the tile. Four have a line of 64 columns: the next four are a token apart, so that eight threads' pieces
    // are in all banks.
    let token = |step: u32| step ^ (lane / 4 % 2);
    let load = |step: u32| {
        let record = from + token(step) * RECORD as u32;
        // SAFETY: the caller's; inside the record.
        unsafe {
            let scale = shared::load_f32(record + SCALES as u32 + 4 * (lane / (SCALED as u32 / 16)));
            (shared::load_u32x4(record + lane * PIECE), scale)
        }
    };
    // Loaded ahead: a store keeps loads behind it from being begun before it.
    let mut loaded = [([0; 4], 0.0); AHEAD];
    let mut step = 0;
    while step < AHEAD {
        loaded[step] = load(step as u32);
        step += 1;
    }
    let mut step = 0;
    while step < GROUP as usize {
        let (codes, scale) = loaded[step % AHEAD];
        if step + AHEAD < GROUP as usize {
            loaded[step % AHEAD] = load((step + AHEAD) as u32);
        }
        let token = token(step as u32);
        // SAFETY: the caller's; inside the line.
        unsafe {
            shared::store_u32x4(place(token, 2 * lane), scaled([codes[0], codes[1]], scale));
            shared::store_u32x4(place(token, 2 * lane + 1), scaled([codes[2], codes[3]], scale));
        }
        step += 1;
    }
    let (token, piece) = (lane / 8, lane % 8);
    let rotary = |token: u32| from + token * RECORD as u32 + ROTATED as u32 + piece * PIECE;
    // SAFETY: as above.
    unsafe {
        let pieces = [0, 4].map(|below| shared::load_u32x4(rotary(token + below)));
        shared::store_u32x4(place(token, LATENT as u32 / 8 + piece), pieces[0]);
        shared::store_u32x4(place(token + 4, LATENT as u32 / 8 + piece), pieces[1]);
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
