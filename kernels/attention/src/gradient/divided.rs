//! Walks of tiles of keys that are divided among CTAs.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::{block_x, block_y, block_z};
use tilewright_device::kernel;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, GlobalMut, GlobalTileMut, InPlace, Overlaps, RowMajor, copy,
};

use super::ranges::Ranges;

/// The parts of the walks of tiles of keys: each walks over some of the blocks, and has its own dK and dV, in f32, which
/// [`sum_parts`](fn@sum_parts) adds up.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Where they lie, aligned to 16 bytes: of each sequence, head, part and tile of keys dK and then dV, as registers do. Not read where
    /// walks are whole.
    pub address: u64,
    /// Parts of a walk; 1 where it is whole.
    pub count: u32,
    /// Heads of keys.
    pub heads: u32,
    /// Tiles of a head.
    pub tiles: u32,
}

impl Parts {
    /// Whole walks.
    pub const NONE: Self = Parts { address: 0, count: 1, heads: 0, tiles: 0 };

    /// Elements of f32 of so many sequences, of tiles of `tile` elements.
    pub const fn len(&self, sequences: usize, tile: usize) -> usize {
        let tiles =
            (self.heads as usize).saturating_mul(self.count as usize).saturating_mul(self.tiles as usize);
        sequences.saturating_mul(tiles).saturating_mul(2 * tile)
    }

    /// The head of a part that is counted over all heads, and its number among the head's.
    #[inline(always)]
    pub(crate) fn of(&self, part: u32) -> [u32; 2] {
        if self.count > 1 { [part / self.count, part % self.count] } else { [part, 0] }
    }

    /// Where the gradients of a tile of `len` elements lie: of a part that is counted over all heads of its sequence.
    #[inline(always)]
    fn at(&self, [tile, part, sequence]: [u32; 3], of_values: bool, len: usize) -> *mut f32 {
        let number = (sequence * self.heads * self.count + part) as u64 * self.tiles as u64 + tile as u64;
        (self.address + (2 * number + of_values as u64) * 4 * len as u64) as *mut f32
    }

    /// Stores a tile's dK or dV in `to`; or leaves it with those of the walk's other parts.
    #[inline(always)]
    pub(crate) fn store<T: Element, const BM: usize, const D: usize, L: FragmentLayout<BM, D>>(
        &self,
        place: [u32; 3],
        of_values: bool,
        gradient: Fragment<f32, BM, D, L>,
        to: impl FnOnce() -> GlobalTileMut<T, 4, RowMajor, 0>,
    ) {
        if self.count > 1 {
            // SAFETY: the host gives memory for the tiles of all parts; this CTA alone has the tile.
            unsafe { gradient.to_sums(self.at(place, of_values, BM * D)) };
        } else {
            copy(gradient.cast::<T>(), to());
        }
    }
}

impl PassedAsIs for Parts {}

/// dK and dV \[batch, KV heads, keys, `D`\], each the sum of its parts, one behind the other. CTA (tile and, faster, dK or dV; head; sequence).
#[kernel(program = P)]
pub fn sum_parts<P: Overlaps, T: Element, Y, const BM: usize, const D: usize>(
    d_k: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    d_v: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    ranges: InPlace<Ranges>,
    parts: Parts,
) where
    Y: FragmentLayout<BM, D>,
{
    P::wait_for_preceding_grid();
    let (tile, of_values, head, sequence) = (block_x() / 2, block_x() % 2 == 1, block_y(), block_z());
    let of = ranges.get().sequence(sequence);
    if tile * BM as u32 >= of.keys.count as u32 {
        return;
    }
    let mut sum = Fragment::<f32, BM, D, Y>::zero();
    let mut part = 0;
    while part < parts.count {
        let at = parts.at([tile, head * parts.count + part, sequence], of_values, BM * D);
        // SAFETY: the preceding grid has left the tiles of all parts.
        sum = sum + unsafe { Fragment::of_sums(at) };
        part += 1;
    }
    let to = if of_values { d_v } else { d_k };
    let to = to.get().tile([of.matrix, head, tile, 0]);
    copy(sum.cast::<T>(), to.of_rows(of.first_key, of.keys.count as u32));
}
