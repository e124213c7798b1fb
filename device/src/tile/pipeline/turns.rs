//! Warpgroups that take turns: ping-pong.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::arch::warp::uniform;
use crate::tile::cta::Cta;
use crate::tile::cta::barriers::TURN;
use crate::tile::cta::collective::Collective;

/// An order among warpgroups: one issues its gemms while the others compute (Shah et al. 2024, section 3.1).
///
/// Every warpgroup takes and passes as often as every other; made and dropped by all.
pub struct Turns<P: Collective> {
    mine: u32,
    next: u32,
    schedule: PhantomData<P>,
}

impl<P: Collective> Turns<P> {
    const ORDERED: bool = P::WARPGROUPS > 1;

    #[inline(always)]
    pub(in crate::tile) fn new() -> Self {
        let own = uniform(thread_x() / 128);
        let next = if own + 1 == P::WARPGROUPS { 0 } else { own + 1 };
        if Self::ORDERED && thread_x() < P::CONSUMERS && next == 0 {
            // SAFETY: whole warpgroups execute it; the first one waits.
            unsafe { sync::bar_arrive(TURN.get::<0>(), 256) }
        }
        Turns { mine: TURN.of(own), next: TURN.of(next), schedule: PhantomData }
    }
    /// Waits for this warpgroup's turn.
    #[inline(always)]
    pub fn take(&self) {
        if Self::ORDERED {
            // SAFETY: whole warpgroups execute it; who comes before passes.
            unsafe { sync::bar_sync(self.mine, 256) }
        }
    }
    /// Gives the turn to the next warpgroup.
    #[inline(always)]
    pub fn pass(&self) {
        if Self::ORDERED {
            // SAFETY: whole warpgroups execute it; who comes next takes.
            unsafe { sync::bar_arrive(self.next, 256) }
        }
    }
}

impl<P: Collective> Drop for Turns<P> {
    #[inline(always)]
    fn drop(&mut self) {
        // The last turn was passed to the first warpgroup.
        if Self::ORDERED && thread_x() < 128 {
            self.take()
        }
    }
}

impl<P: Collective> Cta<P> {
    /// The order in which the warpgroups that compute take turns.
    #[inline(always)]
    pub fn turns(&self) -> Turns<P> {
        Turns::new()
    }
}
