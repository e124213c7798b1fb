//! Warpgroups that take turns: ping-pong.

use super::Schedule;
use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::arch::warp::uniform;
use core::marker::PhantomData;

/// The named barrier of warpgroup 0's turn; its neighbours' follow.
const FIRST: u32 = 8;

/// An order among warpgroups: one issues its gemms while the others compute (Shah et al. 2024, section 3.1).
///
/// Every warpgroup takes and passes as often as every other; made and dropped by all.
pub struct Turns<P: Schedule> {
    mine: u32,
    next: u32,
    schedule: PhantomData<P>,
}

impl<P: Schedule> Turns<P> {
    const ORDERED: bool = P::WARPGROUPS > 1;

    #[inline(always)]
    pub(super) fn new() -> Self {
        let own = uniform(thread_x() / 128);
        let next = if own + 1 == P::WARPGROUPS { 0 } else { own + 1 };
        if Self::ORDERED && thread_x() < P::CONSUMERS && next == 0 {
            // SAFETY: whole warpgroups execute it; the first one waits.
            unsafe { sync::bar_arrive(FIRST, 256) }
        }
        Turns { mine: FIRST + own, next: FIRST + next, schedule: PhantomData }
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

impl<P: Schedule> Drop for Turns<P> {
    #[inline(always)]
    fn drop(&mut self) {
        // The last turn was passed to the first warpgroup.
        if Self::ORDERED && thread_x() < 128 {
            self.take()
        }
    }
}
