//! Notices that nothing will happen any more.
//!
//! Warps that poll keep executing, so that everybody waits is not all there is to a deadlock. While no warp changes anything
//! that another may see, each goes on as its own registers and local memory say. When every one has come back to a state that it
//! was in before, they will do so for ever. Loops whose state never comes back, for they count or read a clock, are given
//! up when all warps have done nothing but poll for very long.

use super::cluster::Cluster;
use super::round::Round;
use crate::error::{Fault, Reason};
use crate::exec::launch::Launch;

/// Rotations without an event before states are compared: comparing them takes time.
const QUIET: u64 = 16;
/// Rotations that consist of nothing but waiting and polling before they are taken to go on for ever.
const POLLS: u64 = 1 << 18;
/// Kinds of waiting that a report shows.
const SHOWN: usize = 32;

/// Watches the rounds of a rotation.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Rounds since something happened.
    quiet: u64,
    /// Those of them, the last ones, in which nobody was busy.
    polls: u64,
    /// The state of every warp that has not ended, some rounds ago; `None` when it has been seen again.
    states: Vec<Option<u64>>,
}

impl Watch {
    /// Whether the clusters, which had this round, have come to a stop.
    pub(super) fn nothing_will_happen(&mut self, round: Round, clusters: &mut [Cluster<'_>]) -> bool {
        let was_quiet = self.quiet >= QUIET;
        if round.event {
            *self = Self::default();
        } else {
            self.quiet += 1;
            self.polls = if round.busy { 0 } else { self.polls + 1 };
        }
        let is_quiet = self.quiet >= QUIET;
        if is_quiet != was_quiet {
            clusters.iter_mut().for_each(|cluster| cluster.set_quiet(is_quiet));
        }
        if round.event {
            return false;
        }
        // A warp that used its turn may have done no more in it than bring some lanes to where they wait: others of it go on.
        if !round.retired && !round.polling && !round.busy || self.polls == POLLS {
            return true;
        }
        clusters.iter_mut().for_each(Cluster::give_up);
        is_quiet && self.all_repeat(clusters)
    }

    /// Compares the states of the warps with earlier ones: those at a power of two of rounds, for a quarter as many.
    fn all_repeat(&mut self, clusters: &[Cluster<'_>]) -> bool {
        let mark = 1 << self.quiet.ilog2();
        if self.quiet == mark {
            self.states = clusters.iter().flat_map(Cluster::states).map(Some).collect();
            return false;
        }
        if self.quiet - mark > mark / 4 {
            return false;
        }
        for (earlier, now) in self.states.iter_mut().zip(clusters.iter().flat_map(Cluster::states)) {
            if *earlier == Some(now) {
                *earlier = None;
            }
        }
        self.states.iter().all(Option::is_none)
    }
}

/// Says what each warp waits for; those that wait alike together.
pub(super) fn report(launch: &Launch<'_>, clusters: &[Cluster<'_>], not_begun: u64) -> Fault {
    let program = launch.program;
    let mut kinds: Vec<(u32, String, String, u32)> = Vec::new();
    for wait in clusters.iter().flat_map(Cluster::waits) {
        let like = kinds.iter_mut().find(|(line, reason, ..)| *line == wait.line && *reason == wait.reason);
        match like {
            Some((.., others)) => *others += 1,
            None => kinds.push((wait.line, wait.reason, wait.who, 0)),
        }
    }
    let mut what = "deadlock".to_owned();
    for (line, reason, who, others) in kinds.iter().take(SHOWN) {
        what += &format!("\n  {who} at PTX line {line} ({}) for {reason}", program.line(*line));
        if *others > 0 {
            what += &format!("; {others} more like it");
        }
    }
    if kinds.len() > SHOWN {
        what += &format!("\n  and {} more that wait for something else", kinds.len() - SHOWN);
    }
    if not_begun > 0 {
        what += &format!(
            "\n  {not_begun} clusters have not begun: {} are as many as run together",
            clusters.len()
        );
    }
    Fault::of_launch(&program.name, Reason::deadlock(what))
}
