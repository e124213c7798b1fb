//! Runs the warps of a launch in turn.
//!
//! A cluster runs on one core, its warps in turn. Clusters run in parallel if they cannot talk to each other, else all on one
//! core: either way a launch has one result. If they race with each other, they run once more, one after the other: then the
//! report is the same every time, too.

mod cluster;
mod poll;
mod rotation;
mod round;
mod special;
mod stall;
mod turn;
mod wait;

use std::ops::Range;

use rayon::prelude::*;

use crate::count::Counters;
use crate::error::Fault;
use crate::exec::launch::Launch;
use crate::exec::printed::Printed;
use crate::memory::global::{Global, View};
use crate::order::global::GlobalOrder;

/// Runs all clusters of a launch. Of several faults, it is the first cluster's.
pub(crate) fn run(launch: &Launch<'_>, global: &Global) -> Result<Counters, Fault> {
    let count = launch.clusters().map(u64::from).iter().product::<u64>();
    let view = global.view();
    if launch.program.talks {
        return rotation::run(launch, 0..count, &view);
    }
    let alone = |i: u64| rotation::run(launch, i..i + 1, &view).map_err(|fault| (i, fault));
    // Who waits for ever may do so because of what another does wrong.
    let rank = |(i, fault): &(u64, Fault)| (fault.cta.is_none(), *i);
    let first = |a: (u64, Fault), b: (u64, Fault)| if rank(&a) <= rank(&b) { a } else { b };
    let all = (0..count).into_par_iter().map(alone).reduce(
        || Ok(Counters::default()),
        |a, b| match (a, b) {
            (Ok(mut a), Ok(b)) => {
                a += b;
                Ok(a)
            }
            (Err(a), Err(b)) => Err(first(a, b)),
            (Err(fault), Ok(_)) | (Ok(_), Err(fault)) => Err(fault),
        },
    );
    all.map_err(|(_, fault)| match &launch.order {
        Some(order) if order.has_raced() => in_turn(launch, 0..count, &view).unwrap_or(fault),
        _ => fault,
    })
}

/// The race between clusters that is found when they run one after the other. On several cores it is another from run to run.
fn in_turn(launch: &Launch<'_>, clusters: Range<u64>, view: &View) -> Option<Fault> {
    let printed = Printed::default();
    let launch = Launch { order: Some(GlobalOrder::new()), printed: &printed, ..*launch };
    let fault = clusters.into_iter().find_map(|i| rotation::run(&launch, i..i + 1, view).err())?;
    launch.order.is_some_and(|order| order.has_raced()).then_some(fault)
}
