//! Times of the agents of many clusters, as a tree whose parts are shared.
//!
//! Where all clusters of a launch pass on what they know through one address, as those of a reduction whose last CTA sums up, each
//! has a clock of all before it. These differ in few entries. A radix tree that is never changed, of which an update copies
//! the path to its leaf alone (Driscoll, Sarnak, Sleator, Tarjan: "Making Data Structures Persistent", 1989), keeps what is the same
//! in one place: a clock costs its differences, and to join two is to look at those.

use std::sync::Arc;

/// Bits of a cluster's number that a level tells apart.
const BITS: u32 = 4;
const WIDTH: usize = 1 << BITS;

type Slots<T> = [Option<Arc<T>>; WIDTH];

/// By agent, the time up to which all that it did is known.
pub(super) type Times = Vec<u32>;

#[derive(Debug)]
enum Node {
    Inner(Slots<Node>),
    Leaf(Slots<Times>),
}

impl Node {
    fn any(&self, f: impl Fn(&Times) -> bool + Copy) -> bool {
        match self {
            Node::Inner(slots) => slots.iter().flatten().any(|node| node.any(f)),
            Node::Leaf(slots) => slots.iter().flatten().any(|times| f(times)),
        }
    }
}

/// For each cluster of which something is known, the times of its agents.
#[derive(Clone, Debug, Default)]
pub(super) struct Clusters {
    root: Option<Arc<Node>>,
    /// Levels: the numbers that the tree has room for have so many times [`BITS`].
    levels: u32,
}

impl Clusters {
    /// The times of a cluster's agents; none where nothing is known.
    pub(super) fn get(&self, cluster: u32) -> &[u32] {
        if levels(cluster) > self.levels {
            return &[];
        }
        let (mut node, mut level) = (self.root.as_deref(), self.levels);
        while let Some(found) = node {
            level -= 1;
            match found {
                Node::Inner(slots) => node = slots[slot(cluster, level)].as_deref(),
                Node::Leaf(slots) => return slots[slot(cluster, 0)].as_deref().map_or(&[], Vec::as_slice),
            }
        }
        &[]
    }

    /// Whether some cluster's agents have such times.
    pub(super) fn any(&self, f: impl Fn(&Times) -> bool + Copy) -> bool {
        self.root.as_ref().is_some_and(|root| root.any(f))
    }

    /// The times of one cluster's agents.
    pub(super) fn of(cluster: u32, times: &[u32]) -> Self {
        let levels = levels(cluster);
        let leaf = Node::Leaf(single(cluster, 0, Arc::new(times.to_vec())));
        let root = (1..levels).fold(leaf, |node, level| Node::Inner(single(cluster, level, Arc::new(node))));
        Self { root: Some(Arc::new(root)), levels }
    }

    /// Adds what is known there.
    pub(super) fn join(&mut self, other: &Self) {
        let Some(theirs) = &other.root else { return };
        if self.root.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, theirs)) {
            return;
        }
        let levels = self.levels.max(other.levels);
        self.root = match (self.raised(levels), other.raised(levels)) {
            (Some(ours), Some(theirs)) => Some(merge(&ours, &theirs, Merge::Join)),
            (ours, theirs) => ours.or(theirs),
        };
        self.levels = levels;
    }

    /// Keeps what is known there too.
    pub(super) fn meet(&mut self, other: &Self) {
        let levels = self.levels.max(other.levels);
        let both = self.raised(levels).zip(other.raised(levels));
        self.root = both.map(|(ours, theirs)| merge(&ours, &theirs, Merge::Meet));
        self.levels = levels;
    }

    /// The root of the same tree with more levels.
    fn raised(&self, levels: u32) -> Option<Arc<Node>> {
        let root = self.root.clone()?;
        Some((self.levels..levels).fold(root, |root, level| Arc::new(Node::Inner(single(0, level, root)))))
    }
}

/// The levels of the smallest tree with room for a cluster.
fn levels(cluster: u32) -> u32 {
    (u32::BITS - cluster.leading_zeros()).div_ceil(BITS).max(1)
}

/// Which slot of a node of this level a cluster is in.
fn slot(cluster: u32, level: u32) -> usize {
    (cluster >> (BITS * level)) as usize % WIDTH
}

fn single<T>(cluster: u32, level: u32, of: Arc<T>) -> Slots<T> {
    let mut slots = Slots::default();
    slots[slot(cluster, level)] = Some(of);
    slots
}

#[derive(Clone, Copy)]
enum Merge {
    /// The later of two times.
    Join,
    /// The earlier.
    Meet,
}

/// What comes of two: one of them where that is the same, so that it stays shared.
enum Merged<T> {
    Ours,
    Theirs,
    New(T),
}

impl<T> Merged<T> {
    fn shared<N>(self, ours: &Arc<N>, theirs: &Arc<N>, new: impl FnOnce(T) -> N) -> Arc<N> {
        match self {
            Merged::Ours => Arc::clone(ours),
            Merged::Theirs => Arc::clone(theirs),
            Merged::New(value) => Arc::new(new(value)),
        }
    }
}

fn merge(ours: &Arc<Node>, theirs: &Arc<Node>, how: Merge) -> Arc<Node> {
    match (&**ours, &**theirs) {
        _ if Arc::ptr_eq(ours, theirs) => Arc::clone(ours),
        (Node::Inner(a), Node::Inner(b)) => {
            slots(a, b, how, |a, b| merge(a, b, how)).shared(ours, theirs, Node::Inner)
        }
        (Node::Leaf(a), Node::Leaf(b)) => {
            let both = |a: &Arc<Times>, b: &Arc<Times>| times(a, b, how).shared(a, b, |times| times);
            slots(a, b, how, both).shared(ours, theirs, Node::Leaf)
        }
        _ => unreachable!("trees of as many levels have their leaves at the same one"),
    }
}

