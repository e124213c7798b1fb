//! Asynchronous copies.

use super::Observer;
use crate::arch::Arch;
use crate::count::banks::PIECE;
use crate::count::stages::{Fill, Writer};
use crate::exec::bulk::{Extent, Transfer};
use crate::exec::env::Env;
use crate::exec::warp::{Warp, lanes};
use crate::program::op::Op;
use crate::program::operand::{Bulk, Window};
use crate::program::register::LANES;
use crate::tensor::tma;

/// What a bulk copy moves.
struct Moved {
    /// Lines of global memory: address and bytes.
    lines: Vec<(u64, u64)>,
    /// Pieces of 16 bytes of shared memory.
    pieces: Vec<u32>,
}

impl Observer {
    /// `cp.async` of a warp.
    pub(super) fn cp_async(&mut self, warp: &Warp, env: &Env<'_>, op: &Op, mask: u32) {
        let Op::CopyAsync { to, from, bytes, source_bytes, ignore } = *op else { return };
        let ignored = ignore.map_or(0, |ignore| warp.condition(ignore));
        let fill = Fill::Batch(self.progress(warp).batches);
        let mut addresses = [0; LANES];
        for lane in lanes(mask) {
            let read = source_bytes.map_or(bytes, |source| warp.r(source)[lane]).min(bytes);
            let read = if ignored >> lane & 1 != 0 { 0 } else { read };
            self.request.lane(warp.address(from, lane), read.into());
            let Ok((cta, at)) = env.lane_shared(warp, Window::Cluster, to, lane) else { return };
            addresses[lane] = at;
            // Zeros, however they are written, are nothing that was fetched.
            let writer = if read == 0 { Writer::OTHER } else { self.stages[cta].writer(fill, self.now) };
            self.stages[cta].write(at, bytes, writer);
        }
        self.request.count(&mut self.counters.global.copies);
        self.counters.shared.copies.lanes(&addresses, mask, bytes);
    }

    /// A bulk copy of one lane.
    pub(super) fn bulk(&mut self, warp: &Warp, env: &mut Env<'_>, op: &Op, lane: usize) {
        match op {
            Op::BulkLoad { copy, bar, multicast } => {
                let Some((cta, moved)) = moved(warp, env, copy, lane) else { return };
                self.lines(&moved);
                self.request.count(&mut self.counters.global.bulk_loads);
                let targets = multicast.map_or(1 << cta, |mask| warp.r(mask)[lane] & 0xffff);
                let Ok((_, bar)) = env.lane_shared(warp, Window::Cluster, *bar, lane) else { return };
                let size = self.stages.len();
                for target in lanes(targets).take_while(|&target| target < size) {
                    self.written(env, target, bar, &moved.pieces);
                }
            }
            Op::BulkStore(copy) | Op::BulkReduce { copy, .. } => {
                let Some((_, moved)) = moved(warp, env, copy, lane) else { return };
                self.lines(&moved);
                self.request.count(&mut self.counters.global.bulk_stores);
                self.bulk_read(warp, moved.pieces.iter().copied());
            }
            Op::BulkShared { to, from, bytes, bar, .. } => {
                let places = [*from, *to, *bar].map(|at| env.lane_shared(warp, Window::Cluster, at, lane));
                let [Ok((_, from)), Ok((target, to)), Ok((_, bar))] = places else { return };
                let bytes = warp.r(*bytes)[lane];
                self.bulk_read(warp, pieces(from, bytes));
                self.written(env, target, bar, &pieces(to, bytes).collect::<Vec<_>>());
            }
            _ => {}
        }
    }

    fn lines(&mut self, moved: &Moved) {
        moved.lines.iter().for_each(|&(at, bytes)| self.request.line(at, bytes));
    }

    fn bulk_read(&mut self, warp: &Warp, pieces: impl Iterator<Item = u32> + Clone) {
        self.counters.shared.bulk_reads.pieces(pieces.clone());
        pieces.for_each(|at| self.stages[warp.cta].read(at, self.now));
    }

    /// Pieces are written to a CTA's memory, for an mbarrier there.
    fn written(&mut self, env: &mut Env<'_>, cta: usize, mbarrier: u32, pieces: &[u32]) {
        self.counters.shared.bulk_writes.pieces(pieces.iter().copied());
        let Ok(barrier) = env.ctas[cta].mbarrier(mbarrier) else { return };
        let fill = Fill::Phase { mbarrier, phase: barrier.phase };
        let stages = &mut self.stages[cta];
        let writer = stages.writer(fill, self.now);
        pieces.iter().for_each(|&at| stages.write(at, PIECE, writer));
    }
}

/// What a bulk copy between global and shared memory moves; nothing if it is faulty.
fn moved(warp: &Warp, env: &mut Env<'_>, copy: &Bulk, lane: usize) -> Option<(usize, Moved)> {
    let Transfer { shared: (cta, shared), global } = Transfer::of(warp, env, copy, lane).ok()?;
    let moved = match global {
        Extent::Linear { at, bytes } => {
            Moved { lines: vec![(at, bytes as u64)], pieces: pieces(shared, bytes as u32).collect() }
        }
        Extent::Box { map, at } => {
            let lines = tma::lines(&map, &at, shared).filter(|line| line.bytes > 0);
            Moved {
                lines: lines.map(|line| (line.global, line.bytes.into())).collect(),
                pieces: tma::pieces(&map, shared).collect(),
            }
        }
    };
    Some((cta, moved))
}

/// The pieces of contiguous bytes.
fn pieces(at: u32, bytes: u32) -> impl Iterator<Item = u32> + Clone {
    // No copy is longer than shared memory.
    (0..bytes.min(Arch::Sm90a.shared_bytes()))
        .step_by(PIECE as usize)
        .map(move |offset| at.wrapping_add(offset))
}
