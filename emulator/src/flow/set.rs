//! A set of small numbers.

#[derive(Clone, PartialEq)]
pub(super) struct Set {
    words: Vec<u64>,
}

impl Set {
    pub(super) fn new(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)] }
    }

    pub(super) fn full(count: usize) -> Self {
        Self { words: vec![u64::MAX; count.div_ceil(64)] }
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 != 0
    }

    pub(super) fn insert(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    pub(super) fn set(&mut self, number: usize, member: bool) {
        let bit = 1 << (number % 64);
        let word = &mut self.words[number / 64];
        *word = if member { *word | bit } else { *word & !bit };
    }

    /// Keeps what is in the other too. Whether that took something away.
    pub(super) fn intersect(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            changed |= *word & !other != 0;
            *word &= other;
        }
        changed
    }
}
