//! Barriers in shared memory.

use super::env::Env;
use super::step::Next;
use super::warp::{Wait, Warp, lanes};
use crate::program::Op;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Result<Next, String> {
    match *op {
        Op::MbarPendingCount { d, state } => {
            let value = warp.d(state).map(|state| state as u32 & 0xf_ffff);
            warp.put_r(d, mask, &value);
            Ok(Next::Advance)
        }
        Op::MbarTestParity { at, window, d, parity, suspend } => {
            let mut passed = 0;
            for lane in lanes(mask) {
                let (cta, at) = env.lane_shared(warp, window, at, lane)?;
                let done = env.ctas[cta].mbarrier(at)?.passed(warp.r(parity)[lane]);
                passed |= u32::from(done) << lane;
            }
            Ok(tested(warp, d, mask, passed, suspend))
        }
        Op::MbarTestState { at, window, d, state, suspend } => {
            let mut passed = 0;
            for lane in lanes(mask) {
                let (cta, at) = env.lane_shared(warp, window, at, lane)?;
                let done = env.ctas[cta].mbarrier(at)?.phase > warp.d(state)[lane] >> 20;
                passed |= u32::from(done) << lane;
            }
            Ok(tested(warp, d, mask, passed, suspend))
        }
        _ => {
            env.events += 1;
            lanes(mask).try_for_each(|lane| one(warp, env, op, lane))?;
            Ok(Next::Advance)
        }
    }
}

/// A `try_wait` that fails in all lanes is tried again when others have run; a `test_wait` lets them run.
fn tested(warp: &mut Warp, d: crate::program::P, mask: u32, passed: u32, suspend: bool) -> Next {
    if mask != 0 && passed == 0 && suspend && !warp.give_up {
        return Next::Wait(Wait::Mbarrier);
    }
    warp.give_up = false;
    warp.put_p(d, mask, passed);
    if passed == mask { Next::Advance } else { Next::Yield }
}

fn one(warp: &mut Warp, env: &mut Env<'_>, op: &Op, lane: usize) -> Result<(), String> {
    match *op {
        Op::MbarInit { at, window, count } => {
            let (cta, at) = env.lane_shared(warp, window, at, lane)?;
            env.ctas[cta].init_mbarrier(at, warp.r(count)[lane])
        }
        Op::MbarInvalidate { at, window } => {
            let (cta, at) = env.lane_shared(warp, window, at, lane)?;
            env.ctas[cta].invalidate_mbarrier(at)
        }
        Op::MbarExpect { at, window, bytes } => {
            let (cta, at) = env.lane_shared(warp, window, at, lane)?;
            env.ctas[cta].mbarrier(at)?.expect(warp.r(bytes)[lane]);
            Ok(())
        }
        Op::MbarComplete { at, window, bytes } => {
            let (cta, at) = env.lane_shared(warp, window, at, lane)?;
            env.ctas[cta].mbarrier(at)?.complete(warp.r(bytes)[lane]);
            Ok(())
        }
        Op::MbarArrive { at, window, count, expect, state, drop } => {
            let (cta, at) = env.lane_shared(warp, window, at, lane)?;
            let barrier = env.ctas[cta].mbarrier(at)?;
            let before = barrier.state();
            if let Some(expect) = expect {
                // Before the arrival, which may otherwise complete the phase.
                barrier.bytes += i64::from(warp.r(expect)[lane]);
            }
            let count = count.map_or(1, |count| warp.r(count)[lane]);
            if drop {
                barrier.expected =
                    barrier.expected.checked_sub(count).ok_or("more arrivals dropped than expected")?;
            }
            barrier.arrive(count)?;
            if let Some(state) = state {
                warp.d[state.0 as usize][lane] = before;
            }
            Ok(())
        }
        Op::CopyAsyncArrive { at, window, counted } => {
            let (cta, at) = env.lane_shared(warp, window, at, lane)?;
            let barrier = env.ctas[cta].mbarrier(at)?;
            // The copies are complete. An arrival that the count does not have is added to it first.
            if counted { barrier.arrive(1) } else { Ok(()) }
        }
        _ => unreachable!("no mbarrier"),
    }
}
