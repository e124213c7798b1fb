//! Asynchronous copies of one lane. All take effect when they are issued.

use crate::exec::bulk::{coordinates_of, tensor_map};
use crate::exec::check::order::{Side, tell_box, tell_linear};
use crate::exec::cta::in_cluster;
use crate::exec::env::Env;
use crate::exec::warp::{Warp, lanes};
use crate::memory::View;
use crate::order::{ASYNC, By, Phase, STRONG};
use crate::program::{Address, Bulk, Op, R, Window};
use crate::tensor::Memory;
use crate::tensor::reduce::combine;
use crate::tensor::tma;

impl Memory<u64> for View {
    type Fault = String;

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), String> {
        self.read(at, into)
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), String> {
        self.write(at, from)
    }

    fn update(&mut self, at: u64, len: usize, change: &mut dyn FnMut(&mut [u8])) -> Result<(), String> {
        self.update(at, len, change)
    }
}

pub(super) fn lane(warp: &mut Warp, env: &mut Env<'_>, op: &Op, lane: usize) -> Result<(), String> {
    match op {
        Op::CopyAsync { to, from, bytes, source_bytes, ignore } => {
            let ignored = ignore.is_some_and(|ignore| warp.condition(ignore) >> lane & 1 != 0);
            let source_bytes = source_bytes.map_or(*bytes, |source| warp.r(source)[lane]);
            if source_bytes > *bytes {
                return Err(format!("cp.async of {source_bytes} bytes into {bytes}"));
            }
            let mut value = [0; 16];
            let (at, size) = (warp.address(*from, lane), *bytes as usize);
            let read = if ignored { 0 } else { source_bytes as usize };
            if read > 0 {
                if !at.is_multiple_of(size as u64) {
                    return Err(format!("cp.async of {size} bytes of global memory at {at:#x}: misaligned"));
                }
                env.global.read(at, &mut value[..read])?;
            }
            let (cta, to) = env.lane_shared(warp, Window::Cluster, *to, lane)?;
            Memory::write(&mut env.ctas[cta], to, &value[..size])?;
            if let Some(order) = &mut env.order {
                let by = By::Copies(1 << lane);
                order.shared((cta, to), size, (by, 0), true)?;
                order.global(at, read, (by, 0), false)?;
            }
            Ok(())
        }
        Op::BulkLoad { copy, bar, multicast } => load(warp, env, copy, *bar, *multicast, lane),
        Op::BulkShared { to, from, bytes, bar } => {
            let (cta, from) = env.lane_shared(warp, Window::Cluster, *from, lane)?;
            let (to_cta, to) = env.lane_shared(warp, Window::Cluster, *to, lane)?;
            let (bar_cta, bar) = env.lane_shared(warp, Window::Cluster, *bar, lane)?;
            let bytes = linear_size(warp, *bytes, lane, &[from.into(), to.into()])?;
            let value = env.ctas[cta].bytes(from, bytes)?.to_vec();
            env.ctas[to_cta].bytes_mut(to, bytes)?.copy_from_slice(&value);
            let by = By::Phase(env.use_mbarrier(bar_cta, bar)?);
            if let Some(order) = &mut env.order {
                order.shared((cta, from), bytes, (by, ASYNC), false)?;
                order.shared((to_cta, to), bytes, (by, ASYNC), true)?;
            }
            env.ctas[bar_cta].mbarrier(bar)?.complete(bytes as u32)?;
            Ok(())
        }
        Op::BulkStore(copy) => match copy {
            Bulk::Linear { global, shared, bytes } => {
                let (cta, from) = env.lane_shared(warp, Window::Cluster, *shared, lane)?;
                let at = warp.address(*global, lane);
                let bytes = linear_size(warp, *bytes, lane, &[at, from.into()])?;
                env.global.write(at, env.ctas[cta].bytes(from, bytes)?)?;
                match &mut env.order {
                    Some(order) => tell_linear(order, (cta, from), at, bytes, leaving(lane, ASYNC)),
                    None => Ok(()),
                }
            }
            Bulk::Tensor { map, coordinates, shared } => {
                let map = tensor_map(warp, env, *map, lane)?;
                let (cta, from) = env.lane_shared(warp, Window::Cluster, *shared, lane)?;
                let at = coordinates_of(warp, coordinates, lane);
                tma::store(&map, &at, from, &mut env.global, &mut env.ctas[cta])
                    .map_err(|fault| fault.to_string())?;
                match &mut env.order {
                    Some(order) => tell_box(order, (cta, from), (&map, &at), leaving(lane, ASYNC)),
                    None => Ok(()),
                }
            }
        },
        Op::BulkReduce { copy, op, data } => match copy {
            Bulk::Linear { global, shared, bytes } => {
                let (cta, from) = env.lane_shared(warp, Window::Cluster, *shared, lane)?;
                let at = warp.address(*global, lane);
                let bytes = linear_size(warp, *bytes, lane, &[at, from.into()])?;
                let combine = data.and_then(|data| combine(*op, data));
                let combine = combine.ok_or_else(|| format!("{op:?} is not defined for {data:?}"))?;
                let value = env.ctas[cta].bytes(from, bytes)?.to_vec();
                env.global.update(at, bytes, &mut |into| combine(into, &value))?;
                match &mut env.order {
                    Some(order) => tell_linear(order, (cta, from), at, bytes, leaving(lane, ASYNC | STRONG)),
                    None => Ok(()),
                }
            }
            Bulk::Tensor { map, coordinates, shared } => {
                let map = tensor_map(warp, env, *map, lane)?;
                let (cta, from) = env.lane_shared(warp, Window::Cluster, *shared, lane)?;
                let at = coordinates_of(warp, coordinates, lane);
                let combine = combine(*op, map.data)
                    .ok_or_else(|| format!("{op:?} is not defined for {:?}", map.data))?;
                tma::reduce(&map, &at, from, combine, &mut env.global, &mut env.ctas[cta])
                    .map_err(|fault| fault.to_string())?;
                match &mut env.order {
                    Some(order) => tell_box(order, (cta, from), (&map, &at), leaving(lane, ASYNC | STRONG)),
                    None => Ok(()),
                }
            }
        },
        _ => unreachable!("no copy"),
    }
}

