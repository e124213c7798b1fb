//! Loads, stores and atomics, and the matrices of a warp.

use super::{Addresses, Observer};
use crate::count::Counters;
use crate::count::banks::{PIECE, SharedTraffic};
use crate::count::stages::Writer;
use crate::count::traffic::GlobalTraffic;
use crate::exec::cta::in_cluster;
use crate::exec::env::Env;
use crate::exec::joint::{Joint, Shape, Where};
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::program::operand::{Address, Window};
use crate::program::register::LANES;

impl Observer {
    /// Counts loads that lie next to each other, or are of the same; whether these are such ones.
    pub(super) fn loads(&mut self, joint: &Joint) -> bool {
        self.near(joint, |all| (&mut all.global.loads, &mut all.shared.loads))
    }

    /// The same of stores.
    pub(super) fn stores(&mut self, joint: &Joint) -> bool {
        self.near(joint, |all| (&mut all.global.stores, &mut all.shared.stores))
    }

    fn near(
        &mut self,
        joint: &Joint,
        of: impl Fn(&mut Counters) -> (&mut GlobalTraffic, &mut SharedTraffic),
    ) -> bool {
        let (global, shared) = of(&mut self.counters);
        match joint.space {
            _ if joint.shape == Shape::Scattered => return false,
            Where::Global => global.line(joint.range()),
            // Of what asynchronous copies wrote, each lane's access is looked at.
            Where::Shared(cta) if self.stages[cta].has_fills() => return false,
            Where::Shared(_) => shared.near(joint.mask, joint.bytes),
            Where::Parameters => {}
        }
        true
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
        rows.for_each(|at| self.read(warp, env, at));
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
