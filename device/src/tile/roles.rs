//! Warpgroups with different things to do.

use core::ops::Range;

use super::{Accumulator, Arrival, Fill, Full, GlobalTile, PagedTile, Pipeline, Schedule, copy};
use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::arch::tma::Coords;
use crate::kernel::{Arch, Program};
use crate::layout::{Element, Major, SharedLayout};

/// Hopper: two roles, the first of `A` warpgroups with `RA` registers a thread, the second of `B` with `RB`.
///
/// The body is instantiated once for each; [`Cta::in_role`](super::Cta::in_role) tells them apart. Stages pass from one to
/// the other through a [`Relay`](super::Relay), which the CTA's first thread fills beside its other work.
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

/// A [`Schedule`] of two roles.
pub trait TwoRoles: Schedule {
    /// Warps of each role.
    const WARPS: [u32; 2];
}

impl<const A: usize, const RA: u32, const B: usize, const RB: u32> TwoRoles for Roles<A, RA, B, RB> {
    const WARPS: [u32; 2] = [4 * A as u32, 4 * B as u32];
}

/// For what all warps of a CTA do alike.
const ALIKE: &str = "roles hand stages on by a relay: pipelines are for warps that all do the same";

impl<const A: usize, const RA: u32, const B: usize, const RB: u32> Schedule for Roles<A, RA, B, RB> {
    type Ticket = Arrival;
    const CONSUMERS: u32 = Self::THREADS;
    const WARPGROUPS: u32 = (A + B) as u32;
    /// A full, a ready and an empty barrier.
    const STAGE_BYTES: u32 = 3 * 8;

    #[inline(always)]
    unsafe fn open<const N: usize, const PARTED: bool>(_: u32) {
        const { panic!("{}", ALIKE) }
    }
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
            copy::tma_load::<T, O, L, RANK, BOX, R, C, 1>(from, to, ticket.barrier, ticket.part, ticket.parts)
        }
    }
    #[inline(always)]
    unsafe fn load_paged<T: Element, L: SharedLayout, const BOX: usize, const R: usize, const C: usize>(
        from: PagedTile<T, BOX>,
        to: u32,
        ticket: Arrival,
    ) {
        // SAFETY: passed on.
        unsafe { copy::paged_tma::<T, L, BOX, R, C>(from, to, ticket.barrier) }
    }
    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, to: u32, bytes: u32, ticket: Arrival) {
        // SAFETY: passed on.
        unsafe { copy::bulk(from, to, bytes, ticket.barrier) }
    }
    #[inline(always)]
    fn share(_: Arrival) -> (u32, u32) {
        (0, 1)
    }
    unsafe fn begin<const N: usize, const PARTED: bool>(
        _: &mut Pipeline<Self, N, PARTED>,
        _: &mut impl Iterator<Item = u32>,
        _: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        const { panic!("{}", ALIKE) }
    }
    unsafe fn acquire<const N: usize, const PARTED: bool>(
        _: &mut Pipeline<Self, N, PARTED>,
        _: &mut impl Iterator<Item = u32>,
        _: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        const { panic!("{}", ALIKE) }
    }
    unsafe fn release<const N: usize, const PARTED: bool>(
        _: &mut Pipeline<Self, N, PARTED>,
        _: u32,
        _: &mut impl Iterator<Item = u32>,
        _: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        const { panic!("{}", ALIKE) }
    }
    fn run_pipeline<D: Accumulator, const N: usize>(
        _: &mut Pipeline<Self, N>,
        _: Range<u32>,
        _: D,
        _: impl for<'s> FnMut(Fill<'s, Self, N>, u32),
        _: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
    ) -> D {
        const { panic!("{}", ALIKE) }
    }
}
