//! Warpgroups with different things to do.

use crate::arch::special::thread_x;
use crate::arch::sync::{self, RegisterCount, Registers};
use crate::arch::tma::Coords;
use crate::kernel::{Arch, Copies, Program};
use crate::layout::{Element, Major, SharedLayout};
use crate::tile::copy::arrival::Arrival;
use crate::tile::copy::{gather, load, paged, patches};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::Collective;
use crate::tile::cta::registers;
use crate::tile::memory::gathered::Gathered;
use crate::tile::memory::global_tile::GlobalTile;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::paged::PagedTile;
use crate::tile::memory::patches::PatchTile;

/// Hopper: two roles, the first of `A` warpgroups with `RA` registers a thread, the second of `B` with `RB`; and, if `W` is not 0, a third
/// of `W` with `RW`, which fills the others' stages where a copy alone does not do. `K` CTAs are
/// a cluster.
///
/// The body is instantiated once for each; [`Cta::in_role`](super::Cta::in_role) tells them apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Roles<
    const A: usize,
    const RA: u32,
    const B: usize,
    const RB: u32,
    const W: usize = 0,
    const RW: u32 = 24,
    const K: u32 = 1,
>;

impl<
    const A: usize,
    const RA: u32,
    const B: usize,
    const RB: u32,
    const W: usize,
    const RW: u32,
    const K: u32,
> Roles<A, RA, B, RB, W, RW, K>
{
    /// Registers that a thread has at the launch.
    const LAUNCH: u32 = registers::at_launch(<Self as Program>::THREADS, <Self as Program>::CTAS);
    /// The first thread of the second role, and of the third.
    const SECOND: u32 = 128 * A as u32;
    const THIRD: u32 = 128 * (A + B) as u32;
    const FIT: () = registers::expect_fit(&[(A as u32, RA), (B as u32, RB), (W as u32, RW)], Self::LAUNCH);
}

/// Takes or gives registers, so that a thread has `N`, of the `launch` that it began with.
///
/// # Safety
/// All warps of the warpgroup execute it once.
#[inline(always)]
unsafe fn reallocate<N: RegisterCount>(launch: u32) {
    // SAFETY: passed on; the roles fit what the launch allocated.
    unsafe { if N::COUNT > launch { sync::setmaxnreg_inc::<N>() } else { sync::setmaxnreg_dec::<N>() } }
}

impl<
    const A: usize,
    const RA: u32,
    const B: usize,
    const RB: u32,
    const W: usize,
    const RW: u32,
    const K: u32,
> Program for Roles<A, RA, B, RB, W, RW, K>
{
    const ARCH: Arch = Arch::Sm90a;
    const THREADS: u32 = 128 * (A + B + W) as u32;
    const COPIES: Copies = Copies::Boxes;

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        const { Self::FIT };
        // SAFETY: every warp of a warpgroup reallocates once, and the amounts fit.
        unsafe {
            core::hint::assert_unchecked(thread_x() < Self::THREADS);
            if thread_x() < Self::SECOND {
                reallocate::<Registers<RA>>(Self::LAUNCH);
                body()
            } else if W == 0 || thread_x() < Self::THIRD {
                reallocate::<Registers<RB>>(Self::LAUNCH);
                body()
            } else {
                reallocate::<Registers<RW>>(Self::LAUNCH);
                body()
            }
        }
    }
}

/// A [`Loader`] of two roles that compute.
pub trait TwoRoles: Loader {
    /// Warps of each role.
    const WARPS: [u32; 2];
    /// Warps of a third role that fills stages for them: none where those who compute load, too.
    const FILLING: u32;
}

impl<P: TwoRoles> Cta<P> {
    /// Whether this is the instance of the body for `role`: 0, 1, or 2 for that which fills stages.
    #[inline(always)]
    pub fn in_role(&self, role: u32) -> bool {
        let [first, second] = P::WARPS;
        if P::FILLING > 0 && thread_x() >= 32 * (first + second) {
            return role == 2;
        }
        role < 2 && (thread_x() >= 32 * first) == (role == 1)
    }
}

impl<
    const A: usize,
    const RA: u32,
    const B: usize,
    const RB: u32,
    const W: usize,
    const RW: u32,
    const K: u32,
> TwoRoles for Roles<A, RA, B, RB, W, RW, K>
{
    const WARPS: [u32; 2] = [4 * A as u32, 4 * B as u32];
    const FILLING: u32 = 4 * W as u32;
}

impl<
    const A: usize,
    const RA: u32,
    const B: usize,
    const RB: u32,
    const W: usize,
    const RW: u32,
    const K: u32,
> Collective for Roles<A, RA, B, RB, W, RW, K>
{
    const WARPGROUPS: u32 = (A + B + W) as u32;
    const CLUSTER: u32 = K;
}

impl<
    const A: usize,
    const RA: u32,
    const B: usize,
    const RB: u32,
    const W: usize,
    const RW: u32,
    const K: u32,
> Loader for Roles<A, RA, B, RB, W, RW, K>
{
    type Ticket = Arrival;

    #[inline(always)]
    fn on_barrier(barrier: u32) -> Arrival {
        Arrival::new(barrier)
    }

    #[inline(always)]
    unsafe fn load<T, O, L, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        to: u32,
        Arrival { barrier, part, parts }: Arrival,
    ) where
        T: Element,
        O: Major,
        L: SharedLayout,
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe { load::tma_load::<Self, T, O, L, RANK, BOX, R, C>(from, to, barrier, part, parts) }
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
    unsafe fn load_gathered<T, L, F, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: Gathered<T, RANK, BOX, F>,
        to: u32,
        Arrival { barrier, part, parts }: Arrival,
    ) where
        T: Element,
        L: SharedLayout,
        F: Fn(u32) -> Option<[u32; RANK]>,
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe { gather::gathered_tma::<T, L, F, RANK, BOX, R, C>(from, to, barrier, part, parts) }
    }

    #[inline(always)]
    unsafe fn load_patches<T: Element, L: SharedLayout, const R: usize, const C: usize>(
        from: PatchTile<T>,
        to: u32,
        Arrival { barrier, parts, .. }: Arrival,
    ) {
        // SAFETY: passed on.
        unsafe { patches::patches_tma::<T, L, R, C>(from, to, barrier, parts) }
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
