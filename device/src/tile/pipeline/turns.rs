//! Warpgroups that take turns: ping-pong.

use core::marker::PhantomData;
use core::ops::Range;

use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::arch::warp::uniform;
use crate::tile::cta::Cta;
use crate::tile::cta::barriers::TURN;
use crate::tile::cta::collective::{Collective, expect_policy};
use crate::tile::memory::shared::{Fill, Full};
use crate::tile::mma::in_flight::{Accumulator, Pending};
use crate::tile::pipeline::ring::Pipeline;
use crate::tile::pipeline::schedule::Schedule;

/// An order among warpgroups: one issues its gemms while the others compute (Shah et al. 2024, section 3.1).
///
/// Every warpgroup takes and passes as often as every other; made and dropped by all.
pub struct Turns<P: Collective> {
    own: u32,
    mine: u32,
    next: u32,
    /// Whose the next tile is, where each has tiles of its own.
    tile: u32,
    /// Whether there are any.
    ordered: bool,
    schedule: PhantomData<P>,
}

impl<P: Collective> Turns<P> {
    #[inline(always)]
    pub(in crate::tile) fn new(ordered: bool) -> Self {
        // Where nobody takes turns, a number that is known here would be held through the mainloop: epilogues have no register for it.
        let own = if ordered { uniform(thread_x() / 128) } else { 0 };
        let next = if own + 1 == P::WARPGROUPS { 0 } else { own + 1 };
        if ordered && thread_x() < P::CONSUMERS && next == 0 {
            // SAFETY: whole warpgroups execute it; the first one waits.
            unsafe { sync::bar_arrive(TURN.get::<0>(), 256) }
        }
        Turns { own, mine: TURN.of(own), next: TURN.of(next), tile: 0, ordered, schedule: PhantomData }
    }
    /// Waits for this warpgroup's turn.
    #[inline(always)]
    pub fn take(&self) {
        if self.ordered {
            // SAFETY: whole warpgroups execute it; who comes before passes.
            unsafe { sync::bar_sync(self.mine, 256) }
        }
    }
    /// Gives the turn to the next warpgroup.
    #[inline(always)]
    pub fn pass(&self) {
        if self.ordered {
            // SAFETY: whole warpgroups execute it; who comes next takes.
            unsafe { sync::bar_arrive(self.next, 256) }
        }
    }
}

impl<P: Schedule, const N: usize> Pipeline<P, N> {
    /// As [`run`](Self::run) for one of a CTA's tiles, each of which one warpgroup computes by itself, in turn: it alone has the result. The
    /// next one's gemms begin when this one's are issued, and run while this one does what follows (ping-pong).
    ///
    /// All of them come here for every tile, with the same steps. On schedules whose warpgroups compute tiles together it is `run`.
    #[inline(always)]
    pub fn run_in_turn<D: Accumulator>(
        &mut self,
        turns: &mut Turns<P>,
        steps: Range<u32>,
        d: D,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        compute: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
    ) -> Option<D> {
        const {
            expect_policy::<P>(D::Issued::THREADS, D::Issued::ASYNCHRONOUS);
            assert!(
                D::Issued::APART == P::APART,
                "a policy `PerWarpgroup<W>` goes with a configuration whose warpgroups compute tiles `APART`"
            );
        }
        if !P::APART {
            return Some(P::run_pipeline(self, steps, d, load, compute, || ()));
        }
        if thread_x() >= P::CONSUMERS {
            P::run_pipeline(self, steps, d, load, compute, || ());
            return None;
        }
        let own = turns.own == turns.tile;
        turns.tile = if turns.tile + 1 == P::WARPGROUPS { 0 } else { turns.tile + 1 };
        if !own {
            self.pass_by(steps.end.saturating_sub(steps.start));
            return None;
        }
        turns.take();
        Some(P::run_pipeline(
            self,
            steps,
            d,
            load,
            compute,
            #[inline(always)]
            || turns.pass(),
        ))
    }
}

impl<P: Collective> Drop for Turns<P> {
    #[inline(always)]
    fn drop(&mut self) {
        // The last turn was passed to the first warpgroup, or to the one that would have the next tile.
        let passed =
            if P::APART { thread_x() < P::CONSUMERS && self.own == self.tile } else { thread_x() < 128 };
        if self.ordered && passed {
            self.take()
        }
    }
}

impl<P: Collective> Cta<P> {
    /// The order in which the warpgroups that compute take turns.
    #[inline(always)]
    pub fn turns(&self) -> Turns<P> {
        self.turns_if(true)
    }

    /// The same, if they are to take any: else nobody waits.
    #[inline(always)]
    pub fn turns_if(&self, ordered: bool) -> Turns<P> {
        Turns::new(ordered && P::WARPGROUPS > 1)
    }

    /// The order in which they take tiles of their own, for [`Pipeline::run_in_turn`]: none where they compute all of them together.
    #[inline(always)]
    pub fn turns_of_tiles(&self) -> Turns<P> {
        Turns::new(P::APART)
    }
}
