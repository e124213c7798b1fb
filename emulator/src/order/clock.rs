//! Vector clocks: what is ordered before a point of the program.

use super::access::Access;
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

/// What is ordered before, and what of it a proxy fence stands behind, so that the async proxy sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    pub(super) known: Clock,
    /// A part of `known`.
    pub(super) fenced: Clock,
}

impl Clocks {
    pub(super) fn join(&mut self, other: &Clocks) {
        self.known.join(&other.known);
        self.fenced.join(&other.fenced);
    }

    pub(super) fn meet(&mut self, other: &Clocks) {
        self.known.meet(&other.known);
        self.fenced.meet(&other.fenced);
    }

    /// The same for agents of any cluster, when these are the clocks of one of this cluster.
    pub(super) fn outside(&self, cluster: u32) -> Clocks {
        Clocks { known: self.known.outside(cluster), fenced: self.fenced.outside(cluster) }
    }

    /// What [`Clocks::outside`] made, for an agent of this cluster.
    pub(super) fn inside(&self, cluster: u32) -> Clocks {
        Clocks { known: self.known.inside(cluster), fenced: self.fenced.inside(cluster) }
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
