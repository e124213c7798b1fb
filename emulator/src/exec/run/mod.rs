//! Runs the warps of a launch in turn.
//!
//! A cluster runs on one core, its warps in turn. Clusters run in parallel if they cannot talk to each other, else all on one
//! core: either way a launch has one result. If they race with each other, they run once more, one after the other: then the
//! report is the same every time, too.

mod cluster;
mod poll;
mod rotation;
mod round;
mod spare;
mod special;
mod stall;
mod turn;
mod wait;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use spare::Spare;

use crate::count::Counters;
use crate::error::Fault;
use crate::exec::launch::Launch;
use crate::exec::printed::Printed;
use crate::exec::running::Meter;
use crate::memory::global::Global;
use crate::memory::view::View;
use crate::order::global::GlobalOrder;

/// Clusters that wait for ever before no more begin.
const STUCK: usize = 64;

/// Runs all clusters of a launch, or those up to one with a fault. Of several faults, it is the first cluster's.
pub(crate) fn run(launch: &Launch<'_>, global: &Global) -> Result<Counters, Fault> {
    let count = launch.clusters().map(u64::from).iter().product::<u64>();
    let view = global.view();
    if launch.program.talks {
        let (mut meter, mut spare) = (Meter::new(launch.running), Spare::new(launch));
        return rotation::run(launch, 0..count, &view, &mut meter, &mut spare);
    }
    // Clusters begin in the order of their numbers: when one has a fault, those before it have begun.
    let (next, last) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let faults = Mutex::new(Faults { together: rotation::together(launch), wrong: None, stuck: Vec::new() });
    let some = |_| {
        let (mut meter, mut counters) = (Meter::new(launch.running), Counters::default());
        let mut spare = Spare::new(launch);
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= count || number > last.load(Relaxed) {
                return counters;
            }
            match rotation::run(launch, number..number + 1, &view, &mut meter, &mut spare) {
                Ok(more) => counters += more,
                Err(fault) => {
                    let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
                    faults.add(number, fault);
                    last.fetch_min(faults.last(), Relaxed);
                }
            }
        }
    };
    let and = |mut a: Counters, b| {
        a += b;
        a
    };
    // Not more at a time than there is memory for.
    let room = (launch.budget.free() / launch.cluster_bytes()).max(1);
    let cores = count.min(room).min(rayon::current_num_threads() as u64) as usize;
    let all = (0..cores).into_par_iter().with_max_len(1).map(some).reduce(Counters::default, and);
    let begun = count.min(next.load(Relaxed));
    match faults.into_inner().unwrap_or_else(PoisonError::into_inner).first() {
        None => Ok(all),
        Some(fault) => Err(match &launch.order {
            Some(order) if order.has_raced() => in_turn(launch, 0..begun, &view).unwrap_or(fault),
            _ => fault,
        }),
    }
}

/// The faults of clusters that run each by itself.
///
/// Who waits for ever may do so because of what another does wrong, so clusters behind it begin still: as many as run
/// together, unless all wait.
struct Faults {
    together: u64,
    /// The first cluster that did something wrong.
    wrong: Option<(u64, Fault)>,
    /// The first ones that wait for ever, in order.
    stuck: Vec<(u64, Fault)>,
}

impl Faults {
    fn add(&mut self, number: u64, fault: Fault) {
        if fault.cta.is_none() {
            let at = self.stuck.partition_point(|(other, _)| *other < number);
            self.stuck.insert(at, (number, fault));
            self.stuck.truncate(STUCK);
        } else if self.wrong.as_ref().is_none_or(|(other, _)| number < *other) {
            self.wrong = Some((number, fault));
        }
    }

    /// The last cluster that is to begin.
    fn last(&self) -> u64 {
        let wrong = self.wrong.as_ref().map(|(number, _)| *number);
        let waits = self.stuck.first().map(|(number, _)| number.saturating_add(self.together));
        let many = self.stuck.get(STUCK - 1).map(|(number, _)| *number);
        [wrong, waits, many].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// What is reported: it is the same whichever clusters behind the last one had begun.
    fn first(self) -> Option<Fault> {
        let last = self.last();
        let wrong = self.wrong.filter(|(number, _)| *number <= last);
        wrong.or(self.stuck.into_iter().next()).map(|(_, fault)| fault)
    }
}

/// The race between clusters that is found when they run one after the other. On several cores it is another from run to run.
fn in_turn(launch: &Launch<'_>, clusters: Range<u64>, view: &View) -> Option<Fault> {
    let printed = Printed::new(launch.budget).ok()?;
    let order = GlobalOrder::new(launch.budget).ok()?;
    launch.running.begin_again();
    let launch = Launch { order: Some(order), printed: &printed, ..*launch };
    let (mut meter, mut spare) = (Meter::new(launch.running), Spare::new(&launch));
    let mut run = |i| rotation::run(&launch, i..i + 1, view, &mut meter, &mut spare).err();
    let fault = clusters.into_iter().find_map(&mut run)?;
    launch.order.is_some_and(|order| order.has_raced()).then_some(fault)
}
