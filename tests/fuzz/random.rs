//! Numbers without a pattern: the same for the same seed and case.

use std::ops::RangeInclusive;

/// A generator (SplitMix64, Steele et al. 2014).
pub struct Random(u64);

impl Random {
    /// That of a case: cases can be run alone.
    pub fn new(seed: u64, case: u64) -> Self {
        let mut of_seed = Random(seed);
        let mut random = Random(of_seed.next() ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True in one case of so many.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// A size: mostly small, often next to a multiple of what tiles have, sometimes 0.
    pub fn size(&mut self, most: usize) -> usize {
        let near = self.pick(&[1, 8, 16, 32, 64, 128]) + self.below(3);
        let size = match self.below(40) {
            0 => 0,
            1..=15 => self.within(1..=9),
            16..=27 => near - 1,
            _ => self.within(1..=most),
        };
        size.min(most)
    }

    /// The numbers below `count` in any order.
    pub fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut all: Vec<_> = (0..count).collect();
        for i in (1..count).rev() {
            all.swap(i, self.below(i + 1));
        }
        all
    }
}
