//! What a cache of 8 bits keeps of a token, as lines of a gemm's tile.

use core::marker::PhantomData;

use tilewright_device::arch::special::thread_x_volatile;
use tilewright_device::arch::{cvt, shared};
use tilewright_device::tile::{SharedLayout, Swizzle, TwoRoles};

use crate::records::{GROUP, LATENT, LINE, PIECE, RECORD, ROTATED, SCALED, SCALES};
use crate::relay::Filling;

/// Tokens of a group that are loaded ahead of the one that is written.
const AHEAD: usize = 3;

/// A group's lines of a tile of `R` lines, of a pattern of the swizzle: in this CTA, and in the other one of a cluster.
pub(crate) struct Lines<P, const R: usize> {
    to: u32,
    /// What to add to an address for the same in the other CTA, and the barrier there.
    other: [u32; 2],
    roles: PhantomData<P>,
}

impl<P: TwoRoles, const R: usize> Lines<P, R> {
    #[inline(always)]
    pub(crate) fn new(to: u32, full: &Filling, rank: u32) -> Self {
        let other = if P::CLUSTER == 1 {
            [0; 2]
        } else {
            [shared::mapa(to, rank ^ 1).wrapping_sub(to), shared::mapa(full.address(), rank ^ 1)]
        };
        Lines { to, other, roles: PhantomData }
    }

    /// Writes a group of records to them.
    ///
    /// # Safety
    /// A whole warp executes it; the records at `from` are readable, and the lines writable.
    #[inline(always)]
    pub(crate) unsafe fn widen(&self, from: u32) {
        let to = self.to;
        // Read anew, so that no address of a token is held in registers over the blocks.
        let lane = thread_x_volatile() % 32;
        // A thread has 16 columns, two pieces of the tile: four threads have a line of 64. Every other four, and of 16 threads the other half, begin with
        // the second, so that the threads whose accesses go together meet all banks.
        let second = ((lane / 4) ^ (lane / 8)) % 2;
        let halves = [second, second ^ 1].map(|half| from + lane * PIECE + 8 * half);
        let scales = from + SCALES as u32 + 4 * (lane / (SCALED as u32 / 16));
        // A token's line and its part of the swizzle, as one exclusive or.
        let line = |token: u32| Swizzle::<128>::offset(GROUP, LINE, token, 0);
        let pieces =
            [second, second ^ 1].map(|half| to + lane / 4 * R as u32 * LINE + (2 * lane % 8 + half) * PIECE);
        let load = |token: u32| {
            let record = token * RECORD as u32;
            // SAFETY: the caller's; inside the record.
            unsafe {
                (halves.map(|half| shared::load_u32x2(half + record)), shared::load_f32(scales + record))
            }
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
        let to =
            to + (LATENT / 64 * R) as u32 * LINE + Swizzle::<128>::offset(GROUP, LINE, token, piece * PIECE);
        // SAFETY: as above.
        unsafe {
            let [above, below] = [0, 4].map(|down| shared::load_u32x4(from + down * RECORD as u32));
            shared::store_u32x4(to, above);
            shared::store_u32x4(to ^ line(4), below);
            if P::CLUSTER > 1 {
                // Weights take the place of the rotary part: no copy may still read it.
                let [from_here, full] = self.other;
                shared::st_async_f32x4(to.wrapping_add(from_here), above.map(f32::from_bits), full);
                shared::st_async_f32x4(
                    (to ^ line(4)).wrapping_add(from_here),
                    below.map(f32::from_bits),
                    full,
                );
            }
        }
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
