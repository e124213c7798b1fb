//! A share of a stage's depth.

use crate::arch::declare::refuse;
use crate::arch::special::trap;

/// One of a number of equal parts of a stage's depth. The loops over parts hand them out, and what takes a part of a tile is asked for
/// one. A loop may run over fewer parts than the tile has, not over more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: u32,
    of: u32,
}

impl Part {
    /// The `index`-th of `of` parts. Traps where there is none.
    #[inline(always)]
    pub fn new(index: u32, of: u32) -> Self {
        if index >= of {
            trap();
        }
        Part { index, of }
    }
    /// The same, where it is known.
    ///
    /// # Safety
    /// `index` is below `of`.
    #[inline(always)]
    pub unsafe fn new_unchecked(index: u32, of: u32) -> Self {
        Part { index, of }
    }
    /// Which it is, counted from 0.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.index
    }
    /// Refuses the kernel that asks a tile of `parts` parts for one of more.
    #[inline(always)]
    pub(in crate::tile) fn expect(self, parts: u32) {
        if self.of > parts {
            refuse!(
                "a part is asked for of a tile that has not as many: its loop runs over more parts than the depth has"
            );
        }
    }
}
