//! Instructions by their families.

use super::{
    access, atomic, atomic128, barrier, collective, copy, fragments, matrix, mbarrier, registers,
    store_async, tensormap, wgmma,
};
use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::joint::Joint;
use crate::exec::observe::Observer;
use crate::exec::result::{Active, Next};
use crate::exec::warp::group::Wait;
use crate::exec::warp::{Warp, lanes};
use crate::program::op::Op;

/// Executes an instruction that is not worth a place in the loop, looked at by who counts.
#[inline(never)]
pub(super) fn step(
    warp: &mut Warp,
    env: &mut Env<'_>,
    observer: &mut Option<Observer>,
    op: &Op,
    active: Active,
) -> Result<Next, Reason> {
    let joint = Joint::of(warp, env.ctas.len(), op, active.mask);
    let Some(observer) = observer else { return execute(warp, env, op, active, joint.as_ref()) };
    observer.before(warp, env, op, active, joint.as_ref());
    let next = execute(warp, env, op, active, joint.as_ref())?;
    observer.after(warp, env, op, &next);
    Ok(next)
}

fn execute(
    warp: &mut Warp,
    env: &mut Env<'_>,
    op: &Op,
    active: Active,
    joint: Option<&Joint>,
) -> Result<Next, Reason> {
    if let Some(order) = &mut env.order {
        order.issue(warp.cta, warp.index, active.pc);
    }
    match op {
        Op::Fence(_) | Op::ProxyFence(_) | Op::Commit { .. } | Op::WaitGroup { .. } | Op::WaitAllCopies => {
            if let Some(order) = &mut env.order
                && active.mask != 0
            {
                let all = warp.all_of(active.mask);
                match *op {
                    Op::Fence(scope) => order.fence(scope, all),
                    Op::ProxyFence(space) => order.proxy_fence(space, all),
                    Op::Commit { queue } => order.commit(queue, active.mask),
                    Op::WaitGroup { queue, pending } => order.wait(queue, all, pending),
                    _ => order.wait_all_copies(all),
                }
            }
            Ok(Next::Advance)
        }
        Op::WaitForPreceding | Op::LaunchDependents => {
            if let Some(order) = &mut env.order
                && active.mask != 0
            {
                let all = warp.all_of(active.mask);
                match op {
                    Op::WaitForPreceding => order.wait_for_preceding(all),
                    _ => order.launch_dependents(all),
                }
            }
            Ok(Next::Advance)
        }
        Op::StoreAsync { .. } => {
            store_async::step(warp, env, op, active.mask)?;
            Ok(Next::Advance)
        }
        Op::Mapa { .. } => {
            access::mapa(warp, env, op, active.mask)?;
            Ok(Next::Advance)
        }
        Op::Atomic { .. } => {
            atomic::step(warp, env, op, active.mask, joint)?;
            Ok(Next::Advance)
        }
        Op::Atomic128 { .. } => {
            atomic128::step(warp, env, op, active.mask)?;
            Ok(Next::Advance)
        }
        Op::Shuffle { .. }
        | Op::Vote { .. }
        | Op::Ballot { .. }
        | Op::Match { .. }
        | Op::Reduce { .. }
        | Op::ActiveMask(_)
        | Op::Elect { .. }
        | Op::SyncWarp { .. } => collective::step(warp, env, op, active),
        Op::Barrier { .. }
        | Op::BarrierVote { .. }
        | Op::BarrierTally { .. }
        | Op::BarrierArrive { .. }
        | Op::ClusterArrive { .. }
        | Op::ClusterWait { .. } => barrier::step(warp, env, op, active),
        Op::MbarInit { .. }
        | Op::MbarInvalidate { .. }
        | Op::MbarExpect { .. }
        | Op::MbarComplete { .. }
        | Op::MbarArrive { .. }
        | Op::MbarTestParity { .. }
        | Op::MbarTestState { .. }
        | Op::MbarPendingCount { .. }
        | Op::CopyAsyncArrive { .. } => mbarrier::step(warp, env, op, active.mask),
        Op::CopyAsync { .. }
        | Op::BulkLoad { .. }
        | Op::BulkStore(_)
        | Op::BulkReduce { .. }
        | Op::BulkShared { .. } => {
            for lane in lanes(active.mask) {
                copy::lane(warp, env, op, lane).map_err(|what| warp.blame(lane, what))?;
            }
            env.events += 1;
            Ok(Next::Advance)
        }
        Op::Ldmatrix { .. } | Op::Stmatrix { .. } | Op::Movmatrix { .. } | Op::Mma(_) => {
            matrix::step(warp, env, op, active)
        }
        Op::WmmaLoad(_) | Op::WmmaStore(_) | Op::WarpProduct(_) => fragments::step(warp, env, op, active),
        Op::TensorMapReplace { .. } | Op::TensorMapCopy { .. } => tensormap::step(warp, env, op, active),
        Op::ThreadRegisters { count, more } => registers::step(warp, env, *count, *more, active),
        Op::Wgmma(_) => Ok(active.whole(warp)?.unwrap_or(Next::Wait(Wait::Warpgroup))),
        Op::WgmmaFence | Op::WgmmaCommit | Op::WgmmaWait { .. } => wgmma::step(warp, env, op, active),
        _ => unreachable!("done in place"),
    }
}
