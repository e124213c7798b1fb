//! Loads, stores and atomics.

use super::cta::in_cluster;
use super::env::{Env, lane_address, lane_place};
use super::ordered::{self, Accesses};
use super::sum::{sum32, sum64};
use super::warp::{Warp, lanes};
use crate::memory::{IN_CTA, Place, RANK_SHIFT, SHARED};
use crate::order::By;
use crate::program::{Address, AtomicOp, Destination, LANES, Op, Source, Window};
use crate::tensor::reduce;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Result<(), String> {
    match *op {
        Op::Load { window, bytes, signed, ref to, at, ordering } => {
            let total = bytes as usize * to.len();
            // First: the address may be in a register that is loaded.
            let accesses = Accesses { window, at, mask, bytes: total, reads: true, writes: false, ordering };
            ordered::tell(warp, env, accesses, |_| [0; 16])?;
            match (bytes, signed, to.len()) {
                (4, false, 1) => load_words::<1>(warp, env, window, to, at, mask)?,
                (4, false, 2) => load_words::<2>(warp, env, window, to, at, mask)?,
                (4, false, 4) => load_words::<4>(warp, env, window, to, at, mask)?,
                _ => {
                    for lane in lanes(mask) {
                        let mut value = [0; 16];
                        read(warp, env, lane_place(warp, window, at, lane), lane, &mut value[..total])
                            .map_err(|what| blame(warp, lane, what))?;
                        for (i, &to) in to.iter().enumerate() {
                            let element = &value[i * bytes as usize..][..bytes as usize];
                            put(warp, to, lane, element, signed);
                        }
                    }
                }
            }
        }
        Op::Store { window, bytes, ref from, at, ordering } => {
            let bytes = bytes as usize;
            let total = bytes * from.len();
            let accesses = Accesses { window, at, mask, bytes: total, reads: false, writes: true, ordering };
            ordered::tell(warp, env, accesses, |lane| gather(warp, from, bytes, lane))?;
            if let (4, [Source::R(from)]) = (bytes, &**from) {
                let values = *warp.r(*from);
                for lane in lanes(mask) {
                    let value = values[lane].to_le_bytes();
                    write(warp, env, lane_place(warp, window, at, lane), lane, &value)
                        .map_err(|what| blame(warp, lane, what))?;
                }
            } else {
                for lane in lanes(mask) {
                    let value = gather(warp, from, bytes, lane);
                    write(warp, env, lane_place(warp, window, at, lane), lane, &value[..total])
                        .map_err(|what| blame(warp, lane, what))?;
                }
            }
        }
        Op::StoreAsync { bytes, ref from, at, bar } => {
            let total = bytes as usize * from.len();
            for lane in lanes(mask) {
                let value = gather(warp, from, bytes as usize, lane);
                let to = lane_address(warp, at, lane) as u32;
                let bar = lane_address(warp, bar, lane) as u32;
                let (cta, to) = in_cluster(to, warp.cta, env.ctas.len())?;
                let (bar_cta, bar) = in_cluster(bar, warp.cta, env.ctas.len())?;
                if cta != bar_cta {
                    return Err("st.async with a destination and an mbarrier in different CTAs".into());
                }
                check_alignment(to.into(), total, "shared memory")?;
                env.ctas[cta].bytes_mut(to, total)?.copy_from_slice(&value[..total]);
                let phase = env.use_mbarrier(cta, bar)?;
                if let Some(order) = &mut env.order {
                    order.shared((cta, to), total, (By::Phase(phase), 0), true)?;
                }
                env.ctas[cta].mbarrier(bar)?.complete(total as u32)?;
            }
            env.events += 1;
        }
        Op::Atomic { op, window, bytes, d, at, b, c, ordering, returns } => {
            let size = bytes as usize;
            let accesses = Accesses {
                window,
                at,
                mask,
                bytes: size,
                reads: returns,
                writes: true,
                ordering: Some(ordering),
            };
            ordered::tell(warp, env, accesses, |_| [0; 16])?;
            for lane in lanes(mask) {
                let place = lane_place(warp, window, at, lane);
                let (b, c) = (source(warp, b, lane), c.map_or(0, |c| source(warp, c, lane)));
                let global = matches!(place, Place::Global(_));
                let combine = |old| combine(op, bytes, [old, b, c], global);
                let old = match bytes {
                    4 => update32(env, warp, place, |old| combine(old.into()) as u32).map(u64::from),
                    _ => update(env, warp, place, size, combine),
                };
                let old = old.map_err(|what| blame(warp, lane, what))?;
                let new = combine(old);
                // One that changes nothing is how a lock is polled.
                env.events += u64::from(old != new);
                put(warp, d, lane, &old.to_le_bytes()[..bytes as usize], false);
            }
        }
        Op::Mapa { d, a, rank, generic } => {
            let size = env.ctas.len();
            let mut value = [0u64; LANES];
            for lane in lanes(mask) {
                let base = if generic { SHARED } else { 0 };
                let address = source(warp, a, lane).wrapping_sub(base) as u32;
                let rank = warp.r(rank)[lane];
                if rank as usize >= size {
                    return Err(format!("mapa to CTA {rank} of a cluster of {size}"));
                }
                value[lane] = base + u64::from((rank + 1) << RANK_SHIFT | address & IN_CTA);
            }
            match d {
                Destination::R(d, _) => warp.put_r(d, mask, &value.map(|value| value as u32)),
                Destination::D(d) => warp.put_d(d, mask, &value),
                Destination::Sink => {}
            }
        }
        _ => unreachable!("no access to memory"),
    }
    Ok(())
}

