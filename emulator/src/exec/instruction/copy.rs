//! Asynchronous copies of one lane. All take effect when they are issued.

use crate::error::Reason;
use crate::exec::bulk::{Extent, Transfer, linear_size};
use crate::exec::check::order::{Side, tell_bulk};
use crate::exec::env::Env;
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::order::access::{ASYNC, STRONG};
use crate::order::{By, Phase};
use crate::program::op::Op;
use crate::program::operand::{Address, Bulk, Window};
use crate::program::register::R;
use crate::tensor::map::DataType;
use crate::tensor::memory::Memory;
use crate::tensor::reduce::{Reduction, combine};
use crate::tensor::tma::{self, TmaFault};

pub(super) fn lane(warp: &Warp, env: &mut Env<'_>, op: &Op, lane: usize) -> Result<(), Reason> {
    if let Some(order) = &mut env.order {
        order.of_lane(lane);
    }
    match op {
        Op::CopyAsync { .. } => fetch(warp, env, op, lane),
        Op::BulkLoad { copy, bar, multicast } => load(warp, env, copy, *bar, *multicast, lane),
        Op::BulkStore(copy) => store(warp, env, copy, None, lane),
        Op::BulkReduce { copy, op, data } => store(warp, env, copy, Some((*op, *data)), lane),
        Op::BulkShared { to, from, bytes, bar, reduction } => {
            between(warp, env, [*from, *to, *bar], (*bytes, *reduction), lane)
        }
        _ => unreachable!("no copy"),
    }
}

/// `cp.async`: a few bytes to shared memory, for the lane to wait for.
fn fetch(warp: &Warp, env: &mut Env<'_>, op: &Op, lane: usize) -> Result<(), Reason> {
    let Op::CopyAsync { to, from, bytes, source_bytes, ignore } = *op else { unreachable!("no `cp.async`") };
    let ignored = ignore.is_some_and(|ignore| warp.condition(ignore) >> lane & 1 != 0);
    let source_bytes = source_bytes.map_or(bytes, |source| warp.r(source)[lane]);
    if source_bytes > bytes {
        return Err(Reason::misuse(format!("cp.async of {source_bytes} bytes into {bytes}")));
    }
    let mut value = [0; 16];
    let (at, size) = (warp.address(from, lane), bytes as usize);
    let read = if ignored { 0 } else { source_bytes as usize };
    if read > 0 {
        if !at.is_multiple_of(size as u64) {
            return Err(Reason::misaligned(format!(
                "cp.async of {size} bytes of global memory at {at:#x}: misaligned"
            )));
        }
        env.global.read(at, &mut value[..read])?;
    }
    let (cta, to) = env.lane_shared(warp, Window::Cluster, to, lane)?;
    Memory::write(&mut env.ctas[cta], to, &value[..size])?;
    if let Some(order) = &mut env.order {
        let by = By::Copies(1 << lane);
        order.shared((cta, to), size, (by, 0), true)?;
        order.global(at, read, (by, 0), false)?;
    }
    Ok(())
}

/// A bulk copy to shared memory of one CTA or, at the same offsets, of several.
fn load(
    warp: &Warp,
    env: &mut Env<'_>,
    copy: &Bulk,
    bar: Address,
    multicast: Option<R>,
    lane: usize,
) -> Result<(), Reason> {
    read_map(warp, env, copy, lane)?;
    let size = env.ctas.len();
    let Transfer { shared: (cta, to), global } = Transfer::of(warp, env, copy, lane)?;
    let (bar_cta, bar) = env.lane_shared(warp, Window::Cluster, bar, lane)?;
    let targets = match multicast {
        Some(mask) => warp.r(mask)[lane] & 0xffff,
        None if bar_cta != cta => {
            return Err(Reason::misuse("a copy and its mbarrier are in different CTAs"));
        }
        None => 1 << cta,
    };
    if targets >> size != 0 {
        return Err(Reason::misuse(format!("multicast to CTAs {targets:#x} of a cluster of {size}")));
    }
    for target in lanes(targets) {
        let shared = &mut env.ctas[target];
        match &global {
            Extent::Linear { at, bytes } => env.global.read(*at, shared.bytes_mut(to, *bytes)?)?,
            Extent::Box { map, at } => {
                tma::load(map, at, to, &mut env.global, shared).map_err(TmaFault::reason)?;
            }
        }
        let phase = env.use_mbarrier(target, bar)?;
        if let Some(order) = &mut env.order {
            tell_bulk(order, (target, to), &global, arriving(phase))?;
        }
        env.ctas[target].mbarrier(bar)?.complete(global.bytes())?;
    }
    Ok(())
}

