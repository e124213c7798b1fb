//! Rows that lie anywhere in a tensor: tiles whose rows are gathered from, or scattered to, places that a function names.

use crate::layout::{Element, RowMajor};
use crate::tile::memory::global::{Global, GlobalMut};

/// A tile to be copied from, whose row r lies at `place(r)`.
pub struct Gathered<T, const RANK: usize, const BOX: usize, F> {
    pub(in crate::tile) of: Global<T, RANK, RowMajor, BOX>,
    pub(in crate::tile) place: F,
}

/// A tile to be copied to, whose row r lies at `place(r)`.
pub struct Scattered<T, const RANK: usize, const BOX: usize, F> {
    pub(in crate::tile) of: Global<T, RANK, RowMajor, BOX>,
    pub(in crate::tile) place: F,
}

impl<T: Element, const RANK: usize, const BOX: usize> Global<T, RANK, RowMajor, BOX> {
    /// A tile whose row r is the line at `place(r)`: an index in all dimensions, of which the last is where it begins. Rows
    /// without a place in the tensor are zeros, and so is what lies behind a line's end.
    ///
    /// It is copied to a stage, to a fragment or to a [`Scratch`](crate::tile::Scratch) tile. Where a schedule copies stages in pieces of
    /// 16 bytes, lines begin at multiples of them. Where TMA fills the stage, each line is a box: the tensor is a
    /// `Global<T, RANK, RowMajor, 1>`, which other schedules read as well.
    #[inline(always)]
    pub fn gather<F: Fn(u32) -> Option<[u32; RANK]>>(self, place: F) -> Gathered<T, RANK, BOX, F> {
        Gathered { of: self, place }
    }
}

impl<T: Element, const RANK: usize, const BOX: usize> GlobalMut<T, RANK, RowMajor, BOX> {
    /// A tile whose row r is the line at `place(r)`: an index in all dimensions, of which the last is where it begins. Rows
    /// without a place in the tensor are not stored, nor is what lies behind a line's end. No two rows have the same place, but
    /// where they are [added](crate::tile::atomic_add). Where the tensor's lines are aligned to two elements, places begin at even ones:
    /// a GPU stops at others.
    #[inline(always)]
    pub fn scatter<F: Fn(u32) -> Option<[u32; RANK]>>(&mut self, place: F) -> Scattered<T, RANK, BOX, F> {
        Scattered { of: self.0, place }
    }
}
