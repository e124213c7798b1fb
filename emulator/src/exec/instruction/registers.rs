//! The registers that warps of a CTA pass on to each other.
//!
//! PTX ISA, "setmaxnreg". Each warp begins with as many as `.maxnreg` says or, as ptxas chooses then, the most that the
//! launch bounds leave. What it gives goes to the pool of its CTA, and who asks for more waits until the pool has it. To ask for
//! no more than one has changes nothing, and neither does a kernel without any bounds, for which the manual promises no effect.

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
) -> Result<Next, String> {
    if let Some(wait) = active.together(warp) {
        return Ok(wait);
    }
    let Some(first) = env.launch.program.thread_registers else { return Ok(Next::Advance) };
    if active.mask == 0 {
        return Ok(Next::Advance);
    }
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
            format!("a thread gives registers until it has {count}, of at most {now} that it has")
        })?;
        warp.thread_registers = Some(count);
    }
    env.events += 1;
    Ok(Next::Advance)
}
