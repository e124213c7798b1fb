//! Numbers without a pattern: the same for the same seed and case.

use std::ops::RangeInclusive;

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

/// A generator that no later version of its crate alters.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// That of a case: cases can be run alone.
    pub fn new(seed: u64, case: u64) -> Self {
        let of_seed = Xoshiro256PlusPlus::seed_from_u64(seed).random::<u64>();
        Random(Xoshiro256PlusPlus::seed_from_u64(of_seed ^ case.rotate_left(32)))
    }

    pub fn next(&mut self) -> u64 {
        self.0.random()
    }

    /// A number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        self.0.random_range(range)
    }

    /// True in one case of so many.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of.choose(&mut self.0).expect("something to pick").clone()
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
        all.shuffle(&mut self.0);
        all
    }
}
