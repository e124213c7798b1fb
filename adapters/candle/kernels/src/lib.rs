//! The adapter's own kernels. This crate is compiled twice: to PTX, and for the host, which takes types and constants from it.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use tilewright_device::arch::global;
use tilewright_device::arch::special::{block_x, block_y, thread_x};
use tilewright_device::kernel;

/// Threads of a CTA.
pub const THREADS: u32 = 256;
/// Bytes that a thread copies.
pub const PIECE: u32 = 16;

/// Copies the keys and values of tokens to their rows of two caches: a piece of 16 bytes a thread, those of keys in the first row of CTAs, those of values in
/// the second.
///
/// `keys` and `values` are addresses of lines of `pieces` pieces, in heads of `head_pieces`: a line begins `*_token` bytes after the one before it, a head `*_head`
/// after the one before it. The caches have `rows` rows of `pieces` pieces without gaps. `slots` has the row of each of `tokens` lines; a line whose
/// row is not below `rows` goes nowhere.
///
/// # Safety
/// At the addresses lies as much of each, aligned to 16 bytes, `slots` to 4; nothing else uses the caches' rows that are written, and no two lines have the
/// same row. `tokens` times `pieces` is below 2^32.
#[kernel(threads = THREADS)]
pub unsafe fn append(
    keys: u64,
    values: u64,
    key_cache: u64,
    value_cache: u64,
    slots: u64,
    keys_token: u64,
    keys_head: u64,
    values_token: u64,
    values_head: u64,
    tokens: u32,
    rows: u32,
    pieces: u32,
    head_pieces: u32,
) {
    let at = block_x() * THREADS + thread_x();
    if at < tokens * pieces {
        let (token, piece) = (at / pieces, at % pieces);
        let (head, inside) = (piece / head_pieces, piece % head_pieces);
        let (from, token_bytes, head_bytes, to) = if block_y() == 0 {
            (keys, keys_token, keys_head, key_cache)
        } else {
            (values, values_token, values_head, value_cache)
        };
        let from = from + token as u64 * token_bytes + head as u64 * head_bytes + (inside * PIECE) as u64;
        // SAFETY: a line's row, and a piece of the line, of which there are as many; the row is one of the cache's.
        unsafe {
            let slot = global::ld_global_u32((slots as *const u32).wrapping_add(token as usize));
            if slot < rows {
                let line = global::ld_global_u32x4(from as *const [u32; 4]);
                let to = to + (slot as u64 * pieces as u64 + piece as u64) * PIECE as u64;
                global::st_global_u32x4(to as *mut [u32; 4], line);
            }
        }
    }
}

/// The kernels, compiled.
#[cfg(feature = "build")]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
