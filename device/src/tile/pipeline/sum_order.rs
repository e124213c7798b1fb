//! How warpgroups that compute a tile together follow one another along its depth.

use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::arch::warp::uniform;
use crate::tile::cta::Cta;
use crate::tile::cta::barriers::TURN;
use crate::tile::cta::collective::Collective;
use crate::tile::pipeline::turns::Turns;

/// When warpgroups begin their sums, for [`Loads::run_promoted`](crate::tile::Loads::run_promoted).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// As soon as their stage is full.
    Free,
    /// The first time when the warpgroup before has taken a sum, and then freely: the distance stays, since nothing but the ring holds them together.
    Behind,
    /// In turn, every time: a warpgroup's gemms are issued behind those of the one before.
    InTurn,
}

/// The order of a CTA's warpgroups, made and dropped by all threads of the program.
///
/// Those whose sums end at the same time add them up at the same time, and leave the tensor cores idle.
pub struct SumOrder<P: Collective> {
    /// Whether the next warpgroup waits for this one's first sum.
    awaited: bool,
    /// Whether this one has yet to wait for the one before.
    waits: bool,
    turns: Turns<P>,
}

impl<P: Collective> SumOrder<P> {
    /// The barrier at which this warpgroup, or the `ahead`-th behind it, is told to begin.
    #[inline(always)]
    fn barrier(ahead: u32) -> u32 {
        TURN.of(uniform(thread_x() / 128) + ahead)
    }
    /// Waits for the warpgroup before, the first time.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        if self.waits {
            self.waits = false;
            // SAFETY: whole warpgroups execute it, once; the one before arrives once.
            unsafe { sync::bar_sync(Self::barrier(0), 256) }
        }
    }
    /// Says that a sum has been taken.
    #[inline(always)]
    pub(super) fn taken(&mut self) {
        if self.awaited {
            self.awaited = false;
            // SAFETY: as above.
            unsafe { sync::bar_arrive(Self::barrier(1), 256) }
        }
    }
    /// `issue`, in this warpgroup's turn.
    #[inline(always)]
    pub(super) fn in_turn<G>(&self, issue: impl FnOnce() -> G) -> G {
        self.turns.take();
        let gemms = issue();
        self.turns.pass();
        gemms
    }
}

impl<P: Collective> Drop for SumOrder<P> {
    /// Of a CTA that took no sum.
    #[inline(always)]
    fn drop(&mut self) {
        self.begin();
        self.taken();
    }
}

impl<P: Collective> Cta<P> {
    /// The order in which the warpgroups that compute begin their sums.
    #[inline(always)]
    pub fn sum_order(&self, sums: Sums) -> SumOrder<P> {
        let behind = matches!(sums, Sums::Behind);
        let warpgroup = if behind { uniform(thread_x() / 128) } else { 0 };
        SumOrder {
            awaited: behind && warpgroup + 1 < P::WARPGROUPS,
            waits: behind && warpgroup > 0 && warpgroup < P::WARPGROUPS,
            turns: Turns::new(matches!(sums, Sums::InTurn)),
        }
    }
}