fn slots<T>(
    ours: &Slots<T>,
    theirs: &Slots<T>,
    how: Merge,
    both: impl Fn(&Arc<T>, &Arc<T>) -> Arc<T>,
) -> Merged<Slots<T>> {
    let is = |merged: &Option<Arc<T>>, old: &Option<Arc<T>>| match (merged, old) {
        (Some(merged), Some(old)) => Arc::ptr_eq(merged, old),
        (merged, old) => merged.is_none() && old.is_none(),
    };
    let (mut are_ours, mut are_theirs) = (true, true);
    let merged = std::array::from_fn(|i| {
        let merged = match (&ours[i], &theirs[i], how) {
            (Some(ours), Some(theirs), _) if !Arc::ptr_eq(ours, theirs) => Some(both(ours, theirs)),
            (Some(ours), Some(_), _) => Some(Arc::clone(ours)),
            (ours, theirs, Merge::Join) => ours.as_ref().or(theirs.as_ref()).cloned(),
            (.., Merge::Meet) => None,
        };
        are_ours &= is(&merged, &ours[i]);
        are_theirs &= is(&merged, &theirs[i]);
        merged
    });
    match (are_ours, are_theirs) {
        (true, _) => Merged::Ours,
        (_, true) => Merged::Theirs,
        _ => Merged::New(merged),
    }
}

fn times(ours: &Times, theirs: &Times, how: Merge) -> Merged<Times> {
    let mut merged = ours.clone();
    match how {
        Merge::Join => join_times(&mut merged, theirs),
        Merge::Meet => meet_times(&mut merged, theirs),
    }
    if merged == *ours {
        Merged::Ours
    } else if merged == *theirs {
        Merged::Theirs
    } else {
        Merged::New(merged)
    }
}

/// Keeps the later of two times of each agent.
pub(super) fn join_times(ours: &mut Times, theirs: &[u32]) {
    if ours.len() < theirs.len() {
        ours.resize(theirs.len(), 0);
    }
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours = (*ours).max(*theirs);
    }
}

/// Keeps the earlier of two times of each agent.
pub(super) fn meet_times(ours: &mut Times, theirs: &[u32]) {
    ours.truncate(theirs.len());
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours = (*ours).min(*theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    /// The nodes that these trees have together.
    fn nodes(trees: &[Clusters]) -> usize {
        fn visit(node: &Arc<Node>, seen: &mut HashSet<*const Node>) {
            if seen.insert(Arc::as_ptr(node))
                && let Node::Inner(slots) = &**node
            {
                slots.iter().flatten().for_each(|node| visit(node, seen));
            }
        }
        let mut seen = HashSet::new();
        trees.iter().filter_map(|tree| tree.root.as_ref()).for_each(|root| visit(root, &mut seen));
        seen.len()
    }

    #[test]
    fn trees_are_maps() {
        let mut random = fastrand::Rng::with_seed(1);
        let numbers = [0, 1, 15, 16, 17, 255, 256, 4095, 70_000, 1 << 28, u32::MAX];
        let mut random_tree = || {
            let (mut tree, mut map) = (Clusters::default(), BTreeMap::<u32, Times>::new());
            for _ in 0..random.usize(0..12) {
                let cluster = numbers[random.usize(..numbers.len())];
                let times: Times = (0..random.usize(1..4)).map(|_| random.u32(0..3)).collect();
                tree.join(&Clusters::of(cluster, &times));
                join_times(map.entry(cluster).or_default(), &times);
            }
            (tree, map)
        };
        for _ in 0..500 {
            let ((a, a_map), (b, b_map)) = (random_tree(), random_tree());
            let (mut joined, mut met) = (a.clone(), a.clone());
            joined.join(&b);
            met.meet(&b);
            for cluster in numbers {
                let [ours, theirs] =
                    [&a_map, &b_map].map(|map| map.get(&cluster).cloned().unwrap_or_default());
                assert_eq!(a.get(cluster), ours);
                let mut expected = ours.clone();
                join_times(&mut expected, &theirs);
                assert_eq!(joined.get(cluster), expected, "{cluster}: {ours:?}, {theirs:?}");
                let mut expected = ours.clone();
                meet_times(&mut expected, &theirs);
                assert_eq!(met.get(cluster), expected, "{cluster}: {ours:?}, {theirs:?}");
            }
        }
    }

    #[test]
    fn clocks_that_grow_from_each_other_share_what_they_have() {
        let mut all = vec![Clusters::default()];
        for cluster in 0..4096 {
            let mut next = all[cluster as usize].clone();
            next.join(&Clusters::of(cluster, &[2; 8]));
            all.push(next);
        }
        // Each has a path of three nodes of its own, and not the 273 that the last one has.
        assert!(nodes(&all) <= 3 * all.len(), "{}", nodes(&all));
        let last = &all[4096];
        for (a, b) in [(&all[7], last), (last, &all[7])] {
            let mut joined = a.clone();
            joined.join(b);
            assert!(Arc::ptr_eq(&joined.root.unwrap(), last.root.as_ref().unwrap()));
        }
    }
}
