//! V of 8-bit floats as products take it: keys contiguous, in the order of the scores' registers.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::arch::special::{lane, thread_x};
use tilewright_device::kernel;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{Overlaps, block_x, byte_column, math};

/// Keys and columns that a warp takes: whole sectors of the L2 cache of V's lines, and of those that it writes.
pub const VALUES_TILE: [u32; 2] = [64, 32];
/// Keys and columns that a thread takes.
const KEYS: usize = 16;
const COLUMNS: usize = 4;
/// Threads of a warp along the columns.
const ALONG: u32 = VALUES_TILE[1] / COLUMNS as u32;

/// Which of 16 keys' bytes lie in a vector, in order: the inverse of [`byte_column`].
const ORDER: [usize; 16] = {
    let mut order = [0; 16];
    let mut key = 0;
    while key < 16 {
        order[byte_column(key) as usize] = key as usize;
        key += 1;
    }
    order
};

/// Where V lies, and where it goes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// Address of V \[batch, KV heads, keys, DV\]; columns are contiguous, in multiples of 4, and lines begin at multiples of 4 bytes.
    pub from: u64,
    /// Bytes from a sequence of V to the next one, from a head and from a key.
    pub strides: [u64; 3],
    /// Address of \[batch, KV heads, DV, keys up to a multiple of 64\], contiguous, aligned to 16 bytes.
    pub to: u64,
    /// Divides by the tiles along the columns.
    pub by_columns: Division,
    /// Divides by the tiles along the keys.
    pub by_keys: Division,
    /// Divides by KV heads.
    pub by_heads: Division,
    /// Keys.
    pub keys: u32,
    /// Columns of V.
    pub columns: u32,
    /// Tiles in all.
    pub tiles: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl PassedAsIs for Values {}

/// The byte `which` of each of four words.
#[inline(always)]
fn bytes_of(words: [u32; 4], which: u32) -> u32 {
    let both = which | (4 + which) << 4;
    let [low, high] = [0, 2].map(|i| math::prmt(words[i], words[i + 1], both));
    math::prmt(low, high, 0x5410)
}

/// V with its last two dimensions changed, 16 keys at a time in the order in which [`e4m3_operand`](tilewright_device::tile::Fragment::e4m3_operand) has the columns of
/// scores; keys that are not there are zeros. A warp takes a tile, a thread 16 keys of 4 columns.
#[kernel(program = P)]
pub fn transpose_values<P: Overlaps>(values: Values) {
    let [keys, columns] = VALUES_TILE;
    let tile = block_x() * (P::THREADS / 32) + thread_x() / 32;
    let (rest, along_columns) = values.by_columns.of(tile);
    let (matrix, along_keys) = values.by_keys.of(rest);
    let (sequence, head) = values.by_heads.of(matrix);
    let first_key = along_keys * keys + lane() / ALONG * KEYS as u32;
    let column = along_columns * columns + lane() % ALONG * COLUMNS as u32;
    if tile >= values.tiles || column >= values.columns {
        return;
    }
    let [of_sequence, of_head, of_key] = values.strides;
    let from = values.from + sequence as u64 * of_sequence + head as u64 * of_head + column as u64;
    P::wait_for_preceding_grid();
    let mut read = [0; KEYS];
    let mut i = 0;
    while i < KEYS {
        let key = first_key + i as u32;
        // SAFETY: four columns of a key that is there, by the strides that the host checked; nobody writes V meanwhile.
        read[i] = unsafe {
            global::ld_global_u32_if((from + key as u64 * of_key) as *const u32, key < values.keys)
        };
        i += 1;
    }
    let line = values.by_keys.divisor as u64 * keys as u64;
    let mut c = 0;
    while c < COLUMNS {
        let mut vector = [0; 4];
        let mut word = 0;
        while word < 4 {
            vector[word] = bytes_of([0, 1, 2, 3].map(|i| read[ORDER[word * 4 + i]]), c as u32);
            word += 1;
        }
        let row = matrix as u64 * values.columns as u64 + (column + c as u32) as u64;
        let to = values.to + row * line + first_key as u64;
        // SAFETY: 16 bytes of the room, which no other thread has; lines are multiples of 64 bytes from a multiple of 16 on.
        unsafe { global::st_global_u32x4(to as *mut [u32; 4], vector) };
        c += 1;
    }
}
