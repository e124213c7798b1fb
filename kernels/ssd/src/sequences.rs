//! Where sequences lie, and the part of one that a CTA takes.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::tile::{block_x, block_y, block_z};

use crate::tokens::BLOCK;

/// Sequences: each a matrix of its own, or one after the other in the rows of one matrix.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sequences {
    /// Address of where each begins and the last one ends, integers; 0 where each is a matrix of its own.
    pub offsets: u64,
    /// Rows of a matrix: what offsets are cut off at.
    pub rows: u32,
    /// The most rows of a sequence: those behind are not computed.
    pub longest: u32,
    /// From one offset to the next, of which the low 32 bits are read as `i32`.
    pub log2_bytes: u32,
    /// Nothing.
    pub padding: u32,
}

impl PassedAsIs for Sequences {}

/// A sequence's rows.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// The matrix that they are in.
    pub matrix: u32,
    /// The first of them.
    pub first: u32,
    /// How many there are.
    pub rows: u32,
    /// The first of its blocks of [`BLOCK`] tokens, among the matrix's.
    pub block: u32,
}

impl Sequences {
    /// Sequence `i`.
    #[inline(always)]
    pub fn get(&self, i: u32) -> Sequence {
        if self.offsets == 0 {
            return Sequence { matrix: i, first: 0, rows: self.rows, block: 0 };
        }
        let at = |i: u32| {
            let at = self.offsets + ((i as u64) << self.log2_bytes);
            // SAFETY: the host passes an offset more than there are sequences.
            (unsafe { global::ld_global_u32(at as *const u32) } as i32).max(0).cast_unsigned().min(self.rows)
        };
        let first = at(i);
        // No two sequences share a block: each begins one that is partly its predecessor's anew.
        Sequence {
            matrix: 0,
            first,
            rows: at(i + 1).saturating_sub(first).min(self.longest),
            block: first / BLOCK + i,
        }
    }
}

/// How heads and sequences are shared out among CTAs: (head · parts + part of its columns, chunk, sequence).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// Tiles of columns that a head has.
    pub parts: u32,
    /// Heads that share a group's B and C.
    pub heads_per_group: u32,
    /// Blocks of a chunk.
    pub blocks: u32,
}

impl PassedAsIs for Chunks {}

/// What a CTA takes: some blocks of one head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) sequence: Sequence,
    /// Which sequence it is.
    pub(crate) number: u32,
    pub(crate) head: u32,
    pub(crate) group: u32,
    pub(crate) part: u32,
    /// Which of the sequence's chunks.
    pub(crate) index: u32,
    /// Its first block, among the sequence's.
    pub(crate) first: u32,
    /// Blocks that it has.
    pub(crate) blocks: u32,
    /// Whether the sequence ends with it.
    pub(crate) last: bool,
}

impl Chunks {
    /// This CTA's. A sequence without tokens has one chunk without blocks.
    #[inline(always)]
    pub(crate) fn own(&self, sequences: &Sequences) -> Chunk {
        let (parts, index, number) = (self.parts.max(1), block_y(), block_z());
        let head = block_x() / parts;
        let sequence = sequences.get(number);
        let all = sequence.rows.div_ceil(BLOCK);
        let first = index * self.blocks;
        let blocks = all.saturating_sub(first).min(self.blocks);
        Chunk {
            sequence,
            number,
            head,
            group: head / self.heads_per_group.max(1),
            part: block_x() % parts,
            index,
            first,
            blocks,
            last: first + blocks == all && (blocks > 0 || index == 0),
        }
    }
}
