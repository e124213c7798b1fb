//! `atom.exch.b128` and `atom.cas.b128`.

use super::access::unwritten;
use crate::error::Reason;
use crate::exec::check::order::{self, Accesses};
use crate::exec::env::Env;
use crate::exec::memory::{read, refuse, write};
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::order::Order;
use crate::program::op::Op;
use crate::program::operand::Destination;

/// Bytes of the value.
const SIZE: usize = 16;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Result<(), Reason> {
    let Op::Atomic128 { window, at, d, b, c, ordering } = *op else { unreachable!("no atomic operation") };
    let accesses = Accesses {
        window,
        at,
        mask,
        bytes: SIZE,
        reads: true,
        takes: true,
        writes: true,
        ordering: Some(ordering),
        read_only: false,
    };
    order::tell(warp, env, accesses, None, |_| [0; SIZE])
        .map_err(|what| refuse(warp, env, accesses, what))?;
    let holes = env.order.as_mut().map(Order::take_holes).unwrap_or_default();
    if let (Some(hole), Some(_)) = (holes.first(), c) {
        let what = format!(
            "an atomic operation on {SIZE} bytes of shared memory at {:#x}, of which nobody has written all",
            hole.at
        );
        warp.early = true;
        return Err(warp.blame(hole.lane, Reason::uninitialized(what)));
    }
    for lane in lanes(mask) {
        let value = |warp: &Warp, [low, high]: [_; 2]| {
            u128::from(warp.d(high)[lane]) << 64 | u128::from(warp.d(low)[lane])
        };
        let (b, c) = (value(warp, b), c.map(|c| value(warp, c)));
        let place = warp.place(window, at, lane);
        let old = exchange(warp, env, (place, lane), b, c).map_err(|what| warp.blame(lane, what))?;
        for (half, d) in d.into_iter().flatten().enumerate() {
            warp.put(Destination::D(d), lane, &((old >> (64 * half)) as u64).to_le_bytes(), false);
        }
    }
    if !holes.is_empty() {
        unwritten(warp, env, &holes, &d.map_or([Destination::Sink; 2], |d| d.map(Destination::D)), 8);
    }
    Ok(())
}

/// Stores one value or, with two, the second where the first is there; gives what was there.
fn exchange(
    warp: &mut Warp,
    env: &mut Env<'_>,
    (place, lane): (Place, usize),
    b: u128,
    c: Option<u128>,
) -> Result<u128, Reason> {
    if !matches!(place, Place::Global(_) | Place::Shared(_)) {
        return Err(Reason::misuse(format!("an atomic operation at {place:x?}")));
    }
    let mut old = [0; SIZE];
    // Kernels whose clusters reach each other by atomic operations run them in turns: nobody comes between.
    read(warp, env, place, lane, &mut old)?;
    let old = u128::from_le_bytes(old);
    let new = match c {
        Some(c) if old == b => c,
        Some(_) => old,
        None => b,
    };
    if new != old {
        write(warp, env, place, lane, &new.to_le_bytes())?;
    }
    Ok(old)
}
