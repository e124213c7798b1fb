//! Copies between tensors of one shape that have different dimensions of neighbours: through tiles of shared memory.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::shared::{load_u32, store_u32x4};
use tilewright_device::arch::special::{block_x, thread_x};
use tilewright_device::arch::sync::bar_sync;
use tilewright_device::kernel;
use tilewright_device::tile::{Collective, Cta, InBlock, Overlaps, TILE_ALIGN, barriers, math};

use crate::copies::RANK;
use crate::pieces::{PieceOrder, Strided, load_bits, load_skewed, store_bits};

/// Bytes of a vector, and of a tile.
const VECTOR: usize = 16;
const TILE: usize = 1 << 14;
/// Threads of a CTA, and the vectors that each takes of a tile.
const THREADS: usize = 256;
pub(crate) const EACH: usize = TILE / VECTOR / THREADS;

/// The two dimensions that change places.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// Elements of y's dimension of neighbours, and of x's.
    pub sizes: [u32; 2],
    /// 1 where lines of x, and of y, begin at multiples of 16 bytes.
    pub in_vectors: [u32; 2],
}

impl PassedAsIs for Exchanged {}

/// Elements of a tile, of so many bytes: of y's dimension of neighbours, and of x's.
pub(crate) const fn tile(bytes: usize) -> [usize; 2] {
    match bytes {
        4 => [64, 64],
        2 => [128, 64],
        _ => [128, 128],
    }
}

/// The vector that has element `which` of each word: of `VECTOR` bytes of elements, of 4 / `BYTES` in a word.
#[inline(always)]
fn gathered<const BYTES: usize>(words: [u32; VECTOR], which: usize) -> [u32; 4] {
    let mut vector = [0; 4];
    let mut i = 0;
    while i < 4 {
        let e = which as u32;
        vector[i] = match BYTES {
            4 => words[i],
            2 => math::prmt(words[2 * i], words[2 * i + 1], if e == 0 { 0x5410 } else { 0x7632 }),
            _ => {
                let both = e | (4 + e) << 4;
                let [low, high] = [0, 2].map(|k| math::prmt(words[4 * i + k], words[4 * i + k + 1], both));
                math::prmt(low, high, 0x5410)
            }
        };
        i += 1;
    }
    vector
}