/// A tensor's copy reads the map by its proxy: what a kernel writes there needs a fence before.
fn read_map(warp: &Warp, env: &mut Env<'_>, copy: &Bulk, lane: usize) -> Result<(), Reason> {
    const BYTES: usize = 128;
    if let (Bulk::Tensor { map, .. }, Some(order)) = (copy, &mut env.order)
        && let Place::Global(at) = warp.place(Window::Generic, *map, lane)
    {
        return order.global(at, BYTES, (By::Warp, ASYNC), false);
    }
    Ok(())
}

/// A bulk copy to global memory, or a reduction there: of what type linear ones say, and tensor maps the others.
fn store(
    warp: &Warp,
    env: &mut Env<'_>,
    copy: &Bulk,
    reduction: Option<(Reduction, Option<DataType>)>,
    lane: usize,
) -> Result<(), Reason> {
    read_map(warp, env, copy, lane)?;
    let Transfer { shared: (cta, from), global } = Transfer::of(warp, env, copy, lane)?;
    let (memory, shared) = (&mut env.global, &mut env.ctas[cta]);
    let kind = match reduction {
        None => {
            match &global {
                Extent::Linear { at, bytes } => memory.write(*at, shared.bytes(from, *bytes)?)?,
                Extent::Box { map, at } => {
                    tma::store(map, at, from, memory, shared).map_err(TmaFault::reason)?;
                }
            }
            ASYNC
        }
        Some((op, data)) => {
            let data = match &global {
                Extent::Linear { .. } => data,
                Extent::Box { map, .. } => Some(map.data),
            };
            let combine = data.and_then(|data| combine(op, data));
            let combine =
                combine.ok_or_else(|| Reason::misuse(format!("{op:?} is not defined for {data:?}")))?;
            match &global {
                Extent::Linear { at, bytes } => {
                    let value = shared.bytes(from, *bytes)?;
                    memory.update(*at, *bytes, &mut |into| combine(into, value))?;
                }
                Extent::Box { map, at } => {
                    tma::reduce(map, at, from, combine, memory, shared).map_err(TmaFault::reason)?;
                }
            }
            ASYNC | STRONG
        }
    };
    match &mut env.order {
        Some(order) => tell_bulk(order, (cta, from), &global, leaving(lane, kind)),
        None => Ok(()),
    }
}

/// A bulk copy of shared memory to that of another CTA, or a reduction there.
fn between(
    warp: &Warp,
    env: &mut Env<'_>,
    [from, to, bar]: [Address; 3],
    (bytes, reduction): (R, Option<(Reduction, DataType)>),
    lane: usize,
) -> Result<(), Reason> {
    let (cta, from) = env.lane_shared(warp, Window::Cluster, from, lane)?;
    let (to_cta, to) = env.lane_shared(warp, Window::Cluster, to, lane)?;
    let (bar_cta, bar) = env.lane_shared(warp, Window::Cluster, bar, lane)?;
    let bytes = linear_size(warp, bytes, lane, &[from.into(), to.into()])?;
    let value = env.ctas[cta].bytes(from, bytes)?.to_vec();
    let into = env.ctas[to_cta].bytes_mut(to, bytes)?;
    match reduction {
        None => into.copy_from_slice(&value),
        Some((op, data)) => match combine(op, data) {
            Some(combine) => combine(into, &value),
            None => return Err(Reason::misuse(format!("{op:?} is not defined for {data:?}"))),
        },
    }
    let by = By::Phase(env.use_mbarrier(bar_cta, bar)?);
    if let Some(order) = &mut env.order {
        order.shared((cta, from), bytes, (by, ASYNC), false)?;
        let kind = if reduction.is_some() { ASYNC | STRONG } else { ASYNC };
        if reduction.is_some() {
            order.shared((to_cta, to), bytes, (by, kind), false)?;
        }
        order.shared((to_cta, to), bytes, (by, kind), true)?;
    }
    env.ctas[bar_cta].mbarrier(bar)?.complete(bytes as u32)
}

/// The sides of a copy to global memory, of a bulk group; `kind` is that of the writes.
fn leaving(lane: usize, kind: u8) -> [Side; 2] {
    [
        Side { by: By::BulkReads(1 << lane), kind: ASYNC, wrote: false },
        Side { by: By::BulkWrites(1 << lane), kind, wrote: true },
    ]
}

/// The sides of a copy from global memory, which completes on an mbarrier.
fn arriving(phase: Phase) -> [Side; 2] {
    [true, false].map(|wrote| Side { by: By::Phase(phase), kind: ASYNC, wrote })
}
