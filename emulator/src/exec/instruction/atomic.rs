//! Atomic operations.
//!
//! PTX ISA, "atom": on global memory, sums of f32 flush subnormal numbers, on shared memory they do not. NaNs, of which the
//! manual says nothing, are as an H200 has them.

use super::access::unwritten;
use crate::decode::float::add64;
use crate::error::Reason;
use crate::exec::check::order::{self, Accesses};
use crate::exec::env::Env;
use crate::exec::joint::Joint;
use crate::exec::memory::{refuse, update, update32};
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::order::Order;
use crate::program::op::Op;
use crate::program::operand::AtomicOp;
use crate::tensor::approx::canonical;
use crate::tensor::reduce::{self, add_f32, add_f64};

pub(super) fn step(
    warp: &mut Warp,
    env: &mut Env<'_>,
    op: &Op,
    mask: u32,
    joint: Option<&Joint>,
) -> Result<(), Reason> {
    let Op::Atomic { op, window, bytes, d, at, b, c, ordering, returns } = *op else {
        unreachable!("no atomic operation")
    };
    let size = bytes as usize;
    let accesses = Accesses {
        window,
        at,
        mask,
        bytes: size,
        reads: returns,
        takes: true,
        writes: true,
        ordering: Some(ordering),
        read_only: false,
    };
    order::tell(warp, env, accesses, joint, |_| [0; 16]).map_err(|what| refuse(warp, env, accesses, what))?;
    let holes = env.order.as_mut().map(Order::take_holes).unwrap_or_default();
    if let Some(hole) = holes.first()
        && op != AtomicOp::Exchange
    {
        let what = format!(
            "an atomic operation on {bytes} bytes of shared memory at {:#x}, of which nobody has written all",
            hole.at
        );
        warp.early = true;
        return Err(warp.blame(hole.lane, Reason::uninitialized(what)));
    }
    for lane in lanes(mask) {
        let place = warp.place(window, at, lane);
        let (b, c) = (warp.source(b, lane), c.map_or(0, |c| warp.source(c, lane)));
        let global = matches!(place, Place::Global(_));
        let combine = |old| combine(op, bytes, [old, b, c], global);
        let old = match bytes {
            4 => update32(env, warp, place, |old| combine(old.into()) as u32).map(u64::from),
            _ => update(env, warp, place, size, combine),
        };
        let old = old.map_err(|what| warp.blame(lane, what))?;
        let new = combine(old);
        // One that changes nothing is how a lock is polled.
        env.events += u64::from(old != new);
        warp.put(d, lane, &old.to_le_bytes()[..bytes as usize], false);
    }
    if !holes.is_empty() {
        unwritten(warp, env, &holes, &[d], bytes);
    }
    Ok(())
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

/// Sum of two f32.
fn sum32(old: u32, b: u32, global: bool) -> u32 {
    let (old, b) = (f32::from_bits(old), f32::from_bits(b));
    if global { add_f32(old, b) } else { canonical(old + b) }.to_bits()
}

/// Sum of two f64.
fn sum64(old: u64, b: u64, global: bool) -> u64 {
    let (old, b) = (f64::from_bits(old), f64::from_bits(b));
    if global { add_f64(old, b) } else { add64(b, old) }.to_bits()
}
