//! Notices that a warp polls memory.
//!
//! A warp that finds by the same instruction what it found the last time, having changed nothing since, waits for others: its turn
//! ends, so that those run.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::env::lane_address;
use super::warp::{Warp, lanes};
use crate::program::{D, Destination, Op, R};

/// The last look of a warp at memory that others write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Poll {
    /// The instruction.
    pub(super) pc: u32,
    /// What the cluster had done until then.
    pub(super) events: u64,
    /// Where it looked and what it saw.
    found: u64,
}

impl Poll {
    /// An attempt of the instruction that failed.
    pub(super) fn failed(pc: u32, events: u64) -> Self {
        Self { pc, events, found: 0 }
    }
}

/// Takes note of what lanes have just found in memory; whether the warp's last look was the same.
pub(super) fn again(warp: &mut Warp, op: &Op, pc: u32, events: u64, mask: u32) -> bool {
    let (to, at) = match op {
        Op::Load { to, at, .. } => (&**to, *at),
        Op::Atomic { d, at, .. } => (std::slice::from_ref(d), *at),
        _ => return false,
    };
    let mut found = DefaultHasher::new();
    for lane in lanes(mask) {
        lane_address(warp, at, lane).hash(&mut found);
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
