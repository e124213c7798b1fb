//! A warp's turn: instructions of one group of its lanes after the other.

use super::poll::again;
use crate::error::Reason;
use crate::exec::check;
use crate::exec::env::Env;
use crate::exec::instruction::barrier;
use crate::exec::instruction::step::step;
use crate::exec::observe::Observer;
use crate::exec::result::{Active, Next};
use crate::exec::warp::Warp;
use crate::exec::warp::group::{Group, Wait};
use crate::exec::warp::poll::Poll;
use crate::program::Program;
use crate::program::class::Class;
use crate::program::op::Op;
use crate::wide::twice;

/// Why a turn did not go well: the group of lanes, and what it is.
pub(super) type Failed = (usize, Reason);

twice! {
    /// Lets a warp run until it waits or has executed so many instructions; whether it has executed them all.
    pub(super) fn run(
        warp: &mut Warp,
        env: &mut Env<'_>,
        observer: &mut Option<Observer>,
        turn: u32,
    ) -> Result<bool, Failed> {
        let mut left = turn;
        for group in &mut warp.groups {
            if matches!(group.wait, Wait::Mbarrier | Wait::Registers { .. }) {
                group.wait = Wait::No;
            }
        }
        while left > 0 {
            let Some(g) = next_group(warp, env) else { return Ok(false) };
            let goes_on = if warp.groups.len() == 1 {
                straight(warp, env, observer, &mut left).map_err(|what| (0, what))?
            } else {
                left -= 1;
                let Group { pc, mask: here, .. } = warp.groups[g];
                let went = one(warp, env, observer, env.launch.program, g, pc, here);
                let went = went.map_err(|what| (g, what))?;
                if left == 0 && env.quiet {
                    warp.behind |= here;
                }
                !matches!(went, Went::Away)
            };
            if warp.groups.is_empty() {
                env.warp_ended(warp).map_err(|what| (0, what))?;
                env.events += 1;
                return Ok(false);
            }
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The lanes to go on with: of those that can, the ones that are furthest behind, so that others meet them.
fn next_group(warp: &mut Warp, env: &mut Env<'_>) -> Option<usize> {
    for i in 0..warp.groups.len() {
        let group = warp.groups[i];
        let over = match group.wait {
            Wait::Barrier { id, generation, .. } => {
                env.ctas[warp.cta].barriers[id as usize].generation > generation
            }
            Wait::Cluster { generation } => env.cluster_generation > generation,
            _ => false,
        };
        if over {
            env.left(warp, group);
            warp.groups[i] = Group { pc: group.pc + 1, mask: group.mask, wait: Wait::No };
            warp.retire(Class::Synchronisation, group.mask);
        }
    }
    if warp.groups.len() > 1 {
        merge(warp);
    }
    let ready = || warp.groups.iter().enumerate().filter(|(_, group)| group.wait == Wait::No);
    if warp.groups.len() > 1 && ready().all(|(_, group)| group.mask & warp.behind != 0) {
        warp.behind = 0;
    }
    ready().min_by_key(|(_, group)| (group.mask & warp.behind != 0, group.pc)).map(|(i, _)| i)
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

/// What the lanes of a warp do after an instruction.
enum Went {
    /// They are at the next one.
    On,
    /// They, or some, are elsewhere.
    Elsewhere,
    /// The warp should let others run.
    Away,
}

/// Executes instructions of a warp whose lanes are together. `false` when others should run.
#[inline(always)]
fn straight(
    warp: &mut Warp,
    env: &mut Env<'_>,
    observer: &mut Option<Observer>,
    left: &mut u32,
) -> Result<bool, Reason> {
    let program = env.launch.program;
    while *left > 0 && warp.groups.len() == 1 {
        // Where they are is known from one instruction to the next, and not read where it was just written.
        let Group { mut pc, mask: here, .. } = warp.groups[0];
        while *left > 0 {
            *left -= 1;
            match one(warp, env, observer, program, 0, pc, here)? {
                Went::On => pc += 1,
                Went::Elsewhere => break,
                Went::Away => return Ok(false),
            }
        }
    }
    Ok(true)
}

/// Executes the instruction at `pc` of the lanes that are `here`, those of group `g`.
#[inline(always)]
fn one(
    warp: &mut Warp,
    env: &mut Env<'_>,
    observer: &mut Option<Observer>,
    program: &Program,
    g: usize,
    pc: u32,
    here: u32,
) -> Result<Went, Reason> {
    let coded = &program.code[pc as usize];
    let mask = coded.guard.map_or(here, |guard| here & warp.condition(guard));
    if coded.watched || warp.watches_all() {
        check::check(warp, program, pc, here, mask)?;
    }
    let next = step(warp, env, observer, &coded.op, Active { here, mask, pc })
        .map_err(|what| blame(warp, mask, what))?;
    if let Next::Wait(wait) = next {
        warp.groups[g].wait = wait;
        // The others of the warp may go on.
        return Ok(if warp.groups.len() > 1 { Went::Elsewhere } else { Went::Away });
    }
    if let Next::Part(done) = next {
        let goes_on = part(warp, coded.class, g, mask, done);
        return Ok(if goes_on { Went::Elsewhere } else { Went::Away });
    }
    warp.retire(coded.class, mask);
    if let Next::Exit = next
        && let Some(order) = &mut env.order
    {
        order.issue(warp.cta, warp.index, pc);
        order.exit(mask).map_err(|what| blame(warp, mask, what))?;
    }
    match next {
        Next::Advance | Next::Part(_) | Next::Wait(_) => {
            warp.groups[g].pc = pc + 1;
            if coded.polls && again(warp, &coded.op, pc, env.events, mask) {
                warp.behind |= here;
                return Ok(Went::Away);
            }
            return Ok(Went::On);
        }
        Next::Yield => {
            warp.groups[g].pc = pc + 1;
            if !matches!(coded.op, Op::Sleep) {
                warp.poll = Some(Poll::failed(pc, env.events));
            }
            warp.behind |= here;
            return Ok(Went::Away);
        }
        Next::Jump(target) if mask == here => warp.groups[g].pc = target,
        Next::Jump(target) => {
            warp.groups[g] = Group { pc: pc + 1, mask: here & !mask, wait: Wait::No };
            if mask != 0 {
                warp.groups.push(Group { pc: target, mask, wait: Wait::No });
            }
        }
        Next::Scatter => {
            let rest = Group { pc: pc + 1, mask: here & !mask, wait: Wait::No };
            let targets = warp.targets.drain(..).map(|(pc, mask)| Group { pc, mask, wait: Wait::No });
            warp.groups.swap_remove(g);
            warp.groups.extend(targets.chain([rest]).filter(|group| group.mask != 0));
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
    Ok(Went::Elsewhere)
}

/// Some lanes that were to execute an instruction have, the others of `mask` wait. Whether the warp may go on.
fn part(warp: &mut Warp, class: Class, g: usize, mask: u32, done: u32) -> bool {
    let Group { pc, mask: here, .. } = warp.groups[g];
    let stay = mask & !done;
    warp.groups[g] = Group { pc, mask: stay, wait: Wait::Lanes };
    if here != stay {
        warp.groups.push(Group { pc: pc + 1, mask: here & !stay, wait: Wait::No });
    }
    if done != 0 {
        warp.retire(class, done);
    }
    warp.groups.len() > 1
}

/// It is the first of these lanes that is wrong, unless another one is known to be.
#[cold]
fn blame(warp: &mut Warp, mask: u32, what: Reason) -> Reason {
    if mask != 0 {
        warp.culprit.get_or_insert(mask.trailing_zeros());
    }
    what
}

/// Lanes have ended: who waits for them looks again.
fn wake(warp: &mut Warp) {
    for group in &mut warp.groups {
        if group.wait == Wait::Lanes {
            group.wait = Wait::No;
        }
    }
}
