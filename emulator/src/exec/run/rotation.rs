//! Clusters that run on one core, by slices of time.
//!
//! Clusters that cannot reach each other run each by itself, on any core. If a kernel has an instruction by which threads of
//! several clusters may talk ([`Program::talks`](crate::program::Program)), all of its clusters run in one rotation: each warp of
//! each has a turn, then again. So those that wait for one another through global memory go on, and what the result
//! depends on, such as the order of additions, is the same at every run.
//!
//! The manual says nothing about how many CTAs are resident. Here it is as many clusters as have room in [`MEMORY`] with their
//! registers, local and shared memory, up to the [`CTAS`] that a GPU has, and the others begin in the order of their numbers as those end.

use super::cluster::Cluster;
use crate::exec::launch::Launch;
use crate::exec::running::Meter;
use crate::exec::schedule::Pace;
use std::ops::Range;

use super::round::Round;
use super::spare::Spare;
use super::stall::{self, Watch};
use crate::count::Counters;
use crate::error::Fault;
use crate::memory::view::View;

/// Bytes that the clusters of a rotation have together, unless a single one has more.
const MEMORY: u64 = 1 << 30;
/// CTAs that a rotation has at most, as an H200 with its 132 SMs of 32 CTAs.
const CTAS: u64 = 132 * 32;

/// Clusters of a launch that a GPU runs at a time.
pub(super) fn together(launch: &Launch<'_>) -> u64 {
    (MEMORY / launch.cluster_bytes()).min(CTAS / launch.cluster_ctas()).max(1)
}

/// Runs these clusters of a launch to their end.
pub(super) fn run(
    launch: &Launch<'_>,
    mut waiting: Range<u64>,
    global: &View,
    meter: &mut Meter<'_>,
    spare: &mut Spare,
) -> Result<Counters, Fault> {
    let most = together(launch) as usize;
    let mut pace = Pace::new(launch.schedule, waiting.start);
    let mut watch = Watch::default();
    let mut live: Vec<Cluster<'_>> = Vec::new();
    let mut counters = Counters::default();
    loop {
        while live.len() < most && !waiting.is_empty() {
            match Cluster::new(launch, waiting.start, global.clone(), spare) {
                Ok(cluster) => live.push(cluster),
                Err(fault) if live.is_empty() => return Err(fault),
                // There will be memory when others have ended.
                Err(_) => break,
            }
            waiting.start += 1;
        }
        if live.is_empty() {
            return Ok(counters);
        }
        let mut round = Round::default();
        for i in pace.order(live.len()) {
            round = round.and(live[i].round(&mut pace, meter)?);
        }
        live.retain_mut(|cluster| {
            let goes_on = !cluster.has_ended();
            if !goes_on {
                counters += cluster.counters();
                launch.running.end(cluster.ctas());
                cluster.leave(spare);
            }
            goes_on
        });
        if watch.nothing_will_happen(round, &mut live) {
            let accused = live.iter().find_map(Cluster::accusation);
            return Err(accused.unwrap_or_else(|| stall::report(launch, &live, waiting.end - waiting.start)));
        }
    }
}