/// A load of 32-bit elements, the most frequent ones: their number is a constant, so nothing loops over bytes.
fn load_words<const N: usize>(
    warp: &mut Warp,
    env: &mut Env<'_>,
    window: Window,
    to: &[Destination],
    at: Address,
    mask: u32,
) -> Result<(), String> {
    let mut values = [[0; LANES]; N];
    for lane in lanes(mask) {
        let mut bytes = [[0; 4]; N];
        read(warp, env, lane_place(warp, window, at, lane), lane, bytes.as_flattened_mut())
            .map_err(|what| blame(warp, lane, what))?;
        for (values, bytes) in values.iter_mut().zip(bytes) {
            values[lane] = u32::from_le_bytes(bytes);
        }
    }
    for (&to, value) in to.iter().zip(&values) {
        match to {
            Destination::R(register, _) => warp.put_r(register, mask, value),
            Destination::D(register) => warp.put_d(register, mask, &value.map(u64::from)),
            Destination::Sink => {}
        }
    }
    Ok(())
}

/// It is this lane's access that is wrong.
#[cold]
fn blame(warp: &mut Warp, lane: usize, what: String) -> String {
    warp.culprit = Some(lane as u32);
    what
}

#[inline(always)]
fn check_alignment(at: u64, bytes: usize, space: &str) -> Result<(), String> {
    if at.is_multiple_of(bytes as u64) { Ok(()) } else { Err(misaligned(at, bytes, space)) }
}

#[cold]
fn misaligned(at: u64, bytes: usize, space: &str) -> String {
    format!("{bytes} bytes of {space} at {at:#x}: misaligned")
}

#[inline(always)]
pub(super) fn read(
    warp: &Warp,
    env: &mut Env<'_>,
    place: Place,
    lane: usize,
    into: &mut [u8],
) -> Result<(), String> {
    match place {
        Place::Global(at) => {
            check_alignment(at, into.len(), "global memory")?;
            env.global.read(at, into)
        }
        Place::Shared(at) => {
            check_alignment(at.into(), into.len(), "shared memory")?;
            let (cta, at) = in_cluster(at, warp.cta, env.ctas.len())?;
            into.copy_from_slice(env.ctas[cta].bytes(at, into.len())?);
            Ok(())
        }
        Place::Parameters(at) => {
            check_alignment(at.into(), into.len(), "the parameters")?;
            let block = env.launch.parameters;
            let bytes = block.get(at as usize..).and_then(|rest| rest.get(..into.len()));
            let bytes = bytes.ok_or_else(|| {
                format!("{} bytes of the parameters at {at}: there are {}", into.len(), block.len())
            })?;
            into.copy_from_slice(bytes);
            Ok(())
        }
        Place::Local(at) => {
            check_alignment(at.into(), into.len(), "local memory")?;
            into.copy_from_slice(&warp.local[local(warp, lane, at, into.len())?]);
            Ok(())
        }
    }
}

#[inline(always)]
fn write(warp: &mut Warp, env: &mut Env<'_>, place: Place, lane: usize, from: &[u8]) -> Result<(), String> {
    match place {
        Place::Global(at) => {
            check_alignment(at, from.len(), "global memory")?;
            env.events += 1;
            env.global.write(at, from)
        }
        Place::Shared(at) => {
            check_alignment(at.into(), from.len(), "shared memory")?;
            let (cta, at) = in_cluster(at, warp.cta, env.ctas.len())?;
            env.events += 1;
            env.ctas[cta].bytes_mut(at, from.len())?.copy_from_slice(from);
            Ok(())
        }
        Place::Parameters(at) => Err(format!("a store to the parameters, at {at}")),
        Place::Local(at) => {
            check_alignment(at.into(), from.len(), "local memory")?;
            let range = local(warp, lane, at, from.len())?;
            warp.local[range].copy_from_slice(from);
            Ok(())
        }
    }
}

