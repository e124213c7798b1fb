//! Arguments and results of calls: registers, or places in a lane's frame of local memory.

use crate::exec::warp::Warp;
use crate::program::Program;
use crate::program::operand::Slot;
use crate::program::register::{L32, LANES, R};

/// Where the frames of the lanes begin.
pub(super) fn frames(warp: &Warp, program: &Program) -> L32 {
    program.frame.map_or([0; LANES], |frame| *warp.r(frame))
}

/// Moves the frames of some lanes.
pub(super) fn set_frames(warp: &mut Warp, program: &Program, mask: u32, frames: &L32) {
    if let Some(frame) = program.frame {
        warp.put_r(frame, mask, frames);
    }
}

/// An argument or a result of one lane.
pub(super) enum Value {
    Bytes(Vec<u8>),
    Number(u64),
}

pub(super) fn read(warp: &Warp, slot: Slot, frames: &L32, lane: usize) -> Value {
    match slot {
        Slot::Memory { at, bytes } => {
            let start = start(warp, frames, at, lane);
            Value::Bytes(warp.local[start..start + bytes as usize].to_vec())
        }
        Slot::R(register) => Value::Number(warp.r(register)[lane].into()),
        Slot::D(register) => Value::Number(warp.d(register)[lane]),
    }
}

pub(super) fn write(warp: &mut Warp, slot: Slot, frames: &L32, lane: usize, value: &Value) {
    let number = value.number();
    match slot {
        Slot::Memory { at, bytes } => {
            let start = start(warp, frames, at, lane);
            let into = &mut warp.local[start..start + bytes as usize];
            match value {
                Value::Bytes(from) => into.copy_from_slice(from),
                Value::Number(number) => into.copy_from_slice(&number.to_le_bytes()[..into.len()]),
            }
        }
        Slot::R(R(register)) => warp.r[register as usize][lane] = number as u32,
        Slot::D(register) => warp.d[register.0 as usize][lane] = number,
    }
}

impl Value {
    /// As a number, of the first 8 bytes.
    pub(super) fn number(&self) -> u64 {
        match self {
            Value::Number(number) => *number,
            Value::Bytes(bytes) => {
                let mut all = [0; 8];
                let count = bytes.len().min(8);
                all[..count].copy_from_slice(&bytes[..count]);
                u64::from_le_bytes(all)
            }
        }
    }
}

/// Where a place in a lane's frame is in the warp's local memory.
fn start(warp: &Warp, frames: &L32, at: u32, lane: usize) -> usize {
    lane * (warp.local.len() / LANES) + (frames[lane] + at) as usize
}
