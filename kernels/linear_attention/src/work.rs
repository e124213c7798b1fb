//! Which part of which sequence a CTA takes.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::arch::special::trap;
use tilewright_device::tile::{block_x, block_y, block_z};

use crate::policy::CHUNK;

/// How the grid is shared out: in x segments of a sequence and, faster, blocks of V's columns; in y heads; in z sequences.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Address of where each sequence begins and the last one ends, integers; 0 where each sequence is a matrix of its own.
    pub offsets: u64,
    /// Rows of a matrix: what offsets are cut off at.
    pub rows: u32,
    /// Chunks of a segment.
    pub chunks: u32,
    /// Blocks of V's columns.
    pub blocks: u32,
    /// Sequences.
    pub sequences: u32,
    /// Chunks of all sequences, of a head.
    pub slots: u32,
    /// From one offset to the next, of which the low 32 bits are read as `i32`.
    pub log2_bytes: u32,
}

impl PassedAsIs for Work {}

/// A CTA's part.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The matrix that holds its rows.
    pub matrix: u32,
    /// The head.
    pub head: u32,
    /// The block of V's columns.
    pub block: u32,
    /// Where its first chunk lies among all chunks of all heads.
    pub slot: u32,
    /// Where states of its segment and sequence lie among others of its head.
    pub state: u32,
    /// The first row.
    pub first: u32,
    /// Rows.
    pub rows: u32,
}

impl Work {
    /// The rows of a sequence: where they begin in their matrix, and how many.
    #[inline(always)]
    pub fn sequence(&self, i: u32) -> (u32, u32) {
        if self.offsets == 0 {
            return (0, self.rows);
        }
        let at = |i: u32| {
            let at = self.offsets + ((i as u64) << self.log2_bytes);
            // SAFETY: the host passes an offset more than there are sequences.
            (unsafe { global::ld_global_u32(at as *const u32) } as i32).max(0).cast_unsigned().min(self.rows)
        };
        let first = at(i);
        (first, at(i + 1).saturating_sub(first))
    }

    /// The part of this CTA.
    #[inline(always)]
    pub fn part(&self) -> Part {
        // The host makes one at least. Said here, divisions do not panic, which is a call; `max(1)` costs a register that some kernels do not have.
        if self.blocks == 0 {
            trap();
        }
        let (segment, block, head, sequence) =
            (block_x() / self.blocks, block_x() % self.blocks, block_y(), block_z());
        let (first, rows) = self.sequence(sequence);
        let (before, most) = (segment.saturating_mul(self.chunks * CHUNK as u32), self.chunks * CHUNK as u32);
        let chunks = segment.saturating_mul(self.chunks);
        Part {
            slot: head * self.slots
                + chunks
                + match self.offsets {
                    0 => sequence * self.rows.div_ceil(CHUNK as u32),
                    _ => first / CHUNK as u32 + sequence,
                },
            matrix: if self.offsets == 0 { sequence } else { 0 },
            head,
            block,
            state: segment * self.sequences + sequence,
            first: first + before.min(rows),
            rows: rows.saturating_sub(before).min(most),
        }
    }
}

impl Part {
    /// Its chunks.
    #[inline(always)]
    pub fn chunks(&self) -> u32 {
        self.rows.div_ceil(CHUNK as u32)
    }
}
