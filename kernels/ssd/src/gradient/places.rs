//! What the gradients' kernels share out and hand on.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::tile::block_x;

/// How many sums there are of each token, and so lines of sums of a head's columns.
pub const SUMS: u32 = 5;

/// A sum that the gradients by dt, A and D are made of, for each token of a block. G is the gradient by the state, counted from the sequence's end.
#[derive(Clone, Copy)]
pub(crate) enum Sum {
    /// What decays between the tokens before this one and those from it on, of the block's tokens: of all pairs, and of the state before with each token.
    Across,
    /// dy · x: the gradient by D.
    Skip,
    /// x · G B: the gradient by dt, where it is a weight.
    Weight,
    /// Its part from behind the block, times dt: what decays from the token up to the block's end.
    Behind,
    /// The state before the block with the gradient behind it, decayed over the block: for each row of the state.
    Whole,
}

impl Sum {
    /// The line of a head's.
    #[inline(always)]
    pub(crate) fn line(self, items: &Items, head: u32, part: u32) -> u32 {
        (part * SUMS + self as u32) * items.heads + head
    }
}

/// How the heads of a group, and tiles of their columns, are shared out among CTAs: (group · splits + split, block, sequence).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Items {
    /// All heads.
    pub heads: u32,
    /// Heads that share a group's B and C.
    pub heads_per_group: u32,
    /// Tiles of columns that a head has.
    pub parts: u32,
    /// CTAs that a group's heads are divided among.
    pub splits: u32,
}

impl PassedAsIs for Items {}

impl Items {
    /// This CTA's group and split, and its first item and the end of them: an item is a tile of a head's columns.
    #[inline(always)]
    pub(crate) fn own(&self) -> (u32, u32, core::ops::Range<u32>) {
        let splits = self.splits.max(1);
        let (group, split) = (block_x() / splits, block_x() % splits);
        let all = self.heads_per_group * self.parts;
        let each = all.div_ceil(splits);
        (group, split, (split * each).min(all)..((split + 1) * each).min(all))
    }

    /// The head and the tile of its columns.
    #[inline(always)]
    pub(crate) fn item(&self, group: u32, item: u32) -> (u32, u32) {
        let parts = self.parts.max(1);
        (group * self.heads_per_group + item / parts, item % parts)
    }

    /// The tile of states of a block.
    #[inline(always)]
    pub(crate) fn state(&self, block: u32, part: u32) -> u32 {
        block * self.parts + part
    }
}
