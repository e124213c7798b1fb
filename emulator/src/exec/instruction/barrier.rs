//! Named barriers, and the barrier of a cluster.

use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::result::{Active, Next};
use crate::exec::warp::Warp;
use crate::exec::warp::group::Wait;
use crate::program::op::Op;
use crate::program::operand::{Scope, Tally};
use crate::program::register::LANES;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, active: Active) -> Result<Next, Reason> {
    let Active { mask, .. } = active;
    match *op {
        Op::Barrier { id, threads, aligned, reduces } => {
            if aligned && let Some(wait) = active.together(warp) {
                return Ok(wait);
            }
            if mask == 0 {
                return Ok(Next::Advance);
            }
            let id = warp.uniform(id, mask)?;
            let threads = threads.map(|threads| warp.uniform(threads, mask)).transpose()?;
            // A warp counts once, when all its lanes are there: some may come by another way.
            let elsewhere = warp.groups.iter().filter(|group| group.mask & mask == 0);
            let missing = elsewhere
                .filter(|group| !matches!(group.wait, Wait::Barrier { id: other, .. } if other == id))
                .count();
            let generation =
                env.ctas[warp.cta].barriers.get(id as usize).map_or(0, |barrier| barrier.generation);
            if missing == 0 {
                arrive(env, warp.cta, id, threads, reduces)?;
            }
            Ok(Next::Wait(Wait::Barrier { id, threads, reduces, generation }))
        }
        Op::BarrierVote { id, a } if mask != 0 => {
            let (id, holds) = (warp.uniform(id, mask)?, warp.condition(a) & mask);
            // A number that no barrier has is an error where the warp arrives.
            if let Some(barrier) = env.ctas[warp.cta].barriers.get_mut(id as usize) {
                barrier.votes[0] += holds.count_ones();
                barrier.votes[1] += mask.count_ones();
            }
            Ok(Next::Advance)
        }
        Op::BarrierTally { id, to } if mask != 0 => {
            let id = warp.uniform(id, mask)? as usize;
            let [holds, all] = env.ctas[warp.cta].barriers.get(id).map_or([0; 2], |barrier| barrier.tally);
            let lanes = |result: bool| if result { u32::MAX } else { 0 };
            match to {
                Tally::Count(d) => warp.put_r(d, mask, &[holds; LANES]),
                Tally::All(d) => warp.put_p(d, mask, lanes(holds == all)),
                Tally::Any(d) => warp.put_p(d, mask, lanes(holds != 0)),
            }
            Ok(Next::Advance)
        }
        Op::BarrierVote { .. } | Op::BarrierTally { .. } => Ok(Next::Advance),
        Op::BarrierArrive { id, threads, aligned } => {
            if aligned && let Some(wait) = active.together(warp) {
                return Ok(wait);
            }
            if mask == 0 {
                return Ok(Next::Advance);
            }
            if mask != warp.live() {
                return Ok(Next::Wait(Wait::Lanes));
            }
            let (id, threads) = (warp.uniform(id, mask)?, warp.uniform(threads, mask)?);
            arrive(env, warp.cta, id, Some(threads), false)?;
            Ok(Next::Advance)
        }
        Op::ClusterArrive { ordered, aligned } => {
            if aligned && let Some(wait) = active.together(warp) {
                return Ok(wait);
            }
            if warp.at_cluster & mask != 0 {
                return Err(Reason::misuse("barrier.cluster.arrive twice without a wait"));
            }
            warp.at_cluster |= mask;
            warp.cluster_generation = env.cluster_generation;
            if let Some(order) = &mut env.order {
                order.arrive(&mut env.cluster_meeting, Scope::Cluster, ordered, warp.all_of(mask));
            }
            env.events += 1;
            Ok(Next::Advance)
        }
        Op::ClusterWait { aligned } => {
            if aligned && let Some(wait) = active.together(warp) {
                return Ok(wait);
            }
            if env.cluster_generation > warp.cluster_generation {
                if let Some(order) = &mut env.order {
                    order.meet_cluster();
                    order.leave(&env.cluster_meeting, true, u32::MAX);
                }
                return Ok(Next::Advance);
            }
            Ok(Next::Wait(Wait::Cluster { generation: warp.cluster_generation }))
        }
        _ => unreachable!("no barrier"),
    }
}

/// Lanes have ended, for which the others of the warp may have been waiting to be counted at a barrier.
pub(crate) fn lanes_ended(warp: &Warp, env: &mut Env<'_>) -> Result<(), Reason> {
    let Some(first) = warp.groups.first() else { return Ok(()) };
    let Wait::Barrier { id, threads, reduces, .. } = first.wait else { return Ok(()) };
    let there = |wait| matches!(wait, Wait::Barrier { id: other, .. } if other == id);
    if warp.groups.iter().all(|group| there(group.wait)) {
        arrive(env, warp.cta, id, threads, reduces)?;
    }
    Ok(())
}

/// The warp whose instruction is executed is at a named barrier.
fn arrive(env: &mut Env<'_>, cta: usize, id: u32, threads: Option<u32>, reduces: bool) -> Result<(), Reason> {
    let cta = &mut env.ctas[cta];
    if let (Some(order), Some(barrier)) = (&mut env.order, cta.barriers.get_mut(id as usize)) {
        order.arrive(&mut barrier.meeting, Scope::Cta, true, u32::MAX);
        order.meet();
    }
    env.events += 1;
    cta.arrive(id, threads, reduces)
}
