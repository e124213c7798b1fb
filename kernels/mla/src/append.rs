//! Tokens of 16 bits become those of a cache of 8.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{cvt, global, math, warp};
use tilewright_device::kernel;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{Overlaps, block_x};

use crate::records::{LATENT, RECORD, ROTARY, SCALED};

/// The largest e4m3.
const LARGEST: f32 = 448.0;
/// Columns of a thread: a warp has a token.
const EACH: usize = LATENT / 32;
/// Threads whose columns share a scale.
const SHARING: u32 = (SCALED / EACH) as u32;

/// Rows of bf16, each aligned to 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TokenRows {
    /// The address of the first.
    pub address: u64,
    /// Bytes from one to the next.
    pub stride: u64,
}

/// Where records go: a cache \[pages, rows of a page, 656\] of bytes, in lines aligned to 16, and for each token its row among those of all pages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RecordSlots {
    /// The address of the cache.
    pub cache: u64,
    /// Bytes from a page to the next, and from a row.
    pub strides: [u64; 2],
    /// The address of the tokens' rows, `i32`.
    pub slots: u64,
    /// Bytes from a token's row to the next one's.
    pub step: u64,
    /// By the rows of a page.
    pub by_page: Division,
    /// Rows of all pages.
    pub rows: u32,
    /// How many tokens there are.
    pub tokens: u32,
}

impl PassedAsIs for TokenRows {}
impl PassedAsIs for RecordSlots {}

/// Appends tokens to a cache of [records](RECORD): `latent` \[tokens, 512\] and `rotary` \[tokens, 64\]. A token whose row is negative or beyond the
/// cache's is not stored.
///
/// A scale is its columns' largest magnitude over 448, at least the least normal f32; a code is its element times the scale's reciprocal, rounded to
/// nearest even and saturated.
#[kernel(program = P)]
pub fn append_records<P: Overlaps>(latent: TokenRows, rotary: TokenRows, to: RecordSlots) {
    let (token, lane) = (block_x() * (P::THREADS / 32) + thread_x() / 32, thread_x() % 32);
    P::wait_for_preceding_grid();
    if token >= to.tokens {
        return;
    }
    // SAFETY: there are as many rows as tokens, and the cache is as large as it says; addresses and strides are multiples of 16. No two tokens have
    // the same row, or their bytes are any of both's.
    unsafe {
        let slot = global::ld_global_u32((to.slots + token as u64 * to.step) as *const u32);
        if slot >= to.rows {
            return;
        }
        let (page, row) = to.by_page.of(slot);
        let record = to.cache + page as u64 * to.strides[0] + row as u64 * to.strides[1];
        let from = latent.address + token as u64 * latent.stride + (lane as usize * EACH * 2) as u64;
        let [low, high] = [0, 16].map(|byte| global::ld_global_u32x4((from + byte) as *const [u32; 4]));
        let mut x = [0.0; EACH];
        let (mut most, mut i) = (0.0, 0);
        while i < EACH / 2 {
            [x[2 * i], x[2 * i + 1]] = cvt::bf16x2_to_f32(if i < 4 { low[i] } else { high[i - 4] });
            most = math::max(most, math::max(x[2 * i].abs(), x[2 * i + 1].abs()));
            i += 1;
        }
        let mut mask = 1;
        while mask < SHARING {
            most = math::max(most, warp::shfl_bfly_f32(most, mask));
            mask *= 2;
        }
        let scale = math::max(most * (1.0 / LARGEST), f32::MIN_POSITIVE);
        let inverse = 1.0 / scale;
        let (mut codes, mut i) = ([0; 4], 0);
        while i < 4 {
            let of = |e: usize| x[4 * i + e] * inverse;
            codes[i] = cvt::e4m3x4([of(0), of(1), of(2), of(3)]);
            i += 1;
        }
        global::st_global_u32x4((record + (lane as usize * EACH) as u64) as *mut [u32; 4], codes);
        if lane.is_multiple_of(SHARING) {
            let at = record + LATENT as u64 + (lane / SHARING * 4) as u64;
            global::st_global_u32(at as *mut u32, scale.to_bits());
        }
        if lane < (ROTARY / 8) as u32 {
            let from = rotary.address + token as u64 * rotary.stride + lane as u64 * 16;
            let piece = global::ld_global_u32x4(from as *const [u32; 4]);
            let to = record + (RECORD - 2 * ROTARY) as u64 + lane as u64 * 16;
            global::st_global_u32x4(to as *mut [u32; 4], piece);
        }
    }
}
