//! Warpgroups with different things to do.

use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::arch::tma::Coords;
use crate::kernel::{Arch, Program};
use crate::layout::{Element, Major, SharedLayout};
use crate::tile::copy::arrival::Arrival;
use crate::tile::copy::{load, paged};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::Collective;
use crate::tile::memory::global::GlobalTile;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::paged::PagedTile;

/// Hopper: two roles, the first of `A` warpgroups with `RA` registers a thread, the second of `B` with `RB`.
///
/// The body is instantiated once for each; [`Cta::in_role`](super::Cta::in_role) tells them apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Roles<const A: usize, const RA: u32, const B: usize, const RB: u32>;

impl<const A: usize, const RA: u32, const B: usize, const RB: u32> Roles<A, RA, B, RB> {
    /// Registers that a thread has at the launch: a 64 Ki-th of the SM's, in eights.
    const LAUNCH: u32 = 65536 / <Self as Program>::THREADS / 8 * 8;
    /// The first thread of the second role.
    const SECOND: u32 = 128 * A as u32;
    const FIT: () = assert!(
        A as u32 * RA + B as u32 * RB <= (A + B) as u32 * Self::LAUNCH,
        "the roles take more registers than the CTA has"
    );
}

/// Takes or gives registers, so that `R` are left of `LAUNCH`.
///
/// # Safety
/// All warps of the warpgroup execute it once.
#[inline(always)]
unsafe fn reallocate<const R: u32>(launch: u32) {
    // SAFETY: passed on; the roles fit what the launch allocated.
    unsafe { if R > launch { sync::setmaxnreg_inc::<R>() } else { sync::setmaxnreg_dec::<R>() } }
}

impl<const A: usize, const RA: u32, const B: usize, const RB: u32> Program for Roles<A, RA, B, RB> {
    const ARCH: Arch = Arch::Sm90a;
    const THREADS: u32 = 128 * (A + B) as u32;

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        const { Self::FIT };
        // SAFETY: every warp of a warpgroup reallocates once, and the amounts fit.
        unsafe {
            core::hint::assert_unchecked(thread_x() < Self::THREADS);
            if thread_x() < Self::SECOND {
                reallocate::<RA>(Self::LAUNCH);
                body()
            } else {
                reallocate::<RB>(Self::LAUNCH);
                body()
            }
        }
    }
}

/// A [`Loader`] of two roles.
pub trait TwoRoles: Loader {
    /// Warps of each role.
    const WARPS: [u32; 2];
}

impl<P: TwoRoles> Cta<P> {
    /// Whether this is the instance of the body for `role`, 0 or 1.
    #[inline(always)]
    pub fn in_role(&self, role: u32) -> bool {
        (thread_x() >= 32 * P::WARPS[0]) == (role == 1)
    }
}

impl<const A: usize, const RA: u32, const B: usize, const RB: u32> TwoRoles for Roles<A, RA, B, RB> {
    const WARPS: [u32; 2] = [4 * A as u32, 4 * B as u32];
}

impl<const A: usize, const RA: u32, const B: usize, const RB: u32> Collective for Roles<A, RA, B, RB> {
    const CONSUMERS: u32 = Self::THREADS;
    const WARPGROUPS: u32 = (A + B) as u32;
}

impl<const A: usize, const RA: u32, const B: usize, const RB: u32> Loader for Roles<A, RA, B, RB> {
    type Ticket = Arrival;

    #[inline(always)]
    unsafe fn load<T, O, L, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        to: u32,
        ticket: Arrival,
    ) where
        T: Element,
        O: Major,
        L: SharedLayout,
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe {
            load::tma_load::<T, O, L, RANK, BOX, R, C, 1>(from, to, ticket.barrier, ticket.part, ticket.parts)
        }
    }

    #[inline(always)]
    unsafe fn load_paged<T: Element, L: SharedLayout, const BOX: usize, const R: usize, const C: usize>(
        from: PagedTile<T, BOX>,
        to: u32,
        ticket: Arrival,
    ) {
        // SAFETY: passed on.
        unsafe { paged::paged_tma::<T, L, BOX, R, C>(from, to, ticket.barrier) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, to: u32, bytes: u32, ticket: Arrival) {
        // SAFETY: passed on.
        unsafe { load::bulk(from, to, bytes, ticket.barrier) }
    }

    #[inline(always)]
    fn share(_: Arrival) -> (u32, u32) {
        (0, 1)
    }
}
