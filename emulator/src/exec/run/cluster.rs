//! The warps of a cluster, in turn.

use super::round::Round;
use super::spare::Spare;
use super::wait::{self, Waiting};
use super::{special, turn};
use crate::count::Counters;
use crate::count::executed::Classes;
use crate::error::{Fault, Reason};
use crate::exec::cta::Cta;
use crate::exec::env::Env;
use crate::exec::instruction::matrix;
use crate::exec::launch::Launch;
use crate::exec::observe::Observer;
use crate::exec::running::{Meter, Place};
use crate::exec::schedule::Pace;
use crate::exec::warp::Warp;
use crate::exec::warp::group::{Group, Wait};
use crate::memory::budget::Held;
use crate::memory::view::View;
use crate::order::Order;
use crate::order::clock::Meeting;
use crate::program::class::Class;
use crate::program::op::Op;

pub(super) struct Cluster<'l> {
    env: Env<'l>,
    /// Where accesses and waits are counted.
    observer: Option<Observer>,
    /// CTA after CTA.
    warps: Vec<Warp>,
    warps_each: usize,
    /// A warp that used what nobody had written, and rounds that the others still have to write it.
    accused: Option<(Fault, u32)>,
    /// Bytes that it holds, but for what grows.
    bytes: u64,
    held: Held,
}

/// Rounds in which others may show that they write what a warp has read too early.
const ROUNDS: u32 = 64;

/// A warp that is not right, if it is one's, and why.
type Wrong = Box<(Option<usize>, Fault)>;

/// What memory is held for.
const WHAT: &str = "a cluster with its registers, local and shared memory";

impl<'l> Cluster<'l> {
    /// The cluster of this number, before its first instruction.
    pub(super) fn new(
        launch: &'l Launch<'l>,
        number: u64,
        global: View,
        spare: &mut Spare,
    ) -> Result<Self, Fault> {
        let first = launch.first_cta(number);
        let bytes = launch.cluster_bytes();
        let held = launch.budget.hold(bytes, WHAT);
        let held =
            held.map_err(|what| Fault { cta: Some(first), ..Fault::of_launch(&launch.program.name, what) })?;
        let [x, y, z] = launch.cluster;
        let threads = launch.threads.iter().product::<u32>();
        let warps_each = threads.div_ceil(32);
        let shared = launch.program.shared.span + launch.dynamic_shared;
        let size = (x * y * z) as usize;
        let mut ctas = Vec::with_capacity(size);
        for rank in 0..x * y * z {
            let at = [rank % x, rank / x % y, rank / x / y];
            let index = std::array::from_fn(|i| first[i] + at[i]);
            ctas.push(Cta::new(index, shared, warps_each, spare.ctas.pop()));
        }
        let mut warps = std::mem::take(&mut spare.warps);
        warps.resize_with(size * warps_each as usize, Warp::default);
        for (warp, number) in warps.iter_mut().zip(0..) {
            let (rank, index) = (number / warps_each, number % warps_each);
            warp.begin(launch.program, &spare.first, rank as usize, index, threads - 32 * index);
            special::fill(warp, launch, ctas[rank as usize].index, rank);
        }
        let observer = launch.counting.then(|| Observer::new(ctas.len(), shared, warps_each as usize));
        let sizes = [ctas.len(), warps_each as usize, shared as usize];
        let order = launch.order.as_ref();
        let order = order.map(|global| (global, launch.preceding));
        let order = order.map(|memory| Order::new(launch.program, memory, number as u32, sizes));
        let env = Env {
            launch,
            cluster: number,
            ctas,
            global,
            product: std::mem::take(&mut spare.product),
            events: 0,
            quiet: false,
            cluster_generation: 0,
            cluster_meeting: Meeting::default(),
            order,
            tensor_operations: 0,
            contested_stores: 0,
        };
        let mut cluster =
            Self { env, observer, warps, warps_each: warps_each as usize, accused: None, bytes, held };
        let to_come = cluster.env.order.as_ref().map_or(0, Order::bytes_to_come);
        cluster.bytes = bytes.saturating_sub(cluster.growing() + to_come);
        Ok(cluster)
    }

    /// Gives every warp a turn.
    pub(super) fn round(&mut self, pace: &mut Pace, meter: &mut Meter<'_>) -> Result<Round, Fault> {
        if let Some((fault, rounds)) = &mut self.accused {
            match rounds.checked_sub(1) {
                Some(left) => *rounds = left,
                None => return Err(fault.clone()),
            }
        }
        self.turns(pace, meter).or_else(|wrong| {
            let (warp, fault) = *wrong;
            self.judge(warp, fault)
        })
    }

