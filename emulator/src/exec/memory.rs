//! Memory as a lane sees it.

use super::check::order::Accesses;
use super::cta::in_cluster;
use super::env::Env;
use super::warp::{Warp, lanes};
use crate::error::Reason;
use crate::memory::Place;
use crate::memory::view::View;
use crate::order::Order;
use crate::tensor::memory::Memory;

#[inline(always)]
pub(super) fn check_alignment(at: u64, bytes: usize, space: &str) -> Result<(), Reason> {
    if at.is_multiple_of(bytes as u64) { Ok(()) } else { Err(misaligned(at, bytes, space)) }
}

#[cold]
fn misaligned(at: u64, bytes: usize, space: &str) -> Reason {
    Reason::misaligned(format!("{bytes} bytes of {space} at {at:#x}: misaligned"))
}

#[cold]
fn foreign(at: u64, bytes: usize) -> Reason {
    Reason::address(format!("{bytes} bytes at {at:#x}: the local memory of another thread"))
}

#[inline(always)]
pub(super) fn read(
    warp: &Warp,
    env: &mut Env<'_>,
    place: Place,
    lane: usize,
    into: &mut [u8],
) -> Result<(), Reason> {
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
                let len = into.len();
                Reason::address(format!("{len} bytes of the parameters at {at}: there are {}", block.len()))
            })?;
            into.copy_from_slice(bytes);
            Ok(())
        }
        Place::Local(at) => {
            check_alignment(at.into(), into.len(), "local memory")?;
            into.copy_from_slice(&warp.local[warp.local_range(lane, at, into.len())?]);
            Ok(())
        }
        Place::Foreign(at) => Err(foreign(at, into.len())),
    }
}

#[inline(always)]
pub(super) fn write(
    warp: &mut Warp,
    env: &mut Env<'_>,
    place: Place,
    lane: usize,
    from: &[u8],
) -> Result<(), Reason> {
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
        Place::Parameters(at) => Err(Reason::address(format!("a store to the parameters, at {at}"))),
        Place::Local(at) => {
            check_alignment(at.into(), from.len(), "local memory")?;
            let range = warp.local_range(lane, at, from.len())?;
            warp.local[range].copy_from_slice(from);
            Ok(())
        }
        Place::Foreign(at) => Err(foreign(at, from.len())),
    }
}

/// Why an access of lanes is refused: above all because there is no memory where one of them goes.
#[cold]
pub(super) fn refuse(warp: &mut Warp, env: &mut Env<'_>, accesses: Accesses, what: Reason) -> Reason {
    let Accesses { window, at, mask, bytes, .. } = accesses;
    for lane in lanes(mask) {
        if let Err(what) = read(warp, env, warp.place(window, at, lane), lane, &mut [0; 16][..bytes]) {
            return warp.blame(lane, what);
        }
    }
    match env.order.as_ref().and_then(Order::culprit) {
        Some(lane) => warp.blame(lane, what),
        None => what,
    }
}

/// Changes 32 bits by `f`, as one operation, and gives what they were.
pub(super) fn update32(
    env: &mut Env<'_>,
    warp: &Warp,
    place: Place,
    f: impl Fn(u32) -> u32,
) -> Result<u32, Reason> {
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
        other => Err(Reason::misuse(format!("an atomic operation at {other:x?}"))),
    }
}

/// The same of so many bytes.
pub(super) fn update(
    env: &mut Env<'_>,
    warp: &Warp,
    place: Place,
    size: usize,
    f: impl Fn(u64) -> u64,
) -> Result<u64, Reason> {
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
        other => return Err(Reason::misuse(format!("an atomic operation at {other:x?}"))),
    }
    Ok(old)
}

impl Memory<u64> for View {
    type Fault = Reason;

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Reason> {
        self.read(at, into)
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), Reason> {
        self.write(at, from)
    }

    fn update(&mut self, at: u64, len: usize, change: &mut dyn FnMut(&mut [u8])) -> Result<(), Reason> {
        self.update(at, len, change)
    }
}
