//! Lines of a tile in shared memory in another order, which a function names.

use crate::layout::{Element, SharedLayout};
use crate::tile::memory::shared::{Shared, Src};

/// A tile of shared memory to be copied from, of whose row r what lies at `place(r)` is taken: a line of it, and a column from which on.
pub struct Picked<'s, S, F> {
    pub(in crate::tile) of: Src<'s, S>,
    pub(in crate::tile) place: F,
}

impl<'s, T: Element, L: SharedLayout, const R: usize, const C: usize> Src<'s, Shared<T, R, C, L>> {
    /// A fragment's row r from `place(r)` on: a line, and a multiple of 16 bytes along it. Each thread asks for its own rows alone. The kernel
    /// traps where a row reaches beyond its line, or there is no such line.
    #[inline(always)]
    pub fn pick<F: Fn(u32) -> [u32; 2]>(self, place: F) -> Picked<'s, Shared<T, R, C, L>, F> {
        Picked { of: self, place }
    }
}
