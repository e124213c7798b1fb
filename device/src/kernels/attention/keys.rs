//! Which keys a query sees.

use core::ops::Range;

use crate::abi::KernelArg;
use crate::layout::FragmentLayout;
use crate::tile::Fragment;

/// Query i sees keys j with `i + low <= j <= i + high`, as far as there are so many.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Keys of every sequence.
    pub count: i32,
    /// The first key that query 0 sees, negative where later queries see key 0 too.
    pub low: i32,
    /// The last key that query 0 sees.
    pub high: i32,
}

/// The blocks of keys that a tile of queries sees.
#[derive(Clone, Copy)]
pub struct Blocks {
    begin: u32,
    whole_end: u32,
    end: u32,
}

impl Blocks {
    #[inline(always)]
    pub fn all(&self) -> Range<u32> {
        self.begin..self.end
    }
    #[inline(always)]
    pub fn last(&self) -> u32 {
        self.end - 1
    }
    /// `step(state, block, masked)` for all blocks but the last, from the end to the beginning; `masked` says that not every
    /// query of the tile sees all of the block's keys.
    #[inline(always)]
    pub fn fold<S>(&self, mut state: S, mut step: impl FnMut(S, u32, bool) -> S) -> S {
        let mut j = self.end - 1;
        while j > self.whole_end {
            j -= 1;
            state = step(state, j, true);
        }
        while j > self.begin {
            j -= 1;
            state = step(state, j, false);
        }
        state
    }
}

impl Keys {
    /// The blocks of `BN` keys that the tile `m` of `BM` queries sees.
    #[inline(always)]
    pub fn blocks<const BM: usize, const BN: usize>(&self, m: u32) -> Blocks {
        let (first, last) = ((m * BM as u32) as i32, (m * BM as u32) as i32 + BM as i32 - 1);
        let end = (last.saturating_add(self.high).saturating_add(1)).min(self.count).max(0) as u32;
        let seen_by_all = (first.saturating_add(self.high).saturating_add(1)).min(self.count).max(0) as u32;
        let begin = first.saturating_add(self.low).max(0) as u32 / BN as u32;
        let end = end.div_ceil(BN as u32);
        Blocks { begin, whole_end: (seen_by_all / BN as u32).min(end.saturating_sub(1)), end }
    }

    /// Scores of tile `m` and block `j`, -inf where the query does not see the key.
    #[inline(always)]
    pub fn mask<const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
        &self,
        s: Fragment<f32, BM, BN, L>,
        m: u32,
        j: u32,
    ) -> Fragment<f32, BM, BN, L> {
        let first = (j * BN as u32) as i32;
        let last = self.count - 1 - first;
        let high = self.high.saturating_add((m * BM as u32) as i32 - first);
        s.map_indexed(
            |r, c, s| {
                if c as i32 <= high.saturating_add(r as i32).min(last) { s } else { f32::NEG_INFINITY }
            },
        )
    }
}

impl KernelArg for Keys {
    type Abi = Self;
    #[inline(always)]
    unsafe fn load(at: *const Self) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { *at }
    }
}