fn load(
    warp: &mut Warp,
    env: &mut Env<'_>,
    copy: &Bulk,
    bar: Address,
    multicast: Option<R>,
    lane: usize,
) -> Result<(), String> {
    let size = env.ctas.len();
    let shared = match copy {
        Bulk::Linear { shared, .. } | Bulk::Tensor { shared, .. } => *shared,
    };
    let (cta, to) = env.lane_shared(warp, Window::Cluster, shared, lane)?;
    let (bar_cta, bar) = in_cluster(warp.address(bar, lane) as u32, warp.cta, size)?;
    let targets = match multicast {
        // Each at the same offsets of its own memory.
        Some(mask) => warp.r(mask)[lane] & 0xffff,
        None if bar_cta != cta => return Err("a copy and its mbarrier are in different CTAs".into()),
        None => 1 << cta,
    };
    if targets >> size != 0 {
        return Err(format!("multicast to CTAs {targets:#x} of a cluster of {size}"));
    }
    match copy {
        Bulk::Linear { global, bytes, .. } => {
            let at = warp.address(*global, lane);
            let bytes = linear_size(warp, *bytes, lane, &[at, to.into()])?;
            let mut value = vec![0; bytes];
            env.global.read(at, &mut value)?;
            for target in lanes(targets) {
                env.ctas[target].bytes_mut(to, bytes)?.copy_from_slice(&value);
                let phase = env.use_mbarrier(target, bar)?;
                if let Some(order) = &mut env.order {
                    tell_linear(order, (target, to), at, bytes, arriving(phase))?;
                }
                env.ctas[target].mbarrier(bar)?.complete(bytes as u32)?;
            }
        }
        Bulk::Tensor { map, coordinates, .. } => {
            let map = tensor_map(warp, env, *map, lane)?;
            let at = coordinates_of(warp, coordinates, lane);
            for target in lanes(targets) {
                tma::load(&map, &at, to, &mut env.global, &mut env.ctas[target])
                    .map_err(|fault| fault.to_string())?;
                let phase = env.use_mbarrier(target, bar)?;
                if let Some(order) = &mut env.order {
                    tell_box(order, (target, to), (&map, &at), arriving(phase))?;
                }
                env.ctas[target].mbarrier(bar)?.complete(map.bytes())?;
            }
        }
    }
    Ok(())
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

fn linear_size(warp: &Warp, bytes: R, lane: usize, addresses: &[u64]) -> Result<usize, String> {
    let bytes = warp.r(bytes)[lane];
    if !bytes.is_multiple_of(16) || addresses.iter().any(|at| !at.is_multiple_of(16)) {
        return Err(format!("a bulk copy of {bytes} bytes at {addresses:#x?}: must be multiples of 16"));
    }
    Ok(bytes as usize)
}