    /// What a warp used that nobody had written, another one may be about to write: then a barrier is missing. It stops, and the
    /// others go on until one does so.
    fn judge(&mut self, warp: Option<usize>, fault: Fault) -> Result<Round, Fault> {
        let first = self.accused.take();
        let late = self.env.order.as_ref().is_some_and(Order::is_late);
        let alone = self.warps.len() == 1;
        let warp = warp.and_then(|i| self.warps.get_mut(i)).filter(|warp| warp.early && !alone && !late);
        let (Some(warp), Some(order)) = (warp, &mut self.env.order) else {
            return Err(first.filter(|_| !late).map_or(fault, |(first, _)| first));
        };
        // Where a barrier is missing, several warps may come too early.
        warp.groups.iter_mut().for_each(|group| group.wait = Wait::Accused);
        if first.is_none() {
            order.accuse(warp.cta, warp.index);
        }
        self.accused = first.or(Some((fault, ROUNDS)));
        Ok(Round { event: true, ..Round::default() })
    }

    /// What a warp was accused of, and nobody has shown to be something else.
    pub(super) fn accusation(&self) -> Option<Fault> {
        self.accused.as_ref().map(|(fault, _)| fault.clone())
    }

    fn turns(&mut self, pace: &mut Pace, meter: &mut Meter<'_>) -> Result<Round, Wrong> {
        let (retired, events) = (self.retired(), self.env.events);
        let mut busy = false;
        for i in pace.order(self.warps.len()) {
            let warp = &mut self.warps[i];
            if warp.groups.is_empty() {
                continue;
            }
            warp.behind |= pace.behind();
            warp.give_up |= pace.gives_up();
            warp.misses |= pace.gives_up();
            let before = warp.retired;
            busy |= turn::run(warp, &mut self.env, &mut self.observer, pace.turn())
                .map_err(|(g, what)| Box::new((Some(i), self.fault(i, g, what))))?;
            if meter.turn(self.warps[i].retired - before) {
                self.look(meter, i).map_err(|fault| Box::new((None, fault)))?;
            }
            if let Some(observer) = &mut self.observer {
                observer.turn(&self.warps[i], &self.env);
            }
            self.products(i).map_err(|fault| Box::new((None, fault)))?;
            self.cluster_barrier();
        }
        let tries = |group: &Group| group.wait == Wait::Mbarrier;
        Ok(Round {
            event: self.env.events != events,
            retired: self.retired() != retired,
            polling: self.warps.iter().any(|warp| warp.groups.iter().any(tries)),
            busy,
        })
    }

    /// Says where it is, which is at this warp, and how much memory it has. What is wrong if it may not go on.
    #[cold]
    fn look(&mut self, meter: &mut Meter<'_>, i: usize) -> Result<(), Fault> {
        let warp = &self.warps[i];
        let g = warp.groups.iter().position(|group| group.wait == Wait::No).unwrap_or(0);
        let group = warp.groups.get(g);
        let place = Place {
            cta: self.env.ctas[warp.cta].index,
            thread: 32 * warp.index + group.map_or(0, |group| group.mask.trailing_zeros()),
            pc: group.map(|group| group.pc),
        };
        let bytes = self.bytes + self.growing();
        let may = meter.look(place).and_then(|()| self.held.resize(bytes, WHAT));
        may.map_err(|what| self.fault(i, g, what))
    }

    /// Bytes of what is known of accesses.
    fn growing(&self) -> u64 {
        self.env.order.as_ref().map_or(0, Order::bytes) + self.observer.as_ref().map_or(0, Observer::bytes)
    }

    /// Leaves its memory to the next one, unless there is some.
    pub(super) fn leave(&mut self, spare: &mut Spare) {
        if spare.warps.is_empty() {
            spare.warps = std::mem::take(&mut self.warps);
            spare.ctas = std::mem::take(&mut self.env.ctas);
            spare.product = std::mem::take(&mut self.env.product);
        }
    }

    /// Its CTAs.
    pub(super) fn ctas(&self) -> usize {
        self.env.ctas.len()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.warps.iter().all(|warp| warp.groups.is_empty())
    }

