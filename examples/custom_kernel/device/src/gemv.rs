//! A kernel by threads: no tiles, each thread has addresses and registers of its own.

use tilewright_device::arch::special::{block_x, thread_x};
use tilewright_device::arch::{cvt, global, shared, sync, warp};
use tilewright_device::layout::packed::{DEPTH, Order, Packed, ROWS as BLOCK_ROWS};
use tilewright_device::tile::{Decode, U4};
use tilewright_device::{f16, kernel, kernels};

/// Warps of a CTA, which take a row's blocks of depth in turn.
pub const WARPS: usize = 8;
/// Rows of a CTA: what one warp has of a block.
pub const ROWS: u32 = 16;
/// Columns of W that share a scale.
pub const GROUP: u32 = 128;
/// Blocks whose codes a lane loads before it works on the first of them.
const AHEAD: usize = 4;

const THREADS: u32 = 32 * WARPS as u32;
const CODES: Packed = Packed::new(Order::B16, 4).unwrap();
/// Bytes of a block's part of x: pairs in the order in which lanes take them.
const X_BYTES: u32 = DEPTH * 2;

/// y = W x in f32 for u4 weights W \[N, K\] in the packed form, order `B16`, with f16 scales of groups of 128.
///
/// `codes`: blocks \[N / 64\]\[K / 64\] of 2048 bytes, padded; `scales`: \[groups\]\[N padded\]; `x` \[K\], `y` \[N\]. All are addresses,
/// of codes a multiple of 16; `depth` counts blocks along K, `k` at most `MOST` columns. A CTA computes 16 rows.
///
/// # Safety
/// At the addresses lies as much of each, and nothing else uses y.
#[kernel(
    threads = THREADS,
    shared = 2 * MOST as u32 + ROWS * 4 * WARPS as u32,
    expects(k <= MOST as u32, depth == k.div_ceil(DEPTH)),
)]
pub unsafe fn gemv<const MOST: usize>(codes: u64, scales: u64, x: u64, y: u64, n: u32, k: u32, depth: u32) {
    let (thread, first) = (thread_x(), block_x() * ROWS);
    let (lane, warp_id) = (thread % 32, thread / 32);
    let (x_s, sums_s) = (shared::dynamic_shared(), shared::dynamic_shared() + 2 * MOST as u32);
    // SAFETY: `k` elements of x are readable, and the shared memory has room for `MOST`, to which K is rounded up at most.
    unsafe {
        let mut pair = thread;
        while pair < depth * DEPTH / 2 {
            let at = |i: u32| (x as *const u16).wrapping_add(i as usize);
            let [low, high] = [2 * pair, 2 * pair + 1].map(|i| global::ld_global_u16_if(at(i), i < k) as u32);
            // Of 8 pairs lane q of a quad takes q and q + 4, of a block's 32 pairs eight: they become neighbours.
            let (block, step, half, q) = (pair / 32, pair % 32 / 8, pair % 8 / 4, pair % 4);
            shared::store_u32(x_s + block * X_BYTES + (q * 8 + step * 2 + half) * 4, low | high << 16);
            pair += THREADS;
        }
        sync::bar_sync(0, THREADS);
    }

    let padded = n.next_multiple_of(BLOCK_ROWS);
    let row = first + lane / 4;
    // The lane of the block, of 128, that this lane is.
    let place = first % BLOCK_ROWS / ROWS * 32 + lane;
    let codes =
        codes + (first / BLOCK_ROWS * depth * CODES.block_bytes() + place * CODES.lane_bytes()) as u64;
    let mut sums = [0.0f32; 2];
    let mut block = warp_id;
    while block < depth {
        let mut words = [[0u32; 4]; AHEAD];
        let mut i = 0;
        while i < AHEAD {
            let at = block + (i * WARPS) as u32;
            if at < depth {
                let from = codes + at as u64 * CODES.block_bytes() as u64;
                // SAFETY: a block's codes, which nobody writes; a lane's are 16 bytes from a multiple of 16 on.
                words[i] = unsafe { global::ld_global_nc_u32x4_once(from as *const [u32; 4]) };
            }
            i += 1;
        }
        let mut i = 0;
        while i < AHEAD && block + ((i * WARPS) as u32) < depth {
            let at = block + (i * WARPS) as u32;
            let scale = |row: u32| {
                let from = scales + (at * DEPTH / GROUP * padded + row) as u64 * 2;
                // SAFETY: a scale of the padded rows, which nobody writes.
                cvt::f16_to_f32(f16::from_bits(unsafe { global::ld_global_nc_u16(from as *const u16) }))
            };
            let products = dot(words[i], x_s + at * X_BYTES + lane % 4 * 32);
            sums[0] += scale(row) * products[0];
            sums[1] += scale(row + 8) * products[1];
            i += 1;
        }
        block += (AHEAD * WARPS) as u32;
    }

    // SAFETY: all threads come here, and whole warps to the shuffles; a word of shared memory has one writer.
    unsafe {
        let mut r = 0;
        while r < 2 {
            sums[r] += warp::shfl_bfly_f32(sums[r], 1);
            sums[r] += warp::shfl_bfly_f32(sums[r], 2);
            if lane.is_multiple_of(4) {
                let row = lane / 4 + 8 * r as u32;
                shared::store_u32(sums_s + (warp_id * ROWS + row) * 4, sums[r].to_bits());
            }
            r += 1;
        }
        sync::bar_sync(0, THREADS);
        if thread < ROWS && first + thread < n {
            let mut sum = 0.0;
            let mut other = 0;
            while other < WARPS as u32 {
                sum += f32::from_bits(shared::load_u32(sums_s + (other * ROWS + thread) * 4));
                other += 1;
            }
            global::st_global_u32((y as *mut u32).wrapping_add((first + thread) as usize), sum.to_bits());
        }
    }
}

/// The products of a lane's 32 codes, of two rows, with their pairs of x, which lie at `x`.
#[inline(always)]
fn dot(words: [u32; 4], x: u32) -> [f32; 2] {
    let words = [words[0], words[1], words[2], words[3], 0, 0, 0, 0];
    let mut sums = [0.0; 2];
    let mut half = 0;
    while half < 2 {
        // SAFETY: a lane's 32 bytes of a block's part of x, which was written before the barrier.
        let pairs = unsafe { shared::load_u32x4(x + half * 16) };
        let mut i = 0;
        while i < 4 {
            let x = cvt::f16x2_to_f32(pairs[i as usize]);
            let mut row = 0;
            while row < 2 {
                // Register r of four a step: row r % 2, columns r / 2 (layout::packed).
                let register = (half * 2 + i / 2) * 4 + i % 2 * 2 + row;
                let q = cvt::f16x2_to_f32(<U4 as Decode<f16>>::register(&words, register));
                sums[row as usize] += q[0] * x[0] + q[1] * x[1];
                row += 1;
            }
            i += 1;
        }
        half += 1;
    }
    sums
}

/// The kernel for up to 16384 columns.
pub type Gemv = gemv<16384>;

kernels! {
    gemv_u4: Gemv;
}
