//! Vector clocks: what is ordered before a point of the program.

use std::ops::Range;

use super::access::{Access, NO_LANE};
use super::clusters::{Clusters, Times, join_times, meet_times};

/// For each agent, the time up to which all that it did is ordered before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// The agents of the own cluster.
    own: Times,
    /// Those of other clusters, of which one learns through global memory alone. What stands here of the own cluster is no
    /// later than in `own`.
    others: Clusters,
}

impl Clock {
    #[inline]
    pub(super) fn get(&self, agent: u16) -> u32 {
        self.own.get(usize::from(agent)).copied().unwrap_or(0)
    }

    pub(super) fn raise(&mut self, agent: u16, to: u32) {
        let agent = usize::from(agent);
        if self.own.len() <= agent {
            self.own.resize(agent + 1, 0);
        }
        self.own[agent] = self.own[agent].max(to);
    }

    pub(super) fn join(&mut self, other: &Clock) {
        join_times(&mut self.own, &other.own);
        self.others.join(&other.others);
    }

    /// Keeps what is ordered before both.
    fn meet(&mut self, other: &Clock) {
        meet_times(&mut self.own, &other.own);
        self.others.meet(&other.others);
    }

    /// Whether an access is ordered before; `cluster` is the own one.
    #[inline]
    pub(super) fn has(&self, cluster: u32, access: &Access) -> bool {
        if access.cluster == cluster {
            return self.get(access.agent) >= access.clock;
        }
        let theirs = self.others.get(access.cluster).get(usize::from(access.agent));
        theirs.is_some_and(|&time| time >= access.clock)
    }

    /// Whether something is known of this agent of another cluster.
    pub(super) fn is_known_outside(&self, agent: u16) -> bool {
        self.others.any(|times| times.get(usize::from(agent)).is_some_and(|&time| time > 0))
    }

    /// The same for agents of any cluster, when this is the clock of one of this cluster.
    fn outside(&self, cluster: u32) -> Clock {
        let mut others = self.others.clone();
        if !self.own.is_empty() {
            others.join(&Clusters::of(cluster, &self.own));
        }
        Clock { own: Vec::new(), others }
    }

    /// What [`Clock::outside`] made, for an agent of this cluster.
    fn inside(&self, cluster: u32) -> Clock {
        Clock { own: self.others.get(cluster).to_vec(), others: self.others.clone() }
    }
}

/// A proxy fence of some lanes of a warp: it is behind what they did themselves up to this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LanesFence {
    agent: u16,
    lanes: u32,
    time: u32,
}

/// What is ordered before, and what of it a proxy fence stands behind, so that the async proxy sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    pub(super) known: Clock,
    /// Behind fences of shared memory and of global memory, where the program tells these apart; otherwise the first has both.
    fenced: [Fenced; 2],
}

/// What of what is known a proxy fence stands behind.
#[derive(Clone, Debug, Default)]
struct Fenced {
    /// A part of `known`.
    all: Clock,
    /// What of it is of some lanes alone, and not in `all`.
    lanes: Vec<LanesFence>,
}

impl Clocks {
    pub(super) fn join(&mut self, other: &Clocks) {
        self.known.join(&other.known);
        self.fenced.iter_mut().zip(&other.fenced).for_each(|(own, other)| own.join(other));
    }

    pub(super) fn meet(&mut self, other: &Clocks) {
        self.known.meet(&other.known);
        self.fenced.iter_mut().zip(&other.fenced).for_each(|(own, other)| own.meet(other));
    }

    /// Lanes of the warp `own`, all of them with `u32::MAX`, execute a fence of these proxies: of what they know, and so of what the others of
    /// their warp did before this time, at which they had met.
    pub(super) fn fence(&mut self, proxies: Range<usize>, own: u16, lanes: u32, met: u32) {
        let Self { known, fenced } = self;
        fenced[proxies].iter_mut().for_each(|fenced| fenced.fence(known, own, lanes, met));
    }

