//! Where the queries and keys of a sequence lie, and what is known of its queries.

use tilewright_device::abi::PassedAsIs;

use super::stats::LINE;
use crate::sequences::{Packed, Sequences};
use crate::{Keys, Sequence};

/// Queries to multiples of which each sequence's statistics and sums are rounded up.
pub const ALIGNED: u32 = 128;

/// The sequences of a gradient: packed, or of one length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ranges {
    /// Packed ones which keys queries see, in one matrix each.
    pub packed: Packed,
    /// Of sequences that are not packed.
    pub keys: Keys,
    /// 1 where sequences are packed.
    pub is_packed: u32,
    /// The most queries of a sequence: others are not there.
    pub longest: u32,
    /// Heads that share a head of keys and values.
    pub shared_by: u32,
}

/// A sequence's rows.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Which of the tensors' matrices they are in.
    pub matrix: u32,
    /// The first row of Q, O and dO.
    pub first_query: u32,
    /// Rows of those.
    pub queries: u32,
    /// The first row of K and V.
    pub first_key: u32,
    /// The first line of statistics.
    pub first_line: u32,
    /// Which keys its queries see.
    pub keys: Keys,
}

impl Ranges {
    /// Sequence `i`.
    ///
    /// Each one's statistics begin at a multiple of 128 queries, and none reach into the next one's, whose rows begin no earlier than these end.
    #[inline(always)]
    pub fn sequence(&self, i: u32) -> Range {
        if self.is_packed == 0 {
            let (queries, Keys { count, low, high, .. }) = (self.longest, self.keys);
            // Only slopes want the key that query 0 is aligned with, of `own_key`: four numbers in one piece would be kept in local memory.
            let keys = Keys { count, low, high, own: 0 };
            return Range { matrix: i, first_query: 0, queries, first_key: 0, first_line: 0, keys };
        }
        let Sequence { batch, first_query, queries, first_key, keys } = self.packed.get(i);
        let first_line = (first_query + i * ALIGNED) / ALIGNED * (ALIGNED / LINE);
        Range { matrix: batch, first_query, queries: queries.min(self.longest), first_key, first_line, keys }
    }

    /// The key that query 0 of sequence `i` is aligned with.
    #[inline(always)]
    pub fn own_key(&self, i: u32) -> i32 {
        if self.is_packed == 0 { self.keys.own } else { self.packed.get(i).keys.own }
    }

    /// Sequences of one length, each a matrix of its own.
    pub const fn equal(keys: Keys, queries: u32, shared_by: u32) -> Self {
        let packed = Packed {
            query_offsets: 0,
            keys: 0,
            all: [0; 2],
            left: 0,
            right: 0,
            log2_bytes: [0; 2],
            offset_keys: 1,
            fewest_keys: 0,
        };
        Ranges { packed, keys, is_packed: 0, longest: queries, shared_by }
    }

    /// Sequences one after the other in the rows of one matrix.
    pub const fn packed(packed: Packed, longest: u32, shared_by: u32) -> Self {
        Ranges { packed, keys: Keys { count: 0, low: 0, high: 0, own: 0 }, is_packed: 1, longest, shared_by }
    }

    /// Lines of statistics of a matrix in which packed sequences have so many rows.
    pub const fn lines(sequences: usize, rows: usize) -> usize {
        (rows.div_ceil(ALIGNED as usize) + sequences) * (ALIGNED / LINE) as usize
    }
}

impl PassedAsIs for Ranges {}
