//! Which keys the parts of flash-decoding see, and where they lie.

use core::ops::Range;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::tile::InPlace;

use crate::cache::{Cache, KeyPart, SplitOrder};
use crate::keys::{Blocks, Keys};

/// Sequences of keys whose parts CTAs take. What needs not be read of the argument does not ask for it.
pub trait PartKeys: PassedAsIs {
    /// Whether lists select the blocks of keys.
    const SELECTED: bool;

    /// Where keys and values lie.
    fn cache(self) -> Cache;

    /// Which sequence of Q, O and the cache a sequence of the order is of, and the first of its queries there.
    fn place(of: InPlace<Self>, sequence: u32) -> [u32; 2];

    /// The keys of a sequence of the order, and which of them its queries see.
    fn keys(&self, sequence: u32) -> Keys;

    /// The blocks of `BN` keys of a part.
    type Blocks<const BN: usize>: PartBlocks;

    /// Those of `part`, a tile of `BM` rows, of these keys.
    fn blocks<const BM: usize, const BN: usize>(
        of: InPlace<Self>,
        order: &SplitOrder,
        keys: &Keys,
        part: KeyPart,
    ) -> Self::Blocks<BN>;
}

/// The blocks of keys of a part, in places one after the other.
pub trait PartBlocks: Copy {
    /// The places, ascending.
    fn all(&self) -> Range<u32>;

    /// Whether there are none.
    fn none(&self) -> bool;

    /// The last place.
    fn last(&self) -> u32;

    /// The block at a place.
    fn block(&self, place: u32) -> u32;

    /// Whether every query sees all keys of this block.
    fn is_whole(&self, block: u32) -> bool;
}

impl PartKeys for Cache {
    const SELECTED: bool = false;

    #[inline(always)]
    fn cache(self) -> Cache {
        self
    }

    #[inline(always)]
    fn place(_: InPlace<Self>, sequence: u32) -> [u32; 2] {
        [sequence, 0]
    }

    #[inline(always)]
    fn keys(&self, sequence: u32) -> Keys {
        self.keys_of(sequence)
    }

    type Blocks<const BN: usize> = Blocks;

    #[inline(always)]
    fn blocks<const BM: usize, const BN: usize>(
        _: InPlace<Self>,
        order: &SplitOrder,
        keys: &Keys,
        part: KeyPart,
    ) -> Blocks {
        order.blocks::<BM, BN>(keys, part.m, part.split)
    }
}

impl PartBlocks for Blocks {
    #[inline(always)]
    fn all(&self) -> Range<u32> {
        Blocks::all(self)
    }

    #[inline(always)]
    fn none(&self) -> bool {
        Blocks::none(self)
    }

    #[inline(always)]
    fn last(&self) -> u32 {
        Blocks::last(self)
    }

    #[inline(always)]
    fn block(&self, place: u32) -> u32 {
        place
    }

    #[inline(always)]
    fn is_whole(&self, block: u32) -> bool {
        self.whole(block)
    }
}
