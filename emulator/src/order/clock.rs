//! Vector clocks: what is ordered before a point of the program.

use std::collections::BTreeMap;

use super::access::Access;

/// For each agent, the time up to which all that it did is ordered before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// The agents of the own cluster.
    own: Vec<u32>,
    /// Those of other clusters, of which one learns through global memory alone.
    others: BTreeMap<u32, Vec<u32>>,
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
        join(&mut self.own, &other.own);
        for (&cluster, theirs) in &other.others {
            join(self.others.entry(cluster).or_default(), theirs);
        }
    }

    /// Keeps what is ordered before both.
    fn meet(&mut self, other: &Clock) {
        meet(&mut self.own, &other.own);
        self.others.retain(|cluster, _| other.others.contains_key(cluster));
        for (cluster, ours) in &mut self.others {
            meet(ours, &other.others[cluster]);
        }
    }

    /// Whether an access is ordered before; `cluster` is the own one.
    #[inline]
    pub(super) fn has(&self, cluster: u32, access: &Access) -> bool {
        if access.cluster == cluster {
            return self.get(access.agent) >= access.clock;
        }
        let theirs = self.others.get(&access.cluster).and_then(|own| own.get(usize::from(access.agent)));
        theirs.is_some_and(|&time| time >= access.clock)
    }
}

fn join(ours: &mut Vec<u32>, theirs: &[u32]) {
    if ours.len() < theirs.len() {
        ours.resize(theirs.len(), 0);
    }
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours = (*ours).max(*theirs);
    }
}

fn meet(ours: &mut Vec<u32>, theirs: &[u32]) {
    ours.truncate(theirs.len());
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours = (*ours).min(*theirs);
    }
}

/// What is ordered before, and what of it a proxy fence stands behind, so that the async proxy sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    pub(super) known: Clock,
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
        let outside = |clock: &Clock| {
            let mut others = clock.others.clone();
            others.insert(cluster, clock.own.clone());
            Clock { own: Vec::new(), others }
        };
        Clocks { known: outside(&self.known), fenced: outside(&self.fenced) }
    }

    /// What [`Clocks::outside`] made, for an agent of this cluster.
    pub(super) fn inside(&self, cluster: u32) -> Clocks {
        let inside = |clock: &Clock| {
            let mut others = clock.others.clone();
            Clock { own: others.remove(&cluster).unwrap_or_default(), others }
        };
        Clocks { known: inside(&self.known), fenced: inside(&self.fenced) }
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
