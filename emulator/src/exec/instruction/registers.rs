//! The registers that warps of a CTA pass on to each other.
//!
//! PTX ISA, "setmaxnreg". Each warp begins with as many as `.maxnreg` says or, as ptxas chooses then, the most that the
//! launch bounds leave. What it gives goes to the pool of its CTA, and who asks for more waits until the pool has it. To ask for
//! no more than one has changes nothing, and neither does a kernel without any bounds, for which the manual promises no effect.

use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::result::{Active, Next};
use crate::exec::warp::Warp;
use crate::exec::warp::group::Wait;

/// Sets how many registers each thread of the warp has.
pub(super) fn step(
    warp: &mut Warp,
    env: &mut Env<'_>,
    count: u32,
    more: bool,
    active: Active,
) -> Result<Next, Reason> {
    if let Some(wait) = active.together(warp) {
        return Ok(wait);
    }
    if active.mask == 0 {
        return Ok(Next::Advance);
    }
    with_others(warp, env, count)?;
    let Some(first) = env.launch.program.thread_registers else {
        changed(warp, env, count);
        return Ok(Next::Advance);
    };
    let now = warp.thread_registers.unwrap_or(first);
    let pool = &mut env.ctas[warp.cta].spare_registers;
    if more {
        let needed = count.saturating_sub(now);
        if needed > *pool {
            return Ok(Next::Wait(Wait::Registers { needed: needed - *pool }));
        }
        *pool -= needed;
        warp.thread_registers = Some(now.max(count));
    } else {
        *pool += now.checked_sub(count).ok_or_else(|| {
            Reason::misuse(format!(
                "a thread gives registers until it has {count}, of at most {now} that it has"
            ))
        })?;
        warp.thread_registers = Some(count);
    }
    changed(warp, env, count);
    env.events += 1;
    Ok(Next::Advance)
}

/// All warps of a warpgroup change their registers alike.
fn with_others(warp: &Warp, env: &Env<'_>, count: u32) -> Result<(), Reason> {
    let cta = &env.ctas[warp.cta];
    let number = cta.warps[warp.index as usize].0.len();
    for other in cta.warpgroup(warp.index) {
        let (changes, ended) = &cta.warps[other];
        match changes.get(number) {
            Some(&theirs) if theirs != count => {
                return Err(Reason::misuse(format!(
                    "setmaxnreg to {count}, where warp {other} of the warpgroup has {theirs}"
                )));
            }
            None if *ended => {
                return Err(Reason::misuse(format!(
                    "setmaxnreg, and warp {other} of the warpgroup has ended without it"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

fn changed(warp: &Warp, env: &mut Env<'_>, count: u32) {
    env.ctas[warp.cta].warps[warp.index as usize].0.push(count);
}
