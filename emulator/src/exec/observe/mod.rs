//! Counts what instructions ask of memory and barriers, before they are executed.
//!
//! What cannot be executed is counted as far as it makes sense: the launch fails, and nobody sees the numbers.

mod access;
mod copy;

use crate::count::Counters;
use crate::count::stages::Stages;
use crate::count::traffic::Request;
use crate::exec::env::Env;
use crate::exec::joint::Joint;
use crate::exec::result::{Active, Next};
use crate::exec::warp::group::{Group, Wait};
use crate::exec::warp::{Warp, lanes};
use crate::memory::SHARED_START;
use crate::program::op::Op;
use crate::program::operand::{Queue, WgmmaA, WgmmaOp, Window};
use crate::program::register::LANES;

/// The counters of a cluster while it runs.
#[derive(Debug)]
pub(super) struct Observer {
    counters: Counters,
    /// Instructions that were looked at.
    now: u64,
    /// By rank of the CTA.
    stages: Vec<Stages>,
    warps_each: usize,
    /// By CTA and warp.
    warps: Vec<Progress>,
    request: Request,
}

/// What is to be known of a warp.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Its batches of `cp.async` that are closed.
    batches: u64,
    /// Whether its last poll of an mbarrier failed.
    polling: bool,
}

impl Observer {
    /// For a cluster of so many CTAs, each with so many bytes of shared memory and warps.
    pub(super) fn new(ctas: usize, shared_bytes: u32, warps_each: usize) -> Self {
        Self {
            counters: Counters::default(),
            now: 0,
            stages: (0..ctas).map(|_| Stages::new(SHARED_START + shared_bytes)).collect(),
            warps_each,
            warps: vec![Progress::default(); ctas * warps_each],
            request: Request::default(),
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.stages.iter().map(Stages::bytes).sum()
    }

    /// What was counted; of instructions nothing.
    pub(super) fn counters(&self) -> Counters {
        let live_stages = self.stages.iter().map(Stages::most).max().unwrap_or(0);
        Counters { live_stages, ..self.counters }
    }

    fn progress(&mut self, warp: &Warp) -> &mut Progress {
        &mut self.warps[warp.cta * self.warps_each + warp.index as usize]
    }

    /// Looks at an instruction that is about to be executed.
    pub(super) fn before(
        &mut self,
        warp: &Warp,
        env: &mut Env<'_>,
        op: &Op,
        active: Active,
        joint: Option<&Joint>,
    ) {
        let mask = active.mask;
        self.now += 1;
        if let Some(joint) = joint {
            return self.together(op, joint);
        }
        match *op {
            Op::Load { window, bytes, ref to, at, .. } => {
                self.load(warp, env, mask, window, at, bytes * to.len() as u32);
            }
            Op::Store { window, bytes, ref from, at, .. } => {
                self.store(warp, env, mask, window, at, bytes * from.len() as u32);
            }
            Op::StoreAsync { bytes, ref from, at, .. } => {
                self.store(warp, env, mask, Window::Cluster, at, bytes * from.len() as u32);
            }
            Op::Atomic { window, bytes, at, .. } => self.atomic(warp, env, mask, window, at, bytes),
            Op::Atomic128 { window, at, .. } => self.atomic(warp, env, mask, window, at, 16),
            Op::Ldmatrix { ref to, at, .. } if mask == u32::MAX => self.ldmatrix(warp, env, to.len(), at),
            Op::Stmatrix { ref from, at, .. } if mask == u32::MAX => {
                self.stmatrix(warp, env, from.len(), at);
            }
            Op::CopyAsync { .. } => self.cp_async(warp, env, op, mask),
            Op::CopyAsyncArrive { .. } | Op::Commit { queue: Queue::Copies } if mask != 0 => {
                self.progress(warp).batches += 1;
            }
            Op::BulkLoad { .. } | Op::BulkStore(_) | Op::BulkReduce { .. } | Op::BulkShared { .. } => {
                lanes(mask).for_each(|lane| self.bulk(warp, env, op, lane));
            }
            _ => {}
        }
    }

    /// Looks at what became of it.
    pub(super) fn after(&mut self, warp: &Warp, env: &Env<'_>, op: &Op, next: &Next) {
        if let Op::MbarTestParity { .. } | Op::MbarTestState { .. } = op {
            let failed = !matches!(next, Next::Advance);
            let polling = std::mem::replace(&mut self.progress(warp).polling, failed);
            self.counters.waits.mbarriers.times += u64::from(failed && !polling);
            self.counters.waits.mbarriers.turns += u64::from(failed);
        }
        match *next {
            Next::Wait(wait @ Wait::Barrier { .. }) if waits(warp, env, wait) => {
                self.counters.waits.barriers.times += 1;
            }
            Next::Wait(Wait::Cluster { .. }) => self.counters.waits.clusters.times += 1,
            _ => {}
        }
    }

    /// Looks at a warp whose turn is over.
    pub(super) fn turn(&mut self, warp: &Warp, env: &Env<'_>) {
        for &Group { wait, .. } in warp.groups.iter().filter(|group| waits(warp, env, group.wait)) {
            match wait {
                Wait::Barrier { .. } => self.counters.waits.barriers.turns += 1,
                Wait::Cluster { .. } => self.counters.waits.clusters.turns += 1,
                _ => {}
            }
        }
    }

    /// Looks at a product that is about to be computed.
    pub(super) fn product(&mut self, warps: &[Warp], op: &WgmmaOp) {
        self.now += 1;
        let first = &warps[0];
        let mut operand = |pieces: Vec<u32>| {
            self.counters.shared.wgmma.pieces(pieces.iter().copied());
            let stages = &mut self.stages[first.cta];
            pieces.into_iter().for_each(|at| stages.read(at, self.now));
        };
        if let WgmmaA::Shared(a) = op.a {
            operand(op.shape.pieces_a(first.d(a)[0]).collect());
        }
        operand(op.shape.pieces_b(first.d(op.b)[0]).collect());
    }
}

/// Whether lanes that wait for this still have to.
fn waits(warp: &Warp, env: &Env<'_>, wait: Wait) -> bool {
    match wait {
        Wait::Barrier { id, generation, .. } => {
            let barriers = &env.ctas[warp.cta].barriers;
            barriers.get(id as usize).is_some_and(|barrier| barrier.generation == generation)
        }
        Wait::Cluster { generation } => env.cluster_generation == generation,
        _ => false,
    }
}

/// The addresses of a request in shared memory, by lane.
type Addresses = [u32; LANES];
