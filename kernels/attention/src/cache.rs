//! A cache of keys and values, and how its work is shared out.

use super::{Blocks, Keys};
use crate::kept::CodesOf;
use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::arch::special::{block_x, grid_x};
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{InPlace, PageTable};

/// Sequences of keys and values, each of a length of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// Where the keys lie.
    pub pages: PageTable,
    /// Address of each sequence's number of keys, `i32` in the low bytes of each; 0 where all have `capacity`.
    pub lengths: u64,
    /// The most keys of a sequence; longer ones are cut off.
    pub capacity: i32,
    /// Queries of a sequence, the last of which is aligned with its last key.
    pub queries: i32,
    /// Keys that a query sees before its own; `i32::MAX` is no limit.
    pub left: i32,
    /// Keys that a query sees behind its own; `i32::MAX` is no limit.
    pub right: i32,
    /// The logarithm to base 2 of the bytes from one number of keys to the next.
    pub log2_bytes: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
    /// What keys and values of 8 bits stand for.
    pub codes: CodesOf,
}

impl Cache {
    /// The keys of a sequence, and which of them its queries see.
    #[inline(always)]
    pub fn keys_of(&self, sequence: u32) -> Keys {
        let mut count = self.capacity;
        if self.lengths != 0 {
            let at = self.lengths + ((sequence as u64) << self.log2_bytes);
            // Not `clamp`, which may panic.
            // SAFETY: the host passes as many lengths as there are sequences.
            count = (unsafe { global::ld_global_u32(at as *const u32) } as i32).min(self.capacity).max(0);
        }
        let own = count - self.queries;
        Keys { count, low: own.saturating_sub(self.left), high: own.saturating_add(self.right), own }
    }
}

impl PassedAsIs for Cache {}

/// A part of a sequence's keys, for a tile of the queries that share a head of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// The sequence.
    pub batch: u32,
    /// The head of keys and values.
    pub kv_head: u32,
    /// The tile of rows: the heads that share the KV head, of query after query.
    pub m: u32,
    /// The part of the keys.
    pub split: u32,
}

/// The parts of all sequences, divided alike (flash-decoding; Dao et al. 2023).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SplitOrder {
    total: u32,
    rows: u32,
    queries: u32,
    by_m: Division,
    by_splits: Division,
    by_kv_heads: Division,
    by_shared: Division,
}

impl SplitOrder {
    /// `splits` parts for each of the tiles of `BM` rows that the queries of `shared_by` heads fill, of each of `kv_heads` heads of
    /// `batch` sequences.
    ///
    /// `None` when there are 2^31 parts or more.
    pub fn new<const BM: usize>(
        batch: u32,
        kv_heads: u32,
        shared_by: u32,
        queries: u32,
        splits: u32,
    ) -> Option<Self> {
        let rows = queries.checked_mul(shared_by).filter(|&rows| rows < 1 << 30)?;
        let m = rows.div_ceil(BM as u32);
        let total = batch.checked_mul(kv_heads)?.checked_mul(m)?.checked_mul(splits)?;
        (total < 1 << 31).then_some(SplitOrder {
            total,
            rows,
            queries,
            by_m: Division::by(m),
            by_splits: Division::by(splits),
            by_kv_heads: Division::by(kv_heads),
            by_shared: Division::by(shared_by),
        })
    }
    /// Parts in all.
    pub const fn total(&self) -> u32 {
        self.total
    }
    /// Parts of each sequence.
    #[inline(always)]
    pub const fn splits(&self) -> u32 {
        self.by_splits.divisor
    }
    /// The place of part `t`, which is below [`total`](Self::total): tiles that read the same keys are neighbours.
    #[inline(always)]
    pub const fn part(&self, t: u32) -> KeyPart {
        let (t, m) = self.by_m.of(t);
        let (t, split) = self.by_splits.of(t);
        let (batch, kv_head) = self.by_kv_heads.of(t);
        KeyPart { batch, kv_head, m, split }
    }
    /// The query and the head of row `row` of a KV head; none behind the last.
    #[inline(always)]
    pub const fn row(&self, kv_head: u32, row: u32) -> Option<(u32, u32)> {
        if row >= self.rows {
            return None;
        }
        let (query, head) = self.by_shared.of(row);
        Some((query, kv_head * self.by_shared.divisor + head))
    }
    /// The number of a head's query among the rows of the results, \[batch, heads, queries\].
    #[inline(always)]
    pub const fn result(&self, batch: u32, head: u32, query: u32) -> u32 {
        (batch * self.by_kv_heads.divisor * self.by_shared.divisor + head) * self.queries + query
    }
    /// The query of row `row`.
    #[inline(always)]
    pub const fn query(&self, row: u32) -> i32 {
        self.by_shared.of(row).0 as i32
    }
    /// The first and the last query of tile `m` of `BM` rows.
    #[inline(always)]
    pub fn queries<const BM: usize>(&self, m: u32) -> (i32, i32) {
        let first = m * BM as u32;
        (self.query(first), self.query((first + BM as u32).min(self.rows) - 1))
    }
    /// The blocks of `BN` of these keys that tile `m` of `BM` rows sees, of part `split`.
    #[inline(always)]
    pub fn blocks<const BM: usize, const BN: usize>(&self, keys: &Keys, m: u32, split: u32) -> Blocks {
        let (first, last) = self.queries::<BM>(m);
        keys.blocks_of::<BN>(first, last).part(split, self.splits())
    }
}

impl PassedAsIs for SplitOrder {}

/// The parts that this CTA takes: every `grid`-th of the order (persistent CTAs).
pub struct KeyParts {
    order: InPlace<SplitOrder>,
    next: u32,
    step: u32,
}

impl KeyParts {
    /// Shares the parts of `order` among the CTAs of the grid.
    #[inline(always)]
    pub fn persistent(order: InPlace<SplitOrder>) -> Self {
        KeyParts { order, next: block_x(), step: grid_x() }
    }
}

impl Iterator for KeyParts {
    type Item = KeyPart;
    #[inline(always)]
    fn next(&mut self) -> Option<KeyPart> {
        let (t, order) = (self.next, self.order.get());
        if t >= order.total {
            return None;
        }
        self.next = t + self.step;
        Some(order.part(t))
    }
}