pub(super) fn local(
    warp: &Warp,
    lane: usize,
    at: u32,
    bytes: usize,
) -> Result<std::ops::Range<usize>, String> {
    let size = warp.local.len() / LANES;
    if at as usize + bytes > size {
        return Err(format!("{bytes} bytes of local memory at {at}: the thread has {size}"));
    }
    let start = lane * size + at as usize;
    Ok(start..start + bytes)
}

/// Bytes as the register holds them: extended to its width.
#[inline]
pub(super) fn put(warp: &mut Warp, to: Destination, lane: usize, bytes: &[u8], signed: bool) {
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    let mut value = u64::from_le_bytes(value);
    let unused = 64 - 8 * bytes.len() as u32;
    if signed && unused > 0 {
        value = ((value << unused) as i64 >> unused) as u64;
    }
    match to {
        Destination::R(register, bits) => {
            let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
            warp.r[register.0 as usize][lane] = value as u32 & mask;
        }
        Destination::D(register) => warp.d[register.0 as usize][lane] = value,
        Destination::Sink => {}
    }
}

pub(super) fn source(warp: &Warp, from: Source, lane: usize) -> u64 {
    match from {
        Source::R(register) => warp.r(register)[lane].into(),
        Source::D(register) => warp.d(register)[lane],
    }
}

#[inline]
fn gather(warp: &Warp, from: &[Source], bytes: usize, lane: usize) -> [u8; 16] {
    let mut value = [0; 16];
    for (i, &from) in from.iter().enumerate() {
        value[i * bytes..][..bytes].copy_from_slice(&source(warp, from, lane).to_le_bytes()[..bytes]);
    }
    value
}

fn update32(env: &mut Env<'_>, warp: &Warp, place: Place, f: impl Fn(u32) -> u32) -> Result<u32, String> {
    match place {
        Place::Global(at) => {
            check_alignment(at, 4, "global memory")?;
            env.global.update32(at, f)
        }
        Place::Shared(at) => {
            check_alignment(at.into(), 4, "shared memory")?;
            let (cta, at) = in_cluster(at, warp.cta, env.ctas.len())?;
            let bytes = env.ctas[cta].bytes_mut(at, 4)?;
            let old = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            bytes.copy_from_slice(&f(old).to_le_bytes());
            Ok(old)
        }
        other => Err(format!("an atomic operation at {other:x?}")),
    }
}

fn update(
    env: &mut Env<'_>,
    warp: &Warp,
    place: Place,
    size: usize,
    f: impl Fn(u64) -> u64,
) -> Result<u64, String> {
    let mut old = 0;
    let mut change = |bytes: &mut [u8]| {
        let mut value = [0; 8];
        value[..size].copy_from_slice(bytes);
        old = u64::from_le_bytes(value);
        bytes.copy_from_slice(&f(old).to_le_bytes()[..size]);
    };
    match place {
        Place::Global(at) => {
            check_alignment(at, size, "global memory")?;
            env.global.update(at, size, &mut change)?;
        }
        Place::Shared(at) => {
            check_alignment(at.into(), size, "shared memory")?;
            let (cta, at) = in_cluster(at, warp.cta, env.ctas.len())?;
            change(env.ctas[cta].bytes_mut(at, size)?);
        }
        other => return Err(format!("an atomic operation at {other:x?}")),
    }
    Ok(old)
}

/// What an atomic operation of so many bytes makes of the old value and its operands; `global`: on global memory.
pub(super) fn combine(op: AtomicOp, bytes: u32, values: [u64; 3], global: bool) -> u64 {
    let mask = u64::MAX >> (64 - 8 * bytes);
    let [old, b, c] = values.map(|value| value & mask);
    let signed = |value: u64| (value << (64 - 8 * bytes)) as i64 >> (64 - 8 * bytes);
    let result = match op {
        AtomicOp::Exchange => b,
        AtomicOp::CompareAndSwap => match old == b {
            true => c,
            false => old,
        },
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::AddInteger => old.wrapping_add(b),
        AtomicOp::AddFloat if bytes == 4 => sum32(old as u32, b as u32, global).into(),
        AtomicOp::AddFloat => sum64(old, b, global),
        AtomicOp::MinUnsigned => old.min(b),
        AtomicOp::MaxUnsigned => old.max(b),
        AtomicOp::MinSigned => signed(old).min(signed(b)) as u64,
        AtomicOp::MaxSigned => signed(old).max(signed(b)) as u64,
        AtomicOp::Increment => match old >= b {
            true => 0,
            false => old + 1,
        },
        AtomicOp::Decrement => match old == 0 || old > b {
            true => b,
            false => old - 1,
        },
        AtomicOp::Halves(reduction, data) => {
            let (mut into, from) = (old.to_le_bytes(), b.to_le_bytes());
            if let Some(combine) = reduce::combine(reduction, data) {
                combine(&mut into, &from);
            }
            u64::from_le_bytes(into)
        }
    };
    result & mask
}
