//! What a warp does by itself about the products of its warpgroup.

use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::result::{Active, Next};
use crate::exec::warp::Warp;
use crate::program::op::Op;

/// `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group`.
pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, active: Active) -> Result<Next, Reason> {
    if let Some(next) = active.whole(warp)? {
        return Ok(next);
    }
    match *op {
        Op::WgmmaFence => warp.wgmma.fences += 1,
        Op::WgmmaCommit => warp.wgmma.commit(),
        Op::WgmmaWait { pending } => {
            warp.wgmma.wait(pending);
            if let Some(order) = &mut env.order {
                order.wait_products(warp.wgmma.waited as u32);
            }
        }
        _ => unreachable!("nothing about groups of products"),
    }
    Ok(Next::Advance)
}
