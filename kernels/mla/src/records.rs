//! Tokens of a latent cache of 8 bits, as they lie in memory, and as a gemm's tile.

use tilewright_device::arch::cvt;
use tilewright_device::arch::shared::{self, dynamic_shared, dynamic_shared_volatile};
use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::warp::{uniform, vote_ballot};
use tilewright_device::arch::{mbarrier, sync, tma};
use tilewright_device::tile::{Cta, InBlock, Shared, SharedLayout, Swizzle, TwoRoles, bf16};

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
                P::FILLING > 0 && (R as u32).is_multiple_of(GROUP * P::FILLING),
                "each warp of the role that fills stages has whole groups of a block's tokens"
            )
        };
        let groups = R as u32 / GROUP;
        let begin = cta.reserve((R * RECORD) as u32 + 8 * groups, PIECE) - dynamic_shared();
        let records = Records { begin };
        if thread_x() == 0 {
            // SAFETY: the memory was just taken; nobody uses the barriers before the relay's threads met.
            unsafe {
                let mut group = 0;
                while group < groups {
                    mbarrier::init(records.full(group), 1);
                    group += 1;
                }
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
        let warp = uniform(thread_x() / 32) - (P::WARPS[0] + P::WARPS[1]);
        let groups = R as u32 / GROUP / P::FILLING;
        let mut arriving = Arriving { records: self, cache, blocks, first: warp * groups, groups, phase: 0 };
        arriving.copy_block();
        arriving
    }
}

/// Records on their way: those of the next block, in a warp.
pub struct Arriving<'r, const R: usize> {
    records: &'r Records<R>,
    cache: InBlock<Pooled<u8, 1, 1>>,
    /// Those that were not copied yet.
    blocks: KeyBlocks,
    /// The warp's first group, and how many it has.
    first: u32,
    groups: u32,
    /// The parity of the barriers' phase.
    phase: u32,
}

impl<const R: usize> Arriving<'_, R> {
    /// Copies the next block's records, if there is one.
    #[inline(always)]
    fn copy_block(&mut self) {
        if let Some(block) = self.blocks.next() {
            let mut group = self.first;
            while group < self.first + self.groups {
                self.copy(group, block);
                group += 1;
            }
        }
    }

    /// Copies a group's records, each by a thread. Those behind the sequence's last and in pages that the cache does not have become zeros.
    #[inline(always)]
    fn copy(&self, group: u32, [sequence, length, begin]: [u32; 3]) {
        let lane = thread_x() % 32;
        let token = begin + group * GROUP + lane;
        let (to, full) = (self.records.group(group) + lane * RECORD as u32, self.records.full(group));
        let Pooled { pool, pages } = self.cache.get();
        let (mine, inside) = (lane < GROUP, token < length);
        let (page, row) = if mine & inside { pages.place(sequence, token) } else { (u32::MAX, 0) };
        let there = mine & inside && page < pool.0.shape()[0] && row < pool.0.shape()[2];
        // SAFETY: the warp has left the records that were here. Only tokens inside the pool are copied, whose addresses and bytes are multiples of
        // 16; the barrier expects them all before they are copied, and its phase does not complete before the arrival.
        unsafe {
            let bytes = vote_ballot(there).count_ones() * RECORD as u32;
            if lane == 0 {
                mbarrier::expect_tx(full, bytes);
            }
            // Zeros that were written here come before what is copied here.
            sync::fence_proxy_async_shared();
            sync::sync_warp();
            if there {
                let at = page as u64 * pool.0.strides()[0] + row as u64 * pool.0.strides()[2];
                let from = pool.0.pointer().cast::<u8>().wrapping_add(at as usize);
                tma::bulk_load(to, from, RECORD as u32, full);
            } else if mine {
                let mut byte = 0;
                while byte < RECORD as u32 {
                    shared::store_u32x4(to + byte, [0; 4]);
                    byte += PIECE;
                }
            }
            sync::sync_warp();
            if lane == 0 {
                mbarrier::arrive(full);
            }
        }
    }

    /// Writes the next block to a tile: codes times their scales, rounded to nearest even, and the rotary part as it is. Where a warp is done with a
    /// group of tokens, it copies those of the block behind.
    #[inline(always)]
    pub fn widen(&mut self, to: Rewritten<'_, Shared<bf16, R, { LATENT + ROTARY }, Swizzle<128>>>) {
        let behind = self.blocks.next();
        let mut group = self.first;
        while group < self.first + self.groups {
            // SAFETY: the barrier is initialised; the warp's tokens are there behind it, and the tile's turn is this role's.
            unsafe {
                mbarrier::wait(self.records.full(group), self.phase);
                widen_group::<R>(self.records.group(group), to.address() + group * GROUP * LINE);
                sync::sync_warp();
            }
            if let Some(block) = behind {
                self.copy(group, block);
            }
            group += 1;
        }
        self.phase ^= 1;
    }
}

/// Writes a group of records to their lines of a tile of `R` lines.
///
/// # Safety
/// A whole warp executes it; the records at `from` and the lines from `to` on, of a pattern of the swizzle, are readable, and writable.
#[inline(always)]
unsafe fn widen_group<const R: usize>(from: u32, to: u32) {
    let lane = thread_x() % 32;
    // A piece of the tile is 8 columns: 8 threads have a line of a plane, which meets all banks.
    let (plane, piece) = (lane / 8, lane % 8);
    let place = |token: u32, plane: u32| {
        to + plane * R as u32 * LINE + Swizzle::<128>::offset(GROUP, LINE, token, piece * PIECE)
    };
    let mut token = 0;
    while token < GROUP {
        let record = from + token * RECORD as u32;
        let mut across = 0;
        while across < LATENT as u32 / 64 {
            // SAFETY: the caller's; inside the record, and the line.
            unsafe {
                let codes = shared::load_u32x2(record + 8 * (lane + 8 * across));
                let scale =
                    shared::load_f32(record + SCALES as u32 + 4 * ((plane + across) / (SCALED as u32 / 64)));
                shared::store_u32x4(place(token, plane + across), scaled(codes, scale));
            }
            across += 4;
        }
        token += 1;
    }
    let mut token = plane;
    while token < GROUP {
        // SAFETY: as above.
        unsafe {
            let rotary = shared::load_u32x4(from + token * RECORD as u32 + ROTATED as u32 + piece * PIECE);
            shared::store_u32x4(place(token, LATENT as u32 / 64), rotary);
        }
        token += 4;
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
