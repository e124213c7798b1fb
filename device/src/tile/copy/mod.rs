//! Copies of tiles: the shapes and layouts of both ends are types.

pub mod access;
pub mod add;
pub mod arrival;
pub mod blocks_of_sums;
pub mod bytes;
pub mod columns;
pub mod elementwise;
pub mod fragment;
pub mod from_tensor;
pub mod gather;
pub mod load;
pub mod matrices;
pub mod paged;
pub mod patches;
pub mod picked;
mod quads;
pub mod row_part;
pub mod row_parts;
pub mod rows;
pub mod rows_ahead;
pub mod rows_alike;
pub mod scatter;
pub mod scratch_pair;
pub mod strips;
pub mod zeros;

use crate::arch::tma::Coords;
use crate::layout::{Element, Major, RowMajor, SharedLayout};
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::gathered::Gathered;
use crate::tile::memory::global_tile::GlobalTile;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::paged::PagedTile;
use crate::tile::memory::shared::{Dst, Shared};

impl<T, O, L, P, const RANK: usize, const BOX: usize, const R: usize, const C: usize>
    CopyTo<Dst<'_, Shared<T, R, C, L, O>, P>> for GlobalTile<T, RANK, O, BOX>
where
    T: Element,
    O: Major,
    L: SharedLayout,
    P: Loader,
    [u32; RANK]: Coords,
{
    #[inline(always)]
    fn copy_to(self, to: Dst<'_, Shared<T, R, C, L, O>, P>) {
        // SAFETY: a `Dst` is a tile of a stage that is this role's to fill, with its ticket.
        unsafe { P::load::<T, O, L, RANK, BOX, R, C>(self, to.address, to.ticket) }
    }
}

impl<T, L, P, const BOX: usize, const R: usize, const C: usize>
    CopyTo<Dst<'_, Shared<T, R, C, L, RowMajor>, P>> for PagedTile<T, BOX>
where
    T: Element,
    L: SharedLayout,
    P: Loader,
{
    #[inline(always)]
    fn copy_to(self, to: Dst<'_, Shared<T, R, C, L, RowMajor>, P>) {
        // SAFETY: a `Dst` is a tile of a stage that is this role's to fill, with its ticket.
        unsafe { P::load_paged::<T, L, BOX, R, C>(self, to.address, to.ticket) }
    }
}

impl<T, F, L, P, const RANK: usize, const BOX: usize, const R: usize, const C: usize>
    CopyTo<Dst<'_, Shared<T, R, C, L, RowMajor>, P>> for Gathered<T, RANK, BOX, F>
where
    T: Element,
    F: Fn(u32) -> Option<[u32; RANK]>,
    L: SharedLayout,
    P: Loader,
    [u32; RANK]: Coords,
{
    #[inline(always)]
    fn copy_to(self, to: Dst<'_, Shared<T, R, C, L, RowMajor>, P>) {
        // SAFETY: a `Dst` is a tile of a stage that is this role's to fill, with its ticket.
        unsafe { P::load_gathered::<T, L, F, RANK, BOX, R, C>(self, to.address, to.ticket) }
    }
}
