//! What copies tiles from global memory into stages.

use crate::arch::tma::Coords;
use crate::layout::{Element, Major, SharedLayout};
use crate::tile::cta::collective::Collective;
use crate::tile::memory::gathered::Gathered;
use crate::tile::memory::global_tile::GlobalTile;
use crate::tile::memory::paged::PagedTile;
use crate::tile::memory::patches::PatchTile;

/// A [`Collective`] whose threads copy tiles into stages that they fill.
pub trait Loader: Collective {
    /// What a copy into a stage completes on.
    type Ticket: Copy;

    /// That of copies which complete on this barrier, where copies do: for stages that are filled outside of a pipeline's loop.
    #[doc(hidden)]
    fn on_barrier(barrier: u32) -> Self::Ticket;

    /// Copies a tile into a stage that is being filled.
    ///
    /// # Safety
    /// `to` is a tile of type `Shared<T, R, C, L, O>` in a stage that is this role's to fill, with its ticket.
    #[doc(hidden)]
    unsafe fn load<T, O, L, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        to: u32,
        ticket: Self::Ticket,
    ) where
        T: Element,
        O: Major,
        L: SharedLayout,
        [u32; RANK]: Coords;

    /// Copies a tile of pages into a stage that is being filled.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[doc(hidden)]
    unsafe fn load_paged<T: Element, L: SharedLayout, const BOX: usize, const R: usize, const C: usize>(
        from: PagedTile<T, BOX>,
        to: u32,
        ticket: Self::Ticket,
    );

    /// Copies a tile of rows that lie anywhere into a stage that is being filled.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[doc(hidden)]
    unsafe fn load_gathered<T, L, F, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: Gathered<T, RANK, BOX, F>,
        to: u32,
        ticket: Self::Ticket,
    ) where
        T: Element,
        L: SharedLayout,
        F: Fn(u32) -> Option<[u32; RANK]>,
        [u32; RANK]: Coords;

    /// Copies a tile of patches into a stage that is being filled.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[doc(hidden)]
    unsafe fn load_patches<T: Element, L: SharedLayout, const R: usize, const C: usize>(
        from: PatchTile<T>,
        to: u32,
        ticket: Self::Ticket,
    );

    /// Copies neighbouring bytes into a stage that is being filled.
    ///
    /// # Safety
    /// As for [`load`](Self::load), with `bytes` at `to`. `from`, `to` and `bytes` are multiples of 16; the bytes are readable.
    #[doc(hidden)]
    unsafe fn load_bytes(from: *const u8, to: u32, bytes: u32, ticket: Self::Ticket);

    /// Which share of a stage's copies is this role's, of how many.
    #[doc(hidden)]
    fn share(ticket: Self::Ticket) -> (u32, u32);
}
