//! Copies of tiles: the shapes and layouts of both ends are types.

mod fragment;
mod load;
mod paged;

pub(super) use load::{bulk, byte_load, element_load, tma_load, vector_load};
pub(super) use paged::{paged_elements, paged_tma, paged_vectors};

use super::{Dst, GlobalTile, Schedule, Shared};
use crate::arch::tma::Coords;
use crate::layout::{Element, Major, SharedLayout};

/// A source that can be copied to `D`.
#[diagnostic::on_unimplemented(message = "no copy from `{Self}` to `{D}`")]
pub trait CopyTo<D> {
    /// Copies.
    #[doc(hidden)]
    fn copy_to(self, to: D);
}

/// Copies a tile. Elements outside a tensor read as zero, and are not stored.
#[inline(always)]
pub fn copy<S: CopyTo<D>, D>(from: S, to: D) {
    from.copy_to(to)
}

impl<T, O, L, P, const RANK: usize, const BOX: usize, const R: usize, const C: usize>
    CopyTo<Dst<'_, Shared<T, R, C, L, O>, P>> for GlobalTile<T, RANK, O, BOX>
where
    T: Element,
    O: Major,
    L: SharedLayout,
    P: Schedule,
    [u32; RANK]: Coords,
{
    #[inline(always)]
    fn copy_to(self, to: Dst<'_, Shared<T, R, C, L, O>, P>) {
        // SAFETY: a `Dst` is a tile of a stage that is this role's to fill, with its ticket.
        unsafe { P::load::<T, O, L, RANK, BOX, R, C>(self, to.address, to.ticket) }
    }
}
