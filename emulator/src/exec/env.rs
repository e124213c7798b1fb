//! What the warps of a cluster share.

use super::Launch;
use super::cta::{Cta, in_cluster};
use super::observe::Observer;
use super::warp::{Group, Wait, Warp};
use crate::memory::{Place, View, place};
use crate::order::{Meeting, Order, Phase};
use crate::program::{Address, Base, Window};
use crate::ptx::Space;
use crate::tensor::product::Product;

/// A cluster while it runs, but for its warps.
pub(super) struct Env<'l> {
    pub(super) launch: &'l Launch<'l>,
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
    /// Where accesses and waits are counted.
    pub(super) observer: Option<Box<Observer>>,
}

/// The address of one lane.
#[inline(always)]
pub(super) fn lane_address(warp: &Warp, at: Address, lane: usize) -> u64 {
    let base = match at.base {
        Base::None => 0,
        Base::R(register) => u64::from(warp.r(register)[lane]),
        Base::D(register) => warp.d(register)[lane],
    };
    base.wrapping_add(at.offset as u64)
}

/// Where a lane's address lies.
#[inline(always)]
pub(super) fn lane_place(warp: &Warp, window: Window, at: Address, lane: usize) -> Place {
    let address = lane_address(warp, at, lane);
    match window {
        Window::Generic => place(address),
        Window::In(Space::Global | Space::Const) => Place::Global(address),
        Window::In(Space::Shared) | Window::Cluster => Place::Shared(address as u32),
        Window::In(Space::Param) => Place::Parameters(address as u32),
        Window::In(Space::Local) => Place::Local(address as u32),
    }
}

impl Env<'_> {
    /// The last lane of a warp has ended.
    pub(super) fn warp_ended(&mut self, warp: &Warp) -> Result<(), String> {
        self.ctas[warp.cta].warp_ended()?;
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
            Wait::Barrier { id, .. } => order.leave(&self.ctas[warp.cta].barriers[id as usize].meeting, true),
            Wait::Cluster { .. } => order.leave(&self.cluster_meeting, true),
            _ => {}
        }
    }

    /// The current phase of an mbarrier that an instruction of the warp is about to use.
    pub(super) fn use_mbarrier(&mut self, cta: usize, at: u32) -> Result<Phase, String> {
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
    ) -> Result<(usize, u32), String> {
        match lane_place(warp, window, at, lane) {
            Place::Shared(address) => in_cluster(address, warp.cta, self.ctas.len()),
            other => Err(format!("{other:x?} is no address in shared memory")),
        }
    }
}
