//! The warps of a cluster, in turn.

use super::env::Env;
use super::observe::Observer;
use super::step::{Active, Next, step};
use super::warp::{Group, Wait, Warp};
use super::{Launch, barrier, matrix, special};
use crate::Fault;
use crate::count::{Class, Classes, Counters};
use crate::memory::View;
use crate::program::Op;
use crate::tensor::product::Product;

/// Instructions that a warp executes at most before others run.
const TURN: u32 = 4096;
/// Times that everybody may wait before what they wait for is taken to never happen. More than one, because a program
/// may poll several barriers in turn.
const STANDSTILLS: u32 = 16;

/// Runs the cluster whose first CTA has this index. Gives the instructions and what they did.
pub(super) fn run(launch: &Launch<'_>, first: [u32; 3], global: View) -> Result<Counters, Fault> {
    let [x, y, z] = launch.cluster;
    let threads = launch.threads.iter().product::<u32>();
    let warps_each = threads.div_ceil(32);
    let shared = launch.program.shared + launch.dynamic_shared;
    let mut ctas = Vec::new();
    for rank in 0..x * y * z {
        let at = [rank % x, rank / x % y, rank / x / y];
        ctas.push(super::cta::Cta::new(std::array::from_fn(|i| first[i] + at[i]), shared, warps_each));
    }
    let mut warps = Vec::new();
    for (rank, cta) in ctas.iter().enumerate() {
        for index in 0..warps_each {
            let mut warp = Warp::new(launch.program, rank, index, threads - 32 * index);
            special::fill(&mut warp, launch, cta.index, rank as u32);
            warps.push(warp);
        }
    }
    let observer = launch.counting.then(|| Box::new(Observer::new(ctas.len(), shared, warps_each as usize)));
    let env = Env {
        launch,
        ctas,
        global,
        product: Product::default(),
        events: 0,
        cluster_generation: 0,
        tensor_operations: 0,
        observer,
    };
    Cluster { env, warps, warps_each: warps_each as usize }.run()
}

struct Cluster<'l> {
    env: Env<'l>,
    /// CTA after CTA.
    warps: Vec<Warp>,
    warps_each: usize,
}

impl Cluster<'_> {
    fn run(mut self) -> Result<Counters, Fault> {
        let mut standstills = 0;
        loop {
            let (retired, events) = (self.retired(), self.env.events);
            for i in 0..self.warps.len() {
                if self.warps[i].groups.is_empty() {
                    continue;
                }
                self.turn(i)?;
                if let Some(mut observer) = self.env.observer.take() {
                    observer.turn(&self.warps[i], &self.env);
                    self.env.observer = Some(observer);
                }
                self.products(i)?;
                self.cluster_barrier();
            }
            if self.warps.iter().all(|warp| warp.groups.is_empty()) {
                break;
            }
            if self.env.events != events {
                standstills = 0;
            } else if self.retired() == retired {
                let polling = |group: &Group| group.wait == Wait::Mbarrier;
                if standstills == STANDSTILLS
                    || !self.warps.iter().any(|warp| warp.groups.iter().any(polling))
                {
                    return Err(self.deadlock());
                }
                standstills += 1;
                self.warps.iter_mut().for_each(|warp| warp.give_up = true);
            }
        }
        let mut classes = Classes::default();
        self.warps.iter().for_each(|warp| classes += warp.classes);
        Ok(Counters {
            instructions: self.retired(),
            lane_instructions: classes.total().lanes,
            classes,
            tensor_operations: self.env.tensor_operations,
            ..self.env.observer.map(|observer| observer.counters()).unwrap_or_default()
        })
    }

    fn retired(&self) -> u64 {
        self.warps.iter().map(|warp| warp.retired).sum()
    }

    /// Lets a warp run until it waits or has had its turn.
    fn turn(&mut self, i: usize) -> Result<(), Fault> {
        for group in &mut self.warps[i].groups {
            if group.wait == Wait::Mbarrier {
                group.wait = Wait::No;
            }
        }
        let mut left = TURN;
        while left > 0 {
            let (warp, env) = (&mut self.warps[i], &mut self.env);
            let Some(g) = next_group(warp, env) else { return Ok(()) };
            if warp.groups.len() == 1 {
                match straight(warp, env, &mut left) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(what) => return Err(self.fault(i, 0, what)),
                }
            } else {
                left -= 1;
                match one(warp, env, g) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(what) => return Err(self.fault(i, g, what)),
                }
            }
            if self.warps[i].groups.is_empty() {
                let cta = self.warps[i].cta;
                self.env.ctas[cta].warp_ended();
                self.env.events += 1;
                return Ok(());
            }
        }
        Ok(())
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
            return Err(self.fault(i, 0, "wgmma needs four warps, and the last ones are fewer".into()));
        };
        if group.iter().any(|warp| waits(warp) != Some(pc)) {
            return Ok(());
        }
        let Op::Wgmma(op) = &self.env.launch.program.code[pc as usize].op else {
            unreachable!("they wait at a wgmma")
        };
        if let Some(observer) = &mut self.env.observer {
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
        self.env.events += 1;
        self.warps.iter_mut().for_each(|warp| warp.at_cluster = 0);
    }

    fn fault(&self, i: usize, group: usize, what: String) -> Fault {
        let warp = &self.warps[i];
        let program = self.env.launch.program;
        let group = warp.groups.get(group).or(warp.groups.first());
        let line = group.and_then(|group| program.code.get(group.pc as usize)).map(|coded| coded.line);
        let lane = group.map_or(0, |group| group.mask.trailing_zeros());
        Fault {
            kernel: program.name.clone(),
            cta: Some(self.env.ctas[warp.cta].index),
            thread: Some(32 * warp.index + lane),
            line,
            instruction: line.map(|line| program.line(line).to_owned()),
            what,
        }
    }

    /// Nobody can go on: says what each warp waits for.
    fn deadlock(&self) -> Fault {
        let program = self.env.launch.program;
        let mut what = "deadlock".to_owned();
        for warp in &self.warps {
            for group in &warp.groups {
                let line = program.code[group.pc as usize].line;
                let cta = &self.env.ctas[warp.cta];
                let [x, y, z] = cta.index;
                let reason = match group.wait {
                    Wait::Barrier { id, .. } => {
                        let barrier = &cta.barriers[id as usize];
                        let expected = barrier.expected.unwrap_or(32 * cta.live_warps);
                        format!("barrier {id}, where {} of {expected} threads are", barrier.arrived)
                    }
                    Wait::Cluster { .. } => "the cluster's barrier".into(),
                    Wait::Lanes => "the other lanes of its warp".into(),
                    Wait::Warpgroup => "the other warps of its warpgroup".into(),
                    Wait::Mbarrier | Wait::No => "an mbarrier".into(),
                };
                what += &format!(
                    "\n  CTA ({x}, {y}, {z}) warp {} lanes {:#010x} at PTX line {line} ({}) for {reason}",
                    warp.index,
                    group.mask,
                    program.line(line),
                );
            }
        }
        Fault { kernel: program.name.clone(), cta: None, thread: None, line: None, instruction: None, what }
    }
}

