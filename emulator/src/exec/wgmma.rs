//! The products of a warpgroup that a warp has in flight.
//!
//! A product belongs to the group that the next `wgmma.commit_group` closes, and is in flight until a
//! `wgmma.wait_group` covers that group. Each warp counts for itself. PTX ISA, "wgmma.commit_group" and
//! "wgmma.wait_group".

use super::env::Env;
use super::step::{Active, Next, together};
use super::warp::Warp;
use crate::program::Op;

/// The groups of a warp, numbered from 1.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The last group that was committed: a product that is issued now is of the next one.
    pub(super) committed: u64,
    /// The last group that was waited for: it and those before it are complete.
    pub(super) waited: u64,
    /// `wgmma.fence`s so far.
    pub(super) fences: u64,
}

impl Groups {
    fn commit(&mut self) {
        self.committed += 1;
    }

    /// Waits until at most the last `pending` groups are in flight.
    fn wait(&mut self, pending: u32) {
        self.waited = self.waited.max(self.committed.saturating_sub(pending.into()));
    }
}

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
    match (together(warp, active, u32::MAX), active.mask) {
        (Some(wait), _) => Ok(Some(wait)),
        (None, 0) => Ok(Some(Next::Advance)),
        (None, u32::MAX) => Ok(None),
        (None, some) => Err(format!("wgmma needs all lanes of the warp, and {some:#010x} execute it")),
    }
}
