//! Which lanes a warp's releases are of.
//!
//! A warp has one clock, and what it releases is what all its lanes have done. Where some lanes alone release, what another
//! one read or wrote since they last met at a barrier is not theirs to pass on. PTX ISA, "Memory Consistency Model: Causality Order".

use std::collections::VecDeque;

use super::access::MANY_LANES;

/// Releases that are remembered: of what came before, all is taken to be passed on.
const REMEMBERED: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Release {
    /// The warp's time until which it passes on what was done.
    time: u32,
    lanes: u32,
    /// When the lanes had met last.
    met: u32,
}

/// The releases of a warp.
#[derive(Debug, Default)]
pub(super) struct Releases {
    /// Those since the first that was not of all lanes.
    last: VecDeque<Release>,
    /// When the lanes met last: what they did before is known to all of them.
    met: u32,
    /// When they last went on together behind an mbarrier, at which each may have arrived.
    left: u32,
    /// The time of the last release of all lanes.
    whole: u32,
    /// That of the last release that is forgotten.
    forgotten: u32,
}

impl Releases {
    /// The lanes have met: what they do from this time on they do for themselves again.
    pub(super) fn meet(&mut self, time: u32) {
        self.met = time;
    }

    /// When the lanes met last.
    pub(super) fn met(&self) -> u32 {
        self.met
    }

    /// The lanes go on together behind what they waited for.
    pub(super) fn leave(&mut self, time: u32) {
        self.left = time;
    }

    /// From when on none of the lanes can know what another one has done: they have not met since, nor all arrived at or left an mbarrier.
    pub(super) fn apart(&self) -> u32 {
        self.met.max(self.left).max(self.whole + 1)
    }

    /// Takes over what the lanes have done together.
    pub(super) fn follow(&mut self, own: &Releases) {
        (self.met, self.whole) = (own.met, own.whole);
    }

    /// Lanes, all of them with `u32::MAX`, release what was done up to this time.
    pub(super) fn release(&mut self, time: u32, lanes: u32) {
        self.note(Release { time, lanes, met: self.met });
    }

    /// Lanes release what was done up to a fence, which was at this time.
    pub(super) fn release_fenced(&mut self, time: u32, lanes: u32) {
        let lanes = if self.met > time { u32::MAX } else { lanes };
        self.note(Release { time, lanes, met: self.met });
    }

    fn note(&mut self, release: Release) {
        if release.lanes == u32::MAX {
            self.whole = self.whole.max(release.time);
            if self.last.is_empty() {
                return;
            }
        }
        if self.last.len() == REMEMBERED
            && let Some(first) = self.last.pop_front()
        {
            self.forgotten = self.forgotten.max(first.time);
        }
        self.last.push_back(release);
    }

    /// Whether what a lane did at a time was passed on to who knows the warp up to a later one.
    #[inline(always)]
    pub(super) fn covers(&self, lane: u8, time: u32, known: u32) -> bool {
        self.last.is_empty() || self.remember(lane, time, known)
    }

    fn remember(&self, lane: u8, time: u32, known: u32) -> bool {
        let whole = time <= self.whole && self.whole <= known;
        if whole || time <= self.forgotten {
            return true;
        }
        let mut lanes = None;
        for release in self.last.iter().rev().filter(|release| (time..=known).contains(&release.time)) {
            if time < release.met {
                return true;
            }
            lanes = Some(lanes.unwrap_or(0) | release.lanes);
        }
        lanes.is_none_or(|lanes| match lane {
            // Which ones is not known, but one alone is not all of them.
            MANY_LANES => lanes.count_ones() > 1,
            _ => lanes >> (lane & 31) & 1 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{MANY_LANES, REMEMBERED, Releases};

    #[test]
    fn lanes_pass_on_their_own() {
        let mut releases = Releases::default();
        assert!(releases.covers(3, 1, 9));
        releases.release(1, u32::MAX);
        releases.release(2, 1);
        assert!(releases.covers(0, 2, 2) && !releases.covers(3, 2, 2));
        // Of several lanes one alone does not know.
        assert!(releases.covers(MANY_LANES, 1, 2) && !releases.covers(MANY_LANES, 2, 2));
        // It was released by all of them before.
        assert!(releases.covers(3, 1, 2));
        // After a barrier, any lane passes on what came before.
        releases.meet(3);
        releases.release(3, 1);
        assert!(releases.covers(3, 2, 3) && !releases.covers(3, 3, 3));
        // Who has learnt of a later one by all.
        releases.release(4, u32::MAX);
        assert!(releases.covers(3, 3, 4) && !releases.covers(3, 3, 3));
        (5..5 + REMEMBERED as u32).for_each(|time| releases.release(time, 1));
        assert!(releases.covers(3, 4, 5) && !releases.covers(3, 9, 9));
    }
}