    /// What it has done.
    pub(super) fn counters(&self) -> Counters {
        let mut classes = Classes::default();
        self.warps.iter().for_each(|warp| classes += warp.classes);
        Counters {
            instructions: self.retired(),
            lane_instructions: classes.total().lanes,
            classes,
            tensor_operations: self.env.tensor_operations,
            contested_stores: self.env.contested_stores,
            ..self.observer.as_ref().map(Observer::counters).unwrap_or_default()
        }
    }

    fn retired(&self) -> u64 {
        self.warps.iter().map(|warp| warp.retired).sum()
    }

    /// Lets waits that may end without success do so.
    pub(super) fn give_up(&mut self) {
        self.warps.iter_mut().for_each(|warp| warp.give_up = true);
    }

    pub(super) fn set_quiet(&mut self, quiet: bool) {
        self.env.quiet = quiet;
    }

    fn live(&self) -> impl Iterator<Item = &Warp> {
        self.warps.iter().filter(|warp| !warp.groups.is_empty())
    }

    /// The state of each warp that has not ended.
    pub(super) fn states(&self) -> impl Iterator<Item = u64> {
        self.live().map(Warp::state)
    }

    /// What each warp waits for.
    pub(super) fn waits(&self) -> impl Iterator<Item = Waiting> {
        self.live().flat_map(|warp| warp.groups.iter().map(|group| wait::describe(warp, *group, &self.env)))
    }

    /// Executes a product when all four warps of the group are at it.
    fn products(&mut self, i: usize) -> Result<(), Fault> {
        let waits = |warp: &Warp| match warp.groups.as_slice() {
            [Group { pc, mask: u32::MAX, wait: Wait::Warpgroup }] => Some(*pc),
            _ => None,
        };
        let Some(pc) = waits(&self.warps[i]) else { return Ok(()) };
        let cta = i / self.warps_each * self.warps_each;
        let start = cta + (i - cta) / 4 * 4;
        let Some(group) = self.warps[cta..cta + self.warps_each].get_mut(start - cta..start - cta + 4) else {
            let what = "wgmma needs four warps, and the last ones are fewer";
            return Err(self.fault(i, 0, Reason::misuse(what)));
        };
        if group.iter().any(|warp| waits(warp) != Some(pc)) {
            return Ok(());
        }
        let Op::Wgmma(op) = &self.env.launch.program.code[pc as usize].op else {
            unreachable!("they wait at a wgmma")
        };
        if let Some(observer) = &mut self.observer {
            observer.product(group, op);
        }
        if let Err(what) = matrix::warpgroup(group, &mut self.env, op) {
            return Err(self.fault(i, 0, what));
        }
        for warp in group {
            warp.groups[0] = Group { pc: pc + 1, mask: u32::MAX, wait: Wait::No };
            warp.retire(Class::Tensor, u32::MAX);
        }
        self.env.events += 1;
        Ok(())
    }

    /// Completes the cluster's barrier when all threads that have not ended are there.
    fn cluster_barrier(&mut self) {
        if self.warps.iter().all(|warp| warp.at_cluster == 0)
            || self.warps.iter().any(|warp| warp.live() & !warp.at_cluster != 0)
        {
            return;
        }
        self.env.cluster_generation += 1;
        self.env.cluster_meeting.complete();
        self.env.events += 1;
        self.warps.iter_mut().for_each(|warp| warp.at_cluster = 0);
    }

    fn fault(&self, i: usize, group: usize, reason: Reason) -> Fault {
        let (kind, what) = reason.into_parts();
        let warp = &self.warps[i];
        let program = self.env.launch.program;
        let group = warp.groups.get(group).or(warp.groups.first());
        let line = group.and_then(|group| program.code.get(group.pc as usize)).map(|coded| coded.line);
        let lane = warp.culprit.or(group.map(|group| group.mask.trailing_zeros())).unwrap_or(0);
        let mut source = line.map(|line| program.sources.of(line)).unwrap_or_default().into_vec();
        // Where the function that it stands in was called.
        for call in warp.calls.iter().rev().filter(|call| call.lanes >> lane & 1 != 0) {
            source.extend(
                program
                    .code
                    .get(call.pc as usize)
                    .map(|coded| program.sources.of(coded.line))
                    .unwrap_or_default(),
            );
        }
        Fault {
            kernel: program.name.clone(),
            cta: Some(self.env.ctas[warp.cta].index),
            thread: Some(32 * warp.index + lane),
            line,
            instruction: line.map(|line| program.line(line).into()),
            source: source.into(),
            kind,
            what,
        }
    }
}
