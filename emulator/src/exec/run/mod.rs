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
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use crate::count::Counters;
use crate::error::Fault;
use crate::exec::launch::Launch;
use crate::exec::printed::Printed;
use crate::exec::running::Meter;
use crate::memory::global::{Global, View};
use crate::order::global::GlobalOrder;

/// Runs all clusters of a launch, or those up to one with a fault. Of several faults, it is the first cluster's.
///
/// Who waits for ever may do so because of what another does wrong: then that is told, if it is one of those that run together.
pub(crate) fn run(launch: &Launch<'_>, global: &Global) -> Result<Counters, Fault> {
    let count = launch.clusters().map(u64::from).iter().product::<u64>();
    let view = global.view();
    if launch.program.talks {
        return rotation::run(launch, 0..count, &view, &mut Meter::new(launch.running));
    }
    // Clusters begin in the order of their numbers: when one has a fault, those before it have begun.
    let (next, last) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let some = |_| {
        let (mut meter, mut done) = (Meter::new(launch.running), Done::default());
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= count || number > last.load(Relaxed) {
                return done;
            }
            match rotation::run(launch, number..number + 1, &view, &mut meter) {
                Ok(counters) => done.counters += counters,
                Err(fault) => {
                    last.fetch_min(done.fail(launch, number, fault), Relaxed);
                }
            }
        }
    };
    // Not more at a time than there is memory for.
    let room = (launch.budget.free() / launch.cluster_bytes()).max(1);
    let cores = count.min(room).min(rayon::current_num_threads() as u64) as usize;
    let all = (0..cores).into_par_iter().with_max_len(1).map(some).reduce(Done::default, Done::and);
    all.result(launch).map_err(|fault| match &launch.order {
        Some(order) if order.has_raced() => in_turn(launch, 0..count, &view).unwrap_or(fault),
        _ => fault,
    })
}

/// What clusters that run by themselves have done.
#[derive(Default)]
struct Done {
    counters: Counters,
    /// The first one that did something wrong.
    wrong: Option<(u64, Fault)>,
    /// The first one that waits for ever.
    stuck: Option<(u64, Fault)>,
}

impl Done {
    /// A cluster has a fault. Gives the last one that is to begin.
    fn fail(&mut self, launch: &Launch<'_>, number: u64, fault: Fault) -> u64 {
        let waits = fault.cta.is_none();
        let (faults, last) = match waits {
            true => (&mut self.stuck, number.saturating_add(rotation::together(launch))),
            false => (&mut self.wrong, number),
        };
        *faults = first(faults.take(), Some((number, fault)));
        last
    }

    fn and(mut self, other: Self) -> Self {
        self.counters += other.counters;
        self.wrong = first(self.wrong, other.wrong);
        self.stuck = first(self.stuck, other.stuck);
        self
    }

    fn result(self, launch: &Launch<'_>) -> Result<Counters, Fault> {
        match (self.wrong, self.stuck) {
            (None, None) => Ok(self.counters),
            // One that began before it was known that none is to, does not count: that is another from run to run.
            (Some((wrong, _)), Some((stuck, fault)))
                if wrong > stuck.saturating_add(rotation::together(launch)) =>
            {
                Err(fault)
            }
            (Some((_, fault)), _) | (None, Some((_, fault))) => Err(fault),
        }
    }
}

fn first(a: Option<(u64, Fault)>, b: Option<(u64, Fault)>) -> Option<(u64, Fault)> {
    a.into_iter().chain(b).min_by_key(|(number, _)| *number)
}

/// The race between clusters that is found when they run one after the other. On several cores it is another from run to run.
fn in_turn(launch: &Launch<'_>, clusters: Range<u64>, view: &View) -> Option<Fault> {
    let printed = Printed::new(launch.budget).ok()?;
    let order = GlobalOrder::new(launch.budget).ok()?;
    launch.running.begin_again();
    let launch = Launch { order: Some(order), printed: &printed, ..*launch };
    let mut meter = Meter::new(launch.running);
    let fault =
        clusters.into_iter().find_map(|i| rotation::run(&launch, i..i + 1, view, &mut meter).err())?;
    launch.order.is_some_and(|order| order.has_raced()).then_some(fault)
}
