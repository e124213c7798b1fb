//! What some lanes of a warp alone have acquired.
//!
//! A warp has one clock, of what any of its lanes knows. What a lane has waited for, the others know once they meet it at a
//! barrier, and not before. PTX ISA, "Memory Consistency Model: Causality Order". Until then it is kept here, lanes by lanes:
//! of most warps nothing, as all their lanes wait, or meet behind the one that did.

use super::access::Access;
use super::clock::Clock;

/// Sets of lanes that are told apart: of more, what they know all lanes are taken to.
const SETS: usize = 40;

/// What lanes of a warp know that not all of them do.
#[derive(Debug, Default)]
pub(super) struct Alone {
    /// What all lanes know.
    all: Clock,
    /// What these lanes know besides.
    lanes: Vec<(u32, Clock)>,
}

impl Alone {
    /// Whether all lanes know the same.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// What decides whether these lanes know an access, if not all lanes know the same.
    #[inline(always)]
    pub(super) fn of(&self, lanes: u32) -> Option<(&Self, u32)> {
        if self.is_empty() { None } else { Some((self, lanes)) }
    }

    /// Lanes, all of them with `u32::MAX`, learn more, which the clock of the warp `own` does not have yet.
    pub(super) fn learn(&mut self, lanes: u32, (own, clock): (u16, &Clock), more: impl Fn(&mut Clock)) {
        if lanes == u32::MAX {
            if !self.is_empty() {
                more(&mut self.all);
            }
            return;
        }
        if self.is_empty() {
            self.all.clone_from(clock);
            // How its own lanes' accesses are ordered is told by their times.
            self.all.raise(own, u32::MAX);
        }
        match self.lanes.iter_mut().find(|(own, _)| *own == lanes) {
            Some((_, known)) => more(known),
            None => {
                let mut known = Clock::default();
                more(&mut known);
                self.lanes.push((lanes, known));
            }
        }
        if self.lanes.len() > SETS {
            self.lanes.clear();
        }
    }

    /// Lanes, all of them with `u32::MAX`, meet: what one of them knows the others learn.
    pub(super) fn meet(&mut self, lanes: u32) {
        if lanes == u32::MAX {
            self.lanes.clear();
        }
        self.lanes.iter_mut().filter(|(own, _)| own & lanes != 0).for_each(|(own, _)| *own |= lanes);
    }

    /// Whether each of these lanes knows an access, which the warp's clock has; `cluster` is the own one.
    pub(super) fn knows(&self, lanes: u32, cluster: u32, access: &Access) -> bool {
        let mut left = if self.all.has(cluster, access) { 0 } else { lanes };
        for (own, known) in &self.lanes {
            if left & own != 0 && known.has(cluster, access) {
                left &= !own;
            }
        }
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Alone, Clock};

    #[test]
    fn lanes_know_what_they_learnt_and_what_they_met() {
        let mut clock = Clock::default();
        clock.raise(1, 3);
        let (mut alone, own) = (Alone::default(), (0, &clock));
        let access = |agent, clock| Access { agent, clock, ..Access::default() };
        alone.learn(u32::MAX, own, |clock| clock.raise(1, 4));
        assert!(alone.is_empty());
        alone.learn(1, own, |clock| clock.raise(1, 5));
        alone.learn(6, own, |clock| clock.raise(2, 5));
        let knows = |alone: &Alone, lanes| {
            [(1, 3), (1, 5), (2, 5)].map(|(a, c)| alone.knows(lanes, 0, &access(a, c)))
        };
        assert_eq!(knows(&alone, 1), [true, true, false]);
        assert_eq!(knows(&alone, 2), [true, false, true]);
        assert_eq!(knows(&alone, 9), [true, false, false]);
        assert!(alone.knows(9, 0, &access(0, 7)));
        alone.meet(5);
        assert_eq!(knows(&alone, 4), [true; 3]);
        assert_eq!(knows(&alone, 2), [true, false, true]);
        alone.learn(u32::MAX, own, |clock| clock.raise(1, 5));
        assert_eq!(knows(&alone, 8), [true, true, false]);
        alone.meet(u32::MAX);
        assert!(alone.is_empty());
    }
}