/// The lanes to go on with: of those that can, the ones that are furthest behind, so that others meet them.
fn next_group(warp: &mut Warp, env: &Env<'_>) -> Option<usize> {
    let barriers = &env.ctas[warp.cta].barriers;
    for i in 0..warp.groups.len() {
        let group = warp.groups[i];
        let over = match group.wait {
            Wait::Barrier { id, generation, .. } => barriers[id as usize].generation > generation,
            Wait::Cluster { generation } => env.cluster_generation > generation,
            _ => false,
        };
        if over {
            warp.groups[i] = Group { pc: group.pc + 1, mask: group.mask, wait: Wait::No };
            warp.retire(Class::Synchronisation, group.mask);
        }
    }
    if warp.groups.len() > 1 {
        merge(warp);
    }
    let ready = warp.groups.iter().enumerate().filter(|(_, group)| group.wait == Wait::No);
    ready.min_by_key(|(_, group)| group.pc).map(|(i, _)| i)
}

/// Joins lanes that are at the same instruction.
fn merge(warp: &mut Warp) {
    let mut i = 0;
    while i < warp.groups.len() {
        let Group { pc, wait, .. } = warp.groups[i];
        let meets = |wait| matches!(wait, Wait::No | Wait::Lanes);
        let other = (i + 1..warp.groups.len())
            .find(|&j| warp.groups[j].pc == pc && meets(warp.groups[j].wait) && meets(wait));
        match other {
            Some(j) => {
                let joined = warp.groups.swap_remove(j);
                warp.groups[i].mask |= joined.mask;
                warp.groups[i].wait = Wait::No;
            }
            None => i += 1,
        }
    }
}

/// Executes instructions of a warp whose lanes are together. `false` when others should run.
#[inline(always)]
fn straight(warp: &mut Warp, env: &mut Env<'_>, left: &mut u32) -> Result<bool, String> {
    while *left > 0 && warp.groups.len() == 1 {
        *left -= 1;
        if !one(warp, env, 0)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Executes one instruction of these lanes. `false` when the warp should let others run.
#[inline(always)]
fn one(warp: &mut Warp, env: &mut Env<'_>, g: usize) -> Result<bool, String> {
    let program = env.launch.program;
    let Group { pc, mask: here, .. } = warp.groups[g];
    let coded = &program.code[pc as usize];
    let mask = coded.guard.map_or(here, |guard| here & warp.condition(guard));
    let next = step(warp, env, &coded.op, Active { here, mask })?;
    if let Next::Wait(wait) = next {
        warp.groups[g].wait = wait;
        // The others of the warp may go on.
        return Ok(warp.groups.len() > 1);
    }
    warp.retire(coded.class, mask);
    match next {
        Next::Advance | Next::Wait(_) => warp.groups[g].pc = pc + 1,
        Next::Yield => {
            warp.groups[g].pc = pc + 1;
            return Ok(false);
        }
        Next::Jump(target) if mask == here => warp.groups[g].pc = target,
        Next::Jump(target) => {
            warp.groups[g] = Group { pc: pc + 1, mask: here & !mask, wait: Wait::No };
            if mask != 0 {
                warp.groups.push(Group { pc: target, mask, wait: Wait::No });
            }
        }
        Next::Exit if mask == here => {
            warp.groups.swap_remove(g);
            wake(warp);
            barrier::lanes_ended(warp, env)?;
        }
        Next::Exit => {
            warp.groups[g] = Group { pc: pc + 1, mask: here & !mask, wait: Wait::No };
            wake(warp);
        }
    }
    Ok(true)
}

/// Lanes have ended: who waits for them looks again.
fn wake(warp: &mut Warp) {
    for group in &mut warp.groups {
        if group.wait == Wait::Lanes {
            group.wait = Wait::No;
        }
    }
}
