//! What the warps of a cluster share.

use super::cta::{Cta, in_cluster};
use super::launch::Launch;
use super::warp::Warp;
use super::warp::group::{Group, Wait};
use crate::error::Reason;
use crate::memory::Place;
use crate::memory::view::View;
use crate::order::clock::Meeting;
use crate::order::{Order, Phase};
use crate::program::operand::{Address, Window};
use crate::tensor::product::Product;

/// A cluster while it runs, but for its warps.
pub(super) struct Env<'l> {
    pub(super) launch: &'l Launch<'l>,
    /// Its number among the clusters.
    pub(super) cluster: u64,
    /// By rank.
    pub(super) ctas: Vec<Cta>,
    pub(super) global: View,
    pub(super) product: Product,
    /// Counts what other warps may be waiting for.
    pub(super) events: u64,
    /// Nothing has happened for a while: who runs on and on lets its own lanes take turns, too.
    pub(super) quiet: bool,
    /// Times that the cluster's barrier has completed.
    pub(super) cluster_generation: u64,
    pub(super) cluster_meeting: Meeting,
    /// Checks the order of accesses, unless that is turned off.
    pub(super) order: Option<Order<'l>>,
    /// Operations of tensor cores.
    pub(super) tensor_operations: u64,
    /// Stores in which lanes wrote different values to one place.
    pub(super) contested_stores: u64,
}

impl Env<'_> {
    /// The last lane of a warp has ended.
    pub(super) fn warp_ended(&mut self, warp: &Warp) -> Result<(), Reason> {
        self.ctas[warp.cta].warp_ended(warp.index)?;
        match &mut self.order {
            Some(order) if self.ctas[warp.cta].live_warps == 0 => order.end(warp.cta),
            _ => Ok(()),
        }
    }

    /// Lanes go on behind a barrier that they waited for.
    pub(super) fn left(&mut self, warp: &Warp, group: Group) {
        let Some(order) = &mut self.order else { return };
        order.issue(warp.cta, warp.index, group.pc);
        match group.wait {
            Wait::Barrier { id, .. } => {
                order.leave(&self.ctas[warp.cta].barriers[id as usize].meeting, true, u32::MAX);
            }
            Wait::Cluster { .. } => {
                order.meet_cluster();
                order.leave(&self.cluster_meeting, true, u32::MAX);
            }
            _ => {}
        }
    }

    /// The current phase of an mbarrier that an instruction of the warp is about to use.
    pub(super) fn use_mbarrier(&mut self, cta: usize, at: u32) -> Result<Phase, Reason> {
        let phase = self.ctas[cta].mbarrier(at)?.current();
        if let Some(order) = &mut self.order {
            order.use_mbarrier(cta, at)?;
        }
        Ok(phase)
    }

    /// The CTA and the address in it of a lane's address in shared memory.
    pub(super) fn lane_shared(
        &self,
        warp: &Warp,
        window: Window,
        at: Address,
        lane: usize,
    ) -> Result<(usize, u32), Reason> {
        match warp.place(window, at, lane) {
            Place::Shared(address) => in_cluster(address, warp.cta, self.ctas.len()),
            other => Err(Reason::address(format!("{other:x?} is no address in shared memory"))),
        }
    }
}