    /// Whether a fence of this proxy stands behind an access; `cluster` is the own one.
    pub(super) fn is_fenced(&self, proxy: usize, cluster: u32, access: &Access) -> bool {
        self.fenced[proxy].has(cluster, access)
    }

    /// The same for agents of any cluster, when these are the clocks of one of this cluster.
    pub(super) fn outside(&self, cluster: u32) -> Clocks {
        let fenced = self.fenced.each_ref().map(|fenced| fenced.outside(cluster));
        Clocks { known: self.known.outside(cluster), fenced }
    }

    /// What [`Clocks::outside`] made, for an agent of this cluster.
    pub(super) fn inside(&self, cluster: u32) -> Clocks {
        let inside = |fenced: &Fenced| Fenced { all: fenced.all.inside(cluster), lanes: Vec::new() };
        Clocks { known: self.known.inside(cluster), fenced: self.fenced.each_ref().map(inside) }
    }
}

impl Fenced {
    fn join(&mut self, other: &Self) {
        self.all.join(&other.all);
        other.lanes.iter().for_each(|fence| self.add(*fence));
        self.settle();
    }

    fn meet(&mut self, other: &Self) {
        let mut both: Vec<_> = self.lanes.iter().filter(|fence| other.includes(fence)).copied().collect();
        both.extend(other.lanes.iter().filter(|fence| self.includes(fence) && !self.lanes.contains(fence)));
        self.all.meet(&other.all);
        self.lanes = both;
        self.settle();
    }

    fn fence(&mut self, known: &Clock, own: u16, lanes: u32, met: u32) {
        let before = self.all.get(own);
        self.all.clone_from(known);
        if lanes != u32::MAX {
            if let Some(all) = self.all.own.get_mut(usize::from(own)) {
                *all = before.max(met.saturating_sub(1));
            }
            self.add(LanesFence { agent: own, lanes, time: known.get(own) });
        }
        self.settle();
    }

    fn has(&self, cluster: u32, access: &Access) -> bool {
        let own = |fence: &LanesFence| match access.lane {
            _ if access.cluster != cluster || fence.agent != access.agent || fence.time < access.clock => {
                false
            }
            lane @ 0..32 => fence.lanes >> lane & 1 != 0,
            lane => lane == NO_LANE,
        };
        self.all.has(cluster, access) || self.lanes.iter().any(own)
    }

    fn add(&mut self, new: LanesFence) {
        let same = |fence: &&mut LanesFence| fence.agent == new.agent && fence.lanes == new.lanes;
        match self.lanes.iter_mut().find(same) {
            Some(fence) => fence.time = fence.time.max(new.time),
            None => self.lanes.push(new),
        }
    }

    fn includes(&self, fence: &LanesFence) -> bool {
        let own = |other: &LanesFence| {
            other.agent == fence.agent && other.time >= fence.time && other.lanes & fence.lanes == fence.lanes
        };
        self.all.get(fence.agent) >= fence.time || self.lanes.iter().any(own)
    }

    /// Forgets fences of lanes that a later one of all stands for.
    #[inline]
    fn settle(&mut self) {
        if !self.lanes.is_empty() {
            let Self { all, lanes } = self;
            lanes.retain(|fence| all.get(fence.agent) < fence.time);
        }
    }

    /// There a fence of some lanes is taken for one of all.
    fn outside(&self, cluster: u32) -> Self {
        let mut all = self.all.clone();
        self.lanes.iter().for_each(|fence| all.raise(fence.agent, fence.time));
        Self { all: all.outside(cluster), lanes: Vec::new() }
    }
}

/// A point at which some arrive, and others wait until all have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meeting {
    /// Ordered before the next completion.
    pub(super) arrived: Clocks,
    /// Ordered before the last completion. It grows: who was slow to leave may see a later one than its own.
    pub(super) completed: Clocks,
}

impl Meeting {
    /// All have arrived.
    pub(crate) fn complete(&mut self) {
        self.completed.join(&self.arrived);
    }

    /// Puts an agent's work up to this time before the next completion.
    pub(crate) fn raise(&mut self, agent: u16, to: u32) {
        self.arrived.known.raise(agent, to);
    }
}
