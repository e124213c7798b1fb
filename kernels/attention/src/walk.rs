//! How a tile of queries walks over its blocks of keys.

/// A walk over blocks of keys, by their numbers.
pub trait Walk: Copy {
    /// Whether there are no blocks.
    fn none(&self) -> bool;

    /// The first block of the walk, if there is one.
    fn first(&self) -> u32;

    /// All blocks, in the order of the walk.
    fn steps(self) -> impl Iterator<Item = u32>;

    /// Whether every query of the tile sees all keys of block `j`.
    fn is_whole(&self, j: u32) -> bool;

    /// `step(state, block, masked)` for all blocks but the first, in the order of the walk, if there is one; `masked` where not every
    /// query sees every key.
    ///
    /// `step` is inlined twice: no branch lies inside it, where gemms are in flight.
    fn fold<S>(&self, state: S, step: impl FnMut(S, u32, bool) -> S) -> S;
}
