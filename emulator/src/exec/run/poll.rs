//! Notices that a warp polls memory.
//!
//! A warp that finds by the same instruction what it found the last time, having changed nothing since, waits for others: its turn
//! ends, so that those run.

use crate::exec::warp::poll::Poll;
use crate::exec::warp::{Warp, lanes};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::program::op::Op;
use crate::program::operand::Destination;
use crate::program::register::{D, R};

/// Takes note of what lanes have just found in memory; whether the warp's last look was the same.
pub(super) fn again(warp: &mut Warp, op: &Op, pc: u32, events: u64, mask: u32) -> bool {
    let (to, at) = match op {
        Op::Load { to, at, .. } => (&**to, *at),
        Op::Atomic { d, at, .. } => (std::slice::from_ref(d), *at),
        _ => return false,
    };
    let mut found = DefaultHasher::new();
    for lane in lanes(mask) {
        warp.address(at, lane).hash(&mut found);
        for to in to {
            match *to {
                Destination::R(R(register), _) => warp.r[register as usize][lane].hash(&mut found),
                Destination::D(D(register)) => warp.d[register as usize][lane].hash(&mut found),
                Destination::Sink => {}
            }
        }
    }
    let now = Some(Poll { pc, events, found: found.finish() });
    let same = warp.poll == now;
    warp.poll = now;
    same
}
