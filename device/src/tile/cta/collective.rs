//! How the warps of a CTA share a tile.

use crate::arch::declare::{computing_threads, refuse};
use crate::arch::sync;
use crate::kernel::{Arch, Program};
use crate::tile::cta::barriers::EXCHANGE;

/// A program whose threads hold tiles together: which of them compute, and in how many groups.
pub trait Collective: Program + Sized + 'static {
    /// Threads that hold fragments: 0 to `CONSUMERS` of the CTA.
    const CONSUMERS: u32 = Self::COMPUTING;
    /// Warpgroups that compute by themselves; 1 where all warps load and compute together.
    const WARPGROUPS: u32;
    /// CTAs of a cluster that take neighbouring tiles together.
    const CLUSTER: u32 = 1;
    /// Whether its warpgroups compute tiles of their own, in turn, each with all of a tile.
    const APART: bool = false;
}

/// Waits until all threads that compute have come here, before and after an exchange through shared memory: what each of them wrote
/// before, all of them read behind it.
///
/// # Safety
/// All threads of the program that compute execute it, in whole warps.
#[inline(always)]
pub(in crate::tile) unsafe fn meet<P: Collective>() {
    const {
        assert!(
            !P::APART,
            "warpgroups that compute tiles apart do not meet: what all threads exchange through shared memory is not for their schedule"
        )
    };
    // SAFETY: the caller's; at this barrier they meet alone, all of them in the same order.
    unsafe { sync::bar_sync(EXCHANGE.get::<0>(), P::CONSUMERS) }
}

/// Refuses, when the kernel is compiled, a tile over `threads` threads that are not those that compute on `P`, where all of them meet.
pub(in crate::tile) const fn expect_all<P: Collective>(threads: u32) {
    assert!(
        threads == P::CONSUMERS,
        "the tile lies over more or fewer threads than compute: layouts of W warps, such as `Striped<W>` and `Spread<W, …>`, go with a \
         program of W warps, such as `Simt<W>`"
    );
}

/// Refuses, when the kernel is compiled, a policy of `threads` threads that are not those that compute on schedule `P`: of more
/// nobody holds what the others have, and of fewer some take stages and barriers without a part of the tile. And `wgmma`,
/// which is `asynchronous`, on a schedule for earlier architectures.
pub(in crate::tile) const fn expect_policy<P: Collective>(threads: u32, asynchronous: bool) {
    assert!(
        threads == P::CONSUMERS,
        "the policy has more or fewer warps than compute on the schedule: `warp::FullRow<W>` and others of W warps go with \
         `Multistage<W>`, `FullRow<W>` and others of W warpgroups with `WarpSpecialized<C>` of W consumer warpgroups, such as \
         `WarpSpecialized<TwoConsumers>`"
    );
    assert!(
        !asynchronous || matches!(P::ARCH, Arch::Sm90a),
        "a policy of warpgroups takes `wgmma` of Hopper, which the schedule's architecture lacks: use one of `warp`"
    );
}

/// Refuses, when the kernel is compiled, a schedule or a policy, `apart`, whose warpgroups compute tiles of their own, where all compute one.
pub(in crate::tile) const fn expect_together<P: Collective>(apart: bool) {
    assert!(
        !P::APART && !apart,
        "warpgroups that compute tiles apart take them in turn: by `Pipeline::run_in_turn`"
    );
}

/// Refuses the kernel in which a fragment lies over `threads` threads, of which fewer compute.
#[inline(always)]
pub(in crate::tile) fn expect_computing(threads: u32) {
    if threads > computing_threads() {
        refuse!(
            "a fragment lies over more threads than compute: its layout or its gemm's policy has more warps than the program"
        );
    }
}
