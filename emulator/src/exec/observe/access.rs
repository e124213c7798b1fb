//! Loads, stores and atomics, and the matrices of a warp.

use super::{Addresses, Observer};
use crate::count::banks::PIECE;
use crate::count::stages::{Stages, Writer};
use crate::exec::cta::in_cluster;
use crate::exec::env::Env;
use crate::exec::joint::{Joint, Shape, Where};
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::program::op::Op;
use crate::program::operand::{Address, Window};
use crate::program::register::{LANES, lanes_of};

impl Observer {
    /// Counts what lanes access in one memory.
    pub(super) fn together(&mut self, op: &Op, joint: &Joint) {
        let (global, shared) = (&mut self.counters.global, &mut self.counters.shared);
        let (global, shared, reads) = match op {
            Op::Load { .. } => (&mut global.loads, &mut shared.loads, true),
            Op::Store { .. } => (&mut global.stores, &mut shared.stores, false),
            _ => (&mut global.atomics, &mut shared.atomics, false),
        };
        let near = !matches!(joint.shape, Shape::Scattered(_));
        match joint.space {
            Where::Global if near => global.line(joint.range()),
            Where::Global => {
                lanes(joint.mask).for_each(|lane| self.request.lane(joint.at(lane), joint.bytes.into()));
                self.request.count(global);
            }
            Where::Shared(_) if near => shared.near(joint.mask, joint.bytes),
            Where::Shared(_) => {
                shared.lanes(&lanes_of(|lane| joint.at(lane) as u32), joint.mask, joint.bytes);
            }
            Where::Parameters => {}
        }
        // What asynchronous copies wrote is followed.
        if let Where::Shared(cta) = joint.space
            && self.stages[cta].has_fills()
        {
            for at in lanes(joint.mask).map(|lane| joint.at(lane) as u32) {
                match reads {
                    true => self.stages[cta].read(at, self.now),
                    false => self.stages[cta].write(at, joint.bytes, Writer::OTHER),
                }
            }
        }
    }

    pub(super) fn load(
        &mut self,
        warp: &Warp,
        env: &Env<'_>,
        mask: u32,
        window: Window,
        at: Address,
        bytes: u32,
    ) {
        let (addresses, shared) = self.split(warp, mask, window, at, bytes);
        self.request.count(&mut self.counters.global.loads);
        self.counters.shared.loads.lanes(&addresses, shared, bytes);
        lanes(shared).for_each(|lane| self.read(warp, env, addresses[lane]));
    }

    pub(super) fn store(
        &mut self,
        warp: &Warp,
        env: &Env<'_>,
        mask: u32,
        window: Window,
        at: Address,
        bytes: u32,
    ) {
        let (addresses, shared) = self.split(warp, mask, window, at, bytes);
        self.request.count(&mut self.counters.global.stores);
        self.counters.shared.stores.lanes(&addresses, shared, bytes);
        lanes(shared).for_each(|lane| self.overwrite(warp, env, addresses[lane], bytes));
    }

    pub(super) fn atomic(
        &mut self,
        warp: &Warp,
        env: &Env<'_>,
        mask: u32,
        window: Window,
        at: Address,
        bytes: u32,
    ) {
        let (addresses, shared) = self.split(warp, mask, window, at, bytes);
        self.request.count(&mut self.counters.global.atomics);
        self.counters.shared.atomics.lanes(&addresses, shared, bytes);
        lanes(shared).for_each(|lane| self.overwrite(warp, env, addresses[lane], bytes));
    }

    pub(super) fn ldmatrix(&mut self, warp: &Warp, env: &Env<'_>, count: usize, at: Address) {
        let rows = rows(warp, count, at);
        self.counters.shared.ldmatrix.pieces(rows.clone());
        if self.stages.iter().any(Stages::has_fills) {
            rows.for_each(|at| self.read(warp, env, at));
        }
    }

    pub(super) fn stmatrix(&mut self, warp: &Warp, env: &Env<'_>, count: usize, at: Address) {
        let rows = rows(warp, count, at);
        self.counters.shared.stmatrix.pieces(rows.clone());
        rows.for_each(|at| self.overwrite(warp, env, at, PIECE));
    }

    /// Puts what goes to global memory into the request, and gives what goes to shared memory: addresses and lanes.
    fn split(&mut self, warp: &Warp, mask: u32, window: Window, at: Address, bytes: u32) -> (Addresses, u32) {
        let (mut addresses, mut shared) = ([0; LANES], 0);
        for lane in lanes(mask) {
            match warp.place(window, at, lane) {
                Place::Global(at) => self.request.lane(at, bytes.into()),
                Place::Shared(at) => {
                    addresses[lane] = at;
                    shared |= 1 << lane;
                }
                Place::Parameters(_) | Place::Local(_) | Place::Foreign(_) => {}
            }
        }
        (addresses, shared)
    }

    /// Something reads a piece of shared memory.
    fn read(&mut self, warp: &Warp, env: &Env<'_>, at: u32) {
        if let Ok((cta, at)) = in_cluster(at, warp.cta, env.ctas.len()) {
            self.stages[cta].read(at, self.now);
        }
    }

    /// Something that is no asynchronous copy writes to shared memory.
    pub(super) fn overwrite(&mut self, warp: &Warp, env: &Env<'_>, at: u32, bytes: u32) {
        if let Ok((cta, at)) = in_cluster(at, warp.cta, env.ctas.len()) {
            self.stages[cta].write(at, bytes, Writer::OTHER);
        }
    }
}

/// The rows of so many matrices.
fn rows(warp: &Warp, matrices: usize, at: Address) -> impl Iterator<Item = u32> + Clone {
    let addresses: Addresses = std::array::from_fn(|lane| warp.address(at, lane) as u32);
    addresses.into_iter().take(8 * matrices)
}
