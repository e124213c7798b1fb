//! What a warp does by itself about the products of its warpgroup.

use crate::exec::env::Env;
use crate::exec::result::{Active, Next};
use crate::exec::warp::Warp;
use crate::program::op::Op;

/// `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group`.
pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, active: Active) -> Result<Next, String> {
    if let Some(next) = whole(warp, active)? {
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

/// What to do instead of the instruction unless all lanes of the warp execute it.
pub(super) fn whole(warp: &Warp, active: Active) -> Result<Option<Next>, String> {
    match (active.together(warp), active.mask) {
        (Some(wait), _) => Ok(Some(wait)),
        (None, 0) => Ok(Some(Next::Advance)),
        (None, u32::MAX) => Ok(None),
        (None, some) => Err(format!("wgmma needs all lanes of the warp, and {some:#010x} execute it")),
    }
}
