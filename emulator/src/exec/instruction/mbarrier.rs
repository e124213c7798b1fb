//! Barriers in shared memory.

use crate::error::Reason;
use crate::exec::cta::Mbarrier;
use crate::exec::env::Env;
use crate::exec::result::Next;
use crate::exec::warp::group::Wait;
use crate::exec::warp::{Warp, alike, lanes};
use crate::order::Order;
use crate::program::op::Op;
use crate::program::operand::{Address, Scope, Window};
use crate::program::register::{LANES, P};

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Result<Next, Reason> {
    match *op {
        Op::MbarPendingCount { d, state } => {
            let value = warp.d(state).map(|state| state as u32 & 0xf_ffff);
            warp.put_r(d, mask, &value);
            Ok(Next::Advance)
        }
        Op::MbarTestParity { at, window, d, parity, suspend, ordered } => {
            let parities = *warp.r(parity);
            let passed = test(warp, env, (at, window), mask, ordered, |mbarrier, lane| {
                Ok(mbarrier.passed(parities[lane]))
            })?;
            Ok(tested(warp, d, mask, passed, suspend))
        }
        Op::MbarTestState { at, window, d, state, suspend, ordered } => {
            let states = *warp.d(state);
            let passed = test(warp, env, (at, window), mask, ordered, |mbarrier, lane| {
                mbarrier.has_left(states[lane])
            })?;
            Ok(tested(warp, d, mask, passed, suspend))
        }
        _ => {
            env.events += 1;
            let (mut last, all) = (None, warp.all_of(mask));
            for lane in lanes(mask) {
                one(warp, env, op, (lane, all), &mut last).map_err(|what| warp.blame(lane, what))?;
            }
            Ok(Next::Advance)
        }
    }
}

/// The lanes for which a phase is complete.
fn test(
    warp: &mut Warp,
    env: &mut Env<'_>,
    (at, window): (Address, Window),
    mask: u32,
    ordered: bool,
    done: impl Fn(&Mbarrier, usize) -> Result<bool, Reason>,
) -> Result<u32, Reason> {
    let (mut passed, mut last, mut tested, mut missed) = (0, None, [(0, 0); LANES], false);
    for lane in lanes(mask) {
        let (cta, at) = env.lane_shared(warp, window, at, lane).map_err(|what| warp.blame(lane, what))?;
        let first = last.replace((cta, at)) != Some((cta, at));
        if first {
            env.use_mbarrier(cta, at).map_err(|what| warp.blame(lane, what))?;
        }
        let mbarrier = env.ctas[cta].mbarrier(at)?;
        if done(mbarrier, lane).map_err(|what| warp.blame(lane, what))? {
            let seen = |order: &Order<'_>| order.has_seen(mbarrier.current(), mbarrier.completed);
            if warp.misses && env.order.as_ref().is_some_and(|order| !seen(order)) {
                missed = true;
                continue;
            }
            passed |= 1 << lane;
            tested[lane] = (cta, at);
        }
    }
    // It is asked again: a warp that comes back to where it was has not stopped.
    env.events += u64::from(missed);
    if let Some(order) = &mut env.order {
        // The lanes of a warp mostly test the same one, and learn the same.
        for ((cta, at), lanes) in alike(lanes(passed).map(|lane| (lane, tested[lane]))) {
            order.leave(&env.ctas[cta].mbarrier(at)?.meeting, ordered, warp.all_of(lanes));
        }
    }
    Ok(passed)
}

/// A `try_wait` that fails in all lanes is tried again when others have run; a `test_wait` lets them run.
fn tested(warp: &mut Warp, d: P, mask: u32, passed: u32, suspend: bool) -> Next {
    if mask != 0 && passed == 0 && suspend && !warp.give_up && !warp.misses {
        return Next::Wait(Wait::Mbarrier);
    }
    (warp.give_up, warp.misses) = (false, false);
    warp.put_p(d, mask, passed);
    if passed == mask { Next::Advance } else { Next::Yield }
}

/// `lanes` are those that do the same, `last` is the mbarrier of the lane before: the order of accesses is told once of lanes that do the same.
fn one(
    warp: &mut Warp,
    env: &mut Env<'_>,
    op: &Op,
    (lane, lanes): (usize, u32),
    last: &mut Option<(usize, u32)>,
) -> Result<(), Reason> {
    let (at, window) = match *op {
        Op::MbarInit { at, window, .. }
        | Op::MbarInvalidate { at, window }
        | Op::MbarExpect { at, window, .. }
        | Op::MbarComplete { at, window, .. }
        | Op::MbarArrive { at, window, .. }
        | Op::CopyAsyncArrive { at, window, .. } => (at, window),
        _ => unreachable!("no mbarrier"),
    };
    let (cta, at) = env.lane_shared(warp, window, at, lane)?;
    if let Op::MbarInit { count, .. } = *op {
        let agent = match &mut env.order {
            Some(order) => order.begin_mbarrier(cta, at, lane)?,
            None => 0,
        };
        return env.ctas[cta].init_mbarrier(at, warp.r(count)[lane], agent);
    }
    let first = last.replace((cta, at)) != Some((cta, at));
    if first {
        env.use_mbarrier(cta, at)?;
    }
    if let Op::MbarInvalidate { .. } = op {
        if let Some(order) = &mut env.order {
            order.end_mbarrier(cta, at, lane)?;
        }
        return env.ctas[cta].invalidate_mbarrier(at);
    }
    let moment = env.order.as_ref().map(Order::moment);
    let barrier = env.ctas[cta].mbarrier(at)?;
    let phase = barrier.phase;
    match *op {
        Op::MbarExpect { bytes, .. } => barrier.expect(warp.r(bytes)[lane])?,
        Op::MbarComplete { bytes, .. } => barrier.complete(warp.r(bytes)[lane])?,
        Op::MbarArrive { count, expect, state, drop, uncompleted, ordered, inside, .. } => {
            let scope = if cta == warp.cta { Scope::Cta } else { Scope::Cluster };
            if let Some(order) = &mut env.order
                && first
                && (scope == Scope::Cta || !inside)
            {
                order.arrive(&mut barrier.meeting, scope, ordered, lanes);
            }
            let before = barrier.state();
            if let Some(expect) = expect {
                // Before the arrival, which may otherwise complete the phase.
                barrier.transact(warp.r(expect)[lane].into())?;
            }
            let count = count.map_or(1, |count| warp.r(count)[lane]);
            if uncompleted && barrier.pending <= count {
                return Err(Reason::misuse(format!(
                    "{count} arrivals that must not complete the phase of an mbarrier, which waits for {}",
                    barrier.pending
                )));
            }
            if drop {
                let left = barrier.expected.checked_sub(count);
                barrier.expected =
                    left.ok_or_else(|| Reason::misuse("more arrivals dropped than expected"))?;
            }
            barrier.arrive(count)?;
            if let Some(state) = state {
                warp.d[state.0 as usize][lane] = before;
            }
        }
        Op::CopyAsyncArrive { counted, .. } => {
            if let Some(order) = &mut env.order
                && first
            {
                order.arrive_behind_copies(&mut barrier.meeting);
            }
            // The copies are complete. An arrival that the count does not have is added to it first.
            if counted {
                barrier.arrive(1)?;
            }
        }
        _ => unreachable!("done above"),
    }
    if barrier.phase != phase {
        barrier.completed = moment;
    }
    Ok(())
}
