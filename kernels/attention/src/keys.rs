//! Which keys a query sees.

use core::ops::Range;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::layout::FragmentLayout;
use tilewright_device::tile::{Fragment, Rows};

use crate::walk::Walk;

/// Query i sees keys j with `i + low <= j <= i + high`, as far as there are so many.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keys {
    /// Keys of every sequence.
    pub count: i32,
    /// The first key that query 0 sees, negative where later queries see key 0 too.
    pub low: i32,
    /// The last key that query 0 sees.
    pub high: i32,
    /// The key that query 0 is aligned with, negative where only later queries are aligned with one.
    pub own: i32,
}

/// The blocks of keys that a tile of queries sees: from `begin` to `end`, of which every query sees all keys of those from
/// `whole_begin` to `whole_end`.
#[derive(Clone, Copy)]
pub struct Blocks {
    begin: u32,
    whole_begin: u32,
    whole_end: u32,
    end: u32,
}

impl Blocks {
    /// The first blocks, so many, none of which counts as whole.
    #[inline(always)]
    pub fn first(count: u32) -> Self {
        Blocks { begin: 0, whole_begin: 0, whole_end: 0, end: count }
    }
    /// The blocks, ascending.
    #[inline(always)]
    pub fn all(&self) -> Range<u32> {
        self.begin..self.end
    }
    /// Whether no query of the tile sees any key.
    #[inline(always)]
    pub fn none(&self) -> bool {
        self.begin >= self.end
    }
    /// The last block.
    #[inline(always)]
    pub fn last(&self) -> u32 {
        self.end - 1
    }
    /// Whether every query sees all keys of block `j`.
    #[inline(always)]
    pub fn whole(&self, j: u32) -> bool {
        self.whole_begin <= j && j < self.whole_end
    }
    /// The same blocks, none of which counts as whole.
    #[inline(always)]
    pub fn all_masked(self) -> Self {
        Blocks { whole_begin: 0, whole_end: 0, ..self }
    }
    /// The same with `f` of each of their numbers.
    #[inline(always)]
    pub fn map(self, f: impl Fn(u32) -> u32) -> Self {
        let Blocks { begin, whole_begin, whole_end, end } = self;
        Blocks { begin: f(begin), whole_begin: f(whole_begin), whole_end: f(whole_end), end: f(end) }
    }
    /// The `part`th of `parts` equal parts, as near as whole blocks allow.
    #[inline(always)]
    pub fn part(&self, part: u32, parts: u32) -> Self {
        let count = self.end - self.begin;
        let at = |part: u32| self.begin + (count as u64 * part as u64 / parts.max(1) as u64) as u32;
        Blocks { begin: at(part), end: at(part + 1), ..*self }
    }
}

impl Walk for Blocks {
    #[inline(always)]
    fn none(&self) -> bool {
        Blocks::none(self)
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        self.last()
    }

    #[inline(always)]
    fn steps(self) -> impl Iterator<Item = u32> {
        self.all().rev()
    }

    #[inline(always)]
    fn is_whole(&self, j: u32) -> bool {
        self.whole(j)
    }

    /// Masked blocks come before and, with a window, after those that are not.
    #[inline(always)]
    fn fold<S>(&self, mut state: S, mut step: impl FnMut(S, u32, bool) -> S) -> S {
        let (mut j, mut masked_to, mut whole_to) = (self.end - 1, self.whole_end, self.whole_begin);
        while j > self.begin {
            while j > masked_to {
                j -= 1;
                state = step(state, j, true);
            }
            while j > whole_to {
                j -= 1;
                state = step(state, j, false);
            }
            (masked_to, whole_to) = (self.begin, self.begin);
        }
        state
    }
}

impl Keys {
    /// Which of so many queries see a key, as if keys saw queries.
    #[inline(always)]
    pub fn mirrored(&self, queries: u32) -> Self {
        Keys {
            count: queries as i32,
            low: self.high.saturating_neg(),
            high: self.low.saturating_neg(),
            own: self.own.saturating_neg(),
        }
    }

    /// The blocks of `BN` keys that tile `m` of `BM` queries sees.
    #[inline(always)]
    pub fn blocks<const BM: usize, const BN: usize>(&self, m: u32) -> Blocks {
        self.blocks_of::<BN>((m * BM as u32) as i32, (m * BM as u32) as i32 + BM as i32 - 1)
    }

    /// The blocks of `BN` keys that queries `first` to `last` see.
    #[inline(always)]
    pub fn blocks_of<const BN: usize>(&self, first: i32, last: i32) -> Blocks {
        let width = BN as u32;
        let key = |i: i32| i.min(self.count).max(0) as u32;
        let end = key(last.saturating_add(self.high).saturating_add(1)).div_ceil(width);
        let begin = (key(first.saturating_add(self.low)) / width).min(end);
        let whole_end = (key(first.saturating_add(self.high).saturating_add(1)) / width).max(begin).min(end);
        let whole_begin = key(last.saturating_add(self.low)).div_ceil(width).max(begin).min(whole_end);
        Blocks { begin, whole_begin, whole_end, end }
    }

    /// Scores of tile `m` and block `j`, -inf where the query does not see the key.
    #[inline(always)]
    pub fn mask<const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
        &self,
        s: Fragment<f32, BM, BN, L>,
        m: u32,
        j: u32,
    ) -> Fragment<f32, BM, BN, L> {
        self.mask_rows(s, j, |r| (m * BM as u32 + r) as i32)
    }

    /// Scores of block `j`, -inf where `query(row)` does not see the key.
    #[inline(always)]
    pub fn mask_rows<const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
        &self,
        s: Fragment<f32, BM, BN, L>,
        j: u32,
        query: impl Fn(u32) -> i32,
    ) -> Fragment<f32, BM, BN, L> {
        self.mask_queries(s, j, &Rows::indexed(query))
    }

    /// The same where each row's query is known.
    #[inline(always)]
    pub fn mask_queries<const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
        &self,
        s: Fragment<f32, BM, BN, L>,
        j: u32,
        query: &Rows<i32, BM, BN, L>,
    ) -> Fragment<f32, BM, BN, L> {
        let first = (j * BN as u32) as i32;
        let (low, high) = (self.low.saturating_sub(first), self.high.saturating_sub(first));
        let to = query.map(|i| i.saturating_add(high).min(self.count - 1 - first) + 1);
        s.fill_outside(&query.map(|i| i.saturating_add(low)), &to, f32::NEG_INFINITY)
    }

    /// The keys that the queries of rows are aligned with, counted from the first of block `j` of `N`.
    #[inline(always)]
    pub fn own_of_rows<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        &self,
        j: u32,
        query: impl Fn(u32) -> i32,
    ) -> Rows<i32, M, N, L> {
        let own = self.own - (j * N as u32) as i32;
        Rows::indexed(|r| query(r) + own)
    }

    /// How many keys block `j` of `BN` has, or more.
    #[inline(always)]
    pub fn inside<const BN: usize>(&self, j: u32) -> u32 {
        self.count as u32 - j * BN as u32
    }
}

impl PassedAsIs for Keys {}
