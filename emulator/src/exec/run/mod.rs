//! Runs the warps of a launch in turn.
//!
//! A cluster runs on one core, its warps in turn. Clusters run in parallel if they cannot talk to each other, else all on one
//! core: either way a launch has one result.

mod cluster;
mod poll;
mod rotation;
mod round;
mod special;
mod stall;
mod turn;
mod wait;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use crate::count::Counters;
use crate::error::Fault;
use crate::exec::launch::Launch;
use crate::exec::running::Meter;
use crate::memory::global::Global;

/// Runs all clusters of a launch, or those up to one with a fault. Of several faults, it is the first cluster's.
pub(crate) fn run(launch: &Launch<'_>, global: &Global) -> Result<Counters, Fault> {
    let count = launch.clusters().map(u64::from).iter().product::<u64>();
    let view = global.view();
    if launch.program.talks {
        return rotation::run(launch, 0..count, &view, &mut Meter::new(launch.running));
    }
    // Clusters begin in the order of their numbers: when one has a fault, those before it have begun.
    let (next, faulty) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let some = |_| {
        let (mut meter, mut counters) = (Meter::new(launch.running), Counters::default());
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= count || number > faulty.load(Relaxed) {
                return Ok(counters);
            }
            match rotation::run(launch, number..number + 1, &view, &mut meter) {
                Ok(more) => counters += more,
                Err(fault) => {
                    faulty.fetch_min(number, Relaxed);
                    return Err((number, fault));
                }
            }
        }
    };
    // Not more at a time than there is memory for.
    let room = (launch.budget.free() / launch.cluster_bytes()).max(1);
    let cores = count.min(room).min(rayon::current_num_threads() as u64) as usize;
    let all = (0..cores).into_par_iter().with_max_len(1).map(some).reduce(
        || Ok(Counters::default()),
        |a, b| match (a, b) {
            (Ok(mut a), Ok(b)) => {
                a += b;
                Ok(a)
            }
            (Err(a), Err(b)) => Err(if a.0 <= b.0 { a } else { b }),
            (Err(fault), Ok(_)) | (Ok(_), Err(fault)) => Err(fault),
        },
    );
    all.map_err(|(_, fault)| fault)
}