/// y = x for elements of `BYTES` bytes, where y has neighbours in the last dimension but one and x in the last.
///
/// A CTA takes a tile of these two in the order of `order`, whose last two dimensions count tiles. Vectors of x go to shared memory as they
/// are, a row for each element of y's neighbours; a thread reads words of as many rows as y's vectors have elements. Swizzled, eight words of
/// four vectors' rows lie in all banks.
#[kernel(program = P)]
pub fn transposed<P: Collective + Overlaps, const BYTES: usize>(
    mut cta: Cta<P>,
    x: Strided<RANK>,
    y: Strided<RANK>,
    order: InBlock<PieceOrder<RANK>>,
    exchanged: Exchanged,
) {
    let order = order.get();
    const { assert!(P::THREADS as usize == THREADS, "threads share a tile evenly") };
    let (v, [rows, cols]) = (const { VECTOR / BYTES }, const { tile(BYTES) });
    let (row_bytes, bytes) = ((cols * BYTES) as u32, BYTES as u32);
    let [size, x_size] = exchanged.sizes;
    let at = cta.reserve(TILE as u32, TILE_ALIGN);
    let ([first, second, third, tile, x_tile], _) = order.at(block_x());
    let thread = thread_x();
    let element =
        |of: &Strided<RANK>, row: u32, col: u32| of.address_of([first, second, third, row, col], bytes);
    // Vectors of 16 bytes of a row of shared memory.
    let chunks = row_bytes / VECTOR as u32;
    let place = |i: usize| {
        let number = i as u32 * P::THREADS + thread;
        (number / chunks, number % chunks)
    };
    P::wait_for_preceding_grid();

    let mut read = [[0; 4]; EACH];
    let mut i = 0;
    while i < EACH {
        let (row, chunk) = place(i);
        let (row, col) = (tile * rows as u32 + row, x_tile * cols as u32 + chunk * v as u32);
        if exchanged.in_vectors[0] != 0 && x_size.saturating_sub(col) >= v as u32 {
            // SAFETY: a vector of x's neighbours, all of which are inside; the host checked how they lie.
            read[i] = unsafe { load_bits::<VECTOR>(element(&x, row, col), row < size, 0) };
        } else if row < size && col > 0 && x_size.saturating_sub(col) >= 2 * v as u32 {
            // SAFETY: as many of x's neighbours lie before and behind.
            read[i] = unsafe { load_skewed(element(&x, row, col), true) };
        } else {
            let mut e = 0;
            while e < v {
                let col = col + e as u32;
                // SAFETY: an element of x.
                let bits =
                    unsafe { load_bits::<BYTES>(element(&x, row, col), row < size && col < x_size, 0) };
                read[i][e * BYTES / 4] |= bits[0] << (e * BYTES % 4 * 8);
                e += 1;
            }
        }
        i += 1;
    }
    let mut i = 0;
    while i < EACH {
        let (row, chunk) = place(i);
        let chunk = chunk ^ (row / v as u32 % 4 * 2);
        // SAFETY: the tile is the CTA's; no other thread has this vector of it.
        unsafe { store_u32x4(at + row * row_bytes + chunk * VECTOR as u32, read[i]) };
        i += 1;
    }
    // SAFETY: all threads of the CTA come here.
    unsafe { bar_sync(barriers::KERNEL.get::<0>(), P::THREADS) };

    // Four vectors of eight words' elements to a warp: 64 neighbouring bytes of y, and all banks.
    let (vector_in, word_in) = (thread % 4, thread % 32 / 4);
    let groups = (rows / v / 4) as u32;
    let place = |i: usize| {
        let group = (i as u32 * P::THREADS + thread) / 32;
        (group % groups * 4 + vector_in, group / groups * 8 + word_in)
    };
    let (turns, in_word) = (const { TILE / 4 / (VECTOR / BYTES) / THREADS }, const { 4 / BYTES });
    let mut made = [[[0; 4]; 4]; EACH];
    let mut i = 0;
    while i < turns {
        let (vector, word) = place(i);
        let from = at + vector * v as u32 * row_bytes + (((word / 4) ^ (vector_in * 2)) * 4 + word % 4) * 4;
        let mut words = [0; VECTOR];
        let mut k = 0;
        while k < v {
            // SAFETY: a word of the tile, written before the barrier.
            words[k] = unsafe { load_u32(from + k as u32 * row_bytes) };
            k += 1;
        }
        let mut which = 0;
        while which < in_word {
            made[i][which] = gathered::<BYTES>(words, which);
            which += 1;
        }
        i += 1;
    }
    let first_col = x_tile * cols as u32;
    let whole = size.is_multiple_of(v as u32) || (tile + 1) * rows as u32 <= size;
    if exchanged.in_vectors[1] != 0 && whole {
        let mut i = 0;
        while i < turns {
            let ((vector, word), mut which) = (place(i), 0);
            let row = tile * rows as u32 + vector * v as u32;
            while which < in_word {
                let col = first_col + word * in_word as u32 + which as u32;
                let inside = row < size && col < x_size;
                // SAFETY: a vector of y's neighbours, which no other thread has.
                unsafe { store_bits::<VECTOR>(element(&y, row, col), made[i][which], inside) };
                which += 1;
            }
            i += 1;
        }
        return;
    }

    // Lines that begin anywhere go element by element, neighbours by neighbouring threads: through the tile's memory once more, a line for
    // each of x's neighbours. Swizzled: of two words' lines a warp's quarter stores four vectors each.
    let line_bytes = (rows * BYTES) as u32;
    // SAFETY: all threads of the CTA come here, and have read the tile; then no other thread has the vectors.
    unsafe {
        bar_sync(barriers::KERNEL.get::<0>(), P::THREADS);
        let mut i = 0;
        while i < turns {
            let ((vector, word), mut which) = (place(i), 0);
            while which < in_word {
                let line = word * in_word as u32 + which as u32;
                let vector = vector ^ (word % 2 * 4);
                store_u32x4(at + line * line_bytes + vector * VECTOR as u32, made[i][which]);
                which += 1;
            }
            i += 1;
        }
        bar_sync(barriers::KERNEL.get::<0>(), P::THREADS);
    }
    let (own, first) = (thread % rows as u32, thread / rows as u32);
    let (row, by) = (tile * rows as u32 + own, (THREADS / rows) as u32);
    let mut line = first;
    while line < cols as u32 {
        let (vector, byte) = ((own / v as u32) ^ (line / in_word as u32 % 2 * 4), own % v as u32 * bytes);
        let from = at + line * line_bytes + vector * VECTOR as u32 + byte;
        let col = first_col + line;
        // SAFETY: an element of the tile, written before the barrier, and one of y that no other thread has.
        unsafe {
            let bits = load_u32(from / 4 * 4) >> (from % 4 * 8);
            store_bits::<BYTES>(element(&y, row, col), [bits, 0, 0, 0], row < size && col < x_size);
        }
        line += by;
    }
}
