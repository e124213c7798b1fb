//! What the order of accesses is told of the lanes' loads, stores and atomics, and of copies.

use crate::error::Reason;
use crate::exec::bulk::Extent;
use crate::exec::cta::in_cluster;
use crate::exec::env::Env;
use crate::exec::joint::{Joint, Shape, Where};
use crate::exec::warp::{Warp, alike, lanes};
use crate::memory::Place;
use crate::order::access::{OF_CLUSTER, OF_CTA, READ_ONLY, STRONG};
use crate::order::lanes::Lanes;
use crate::order::spot::Spot;
use crate::order::{By, Order};
use crate::program::operand::{Address, Ordering, Scope, Window};
use crate::tensor::tma::lines;

/// An access of every lane of an instruction.
#[derive(Clone, Copy)]
pub(crate) struct Accesses {
    pub(crate) window: Window,
    pub(crate) at: Address,
    pub(crate) mask: u32,
    /// Of each lane.
    pub(crate) bytes: usize,
    /// Whether it gives what was there.
    pub(crate) reads: bool,
    /// Whether what was there matters.
    pub(crate) takes: bool,
    pub(crate) writes: bool,
    /// Of a strong one.
    pub(crate) ordering: Option<Ordering>,
    /// Of what nobody may write.
    pub(crate) read_only: bool,
}

/// Tells of the accesses. `value` gives what a lane writes.
#[inline]
pub(crate) fn tell(
    warp: &Warp,
    env: &mut Env<'_>,
    accesses: Accesses,
    joint: Option<&Joint>,
    value: impl Fn(usize) -> [u8; 16],
) -> Result<(), Reason> {
    let Env { order: Some(order), ctas, global, .. } = env else { return Ok(()) };
    let size = ctas.len();
    let Accesses { window, at, mask, bytes, reads, takes, writes, ordering, read_only } = accesses;
    if joint.is_some_and(|joint| joint.space == Where::Parameters) {
        return Ok(());
    }
    let place = |lane| match warp.place(window, at, lane) {
        Place::Shared(at) => in_cluster(at, warp.cta, size).ok().map(|(cta, at)| Spot::Shared(cta, at)),
        Place::Global(at) => Some(Spot::Global(at)),
        Place::Parameters(_) | Place::Local(_) | Place::Foreign(_) => None,
    };
    let spot = |lane| {
        let spot = joint.map_or_else(|| place(lane), |joint| joint.spot(lane));
        spot.map(|spot| (lane, spot))
    };
    let same = |other: Option<usize>, lane, at| {
        if let Some(other) = other {
            let there = mask >> other & 1 != 0 && spot(other) == Some((other, at));
            return there.then(|| value(other) == value(lane));
        }
        let mut there = [0; 16];
        let read = match at {
            Spot::Shared(cta, at) => {
                ctas[cta].bytes(at, bytes).map(|found| there[..bytes].copy_from_slice(found))
            }
            Spot::Global(at) => global.read(at, &mut there[..bytes]),
        };
        (ordering.is_none() && read.is_ok()).then(|| there == value(lane))
    };
    let strong = match ordering.map(|ordering| ordering.scope) {
        None => 0,
        Some(Scope::Cta) => STRONG | OF_CTA,
        Some(Scope::Cluster) => STRONG | OF_CLUSTER,
        Some(Scope::Gpu) => STRONG,
    };
    let kind = if read_only { READ_ONLY } else { strong };
    let what = Lanes { bytes, kind, reads: takes, wrote: writes, gives: reads && writes };
    match joint {
        Some(joint) => {
            let shared = if let Where::Shared(cta) = joint.space { Some(cta) } else { None };
            match &joint.shape {
                Shape::Row => order.row(joint.first, mask, shared, what, same)?,
                Shape::Same => order.lanes(lanes(mask).filter_map(spot), what, same)?,
                Shape::Scattered(at) => order.together(at, mask, shared, what, same)?,
            }
        }
        None => order.lanes(lanes(mask).filter_map(spot), what, same)?,
    }
    if let Some(ordering) = ordering {
        // Neighbours that access one place are as one.
        for (spot, lanes) in alike(lanes(mask).filter_map(spot)) {
            order.strong((spot, warp.all_of(lanes)), reads, writes, ordering)?;
        }
        if writes {
            order.released(ordering, warp.all_of(mask))?;
        }
        if ordering.release {
            order.tick();
        }
    }
    Ok(())
}

/// One side of a copy.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub(crate) by: By,
    pub(crate) kind: u8,
    pub(crate) wrote: bool,
}

/// Tells of a bulk copy between global and shared memory.
pub(crate) fn tell_bulk(
    order: &mut Order<'_>,
    (cta, shared): (usize, u32),
    global: &Extent,
    [in_shared, in_global]: [Side; 2],
) -> Result<(), Reason> {
    let tell_shared = |order: &mut Order<'_>, at, bytes| {
        order.shared((cta, at), bytes, (in_shared.by, in_shared.kind), in_shared.wrote)
    };
    let tell_global = |order: &mut Order<'_>, at, bytes| {
        order.global(at, bytes, (in_global.by, in_global.kind), in_global.wrote)
    };
    let (map, coordinates) = match global {
        Extent::Linear { at, bytes } => {
            tell_shared(order, shared, *bytes)?;
            return tell_global(order, *at, *bytes);
        }
        Extent::Box { map, at } => (map, at),
    };
    for line in lines(map, coordinates, shared) {
        // What is outside the tensor is filled, but not stored.
        let (begin, end) =
            if in_shared.wrote { (0, map.line_bytes()) } else { (line.skip, line.skip + line.bytes) };
        let mut at = begin;
        while at < end {
            let next = (at / 16 * 16 + 16).min(end);
            let place = map.swizzle.place(line.shared + at / 16 * 16) + at % 16;
            tell_shared(order, place, (next - at) as usize)?;
            at = next;
        }
        if line.bytes > 0 {
            tell_global(order, line.global, line.bytes as usize)?;
        }
    }
    Ok(())
}
