//! Loads, stores and atomics.

use super::transfer;
use crate::error::Reason;
use crate::exec::check::order::{self, Accesses};
use crate::exec::env::Env;
use crate::exec::joint::{Joint, Shape};
use crate::exec::memory::{read, refuse, write};
use crate::exec::observe::Observer;
use crate::exec::result::Active;
use crate::exec::warp::watched::{Cause, Origin};
use crate::exec::warp::{Warp, lanes};
use crate::memory::{IN_CTA, RANK_SHIFT, SHARED};
use crate::order::Order;
use crate::order::lanes::Hole;
use crate::program::op::Op;
use crate::program::operand::{Address, Base, Destination, Window};
use crate::program::register::{LANES, Register};
use crate::wide::twice;
use tilewright_ptx::ast::Space;

twice! {
    /// A load or a store, looked at by who counts.
    pub(super) fn step(
        warp: &mut Warp,
        env: &mut Env<'_>,
        observer: &mut Option<Observer>,
        op: &Op,
        active: Active,
    ) -> Result<(), Reason> {
        let mask = active.mask;
        if let Op::Load { window: Window::In(Space::Param), at: Address { base: Base::None, offset }, .. } = *op
            && let Op::Load { bytes, signed, ref to, .. } = *op
            && transfer::parameters(warp, env.launch.parameters, mask, offset, to, bytes, signed)
        {
            return Ok(());
        }
        let joint = Joint::of(warp, env.ctas.len(), op, mask);
        let joint = joint.as_ref();
        if let Some(observer) = observer {
            observer.before(warp, env, op, active, joint);
        }
        if let Some(order) = &mut env.order {
            order.issue(warp.cta, warp.index, active.pc);
        }
        match *op {
            Op::Load { window, bytes, signed, ref to, at, ordering, read_only } => {
                let total = bytes as usize * to.len();
                // First: the address may be in a register that is loaded.
                let accesses = Accesses {
                    window,
                    at,
                    mask,
                    bytes: total,
                    reads: true,
                    takes: true,
                    writes: false,
                    ordering,
                    read_only,
                };
                order::tell(warp, env, accesses, joint, |_| [0; 16])
                    .map_err(|what| refuse(warp, env, accesses, what))?;
                let holes = env.order.as_mut().map(Order::take_holes).unwrap_or_default();
                if !joint.is_some_and(|joint| transfer::load(warp, env, joint, to, bytes, signed)) {
                    for lane in lanes(mask) {
                        let mut value = [0; 16];
                        read(warp, env, warp.place(window, at, lane), lane, &mut value[..total])
                            .map_err(|what| warp.blame(lane, what))?;
                        for (i, &to) in to.iter().enumerate() {
                            let element = &value[i * bytes as usize..][..bytes as usize];
                            warp.put(to, lane, element, signed);
                        }
                    }
                }
                if !holes.is_empty() {
                    unwritten(warp, env, &holes, to, bytes);
                }
            }
            Op::Store { window, bytes, ref from, at, ordering } => {
                let bytes = bytes as usize;
                let total = bytes * from.len();
                // Lanes that store the same to one place are as one.
                let may = env.order.is_some() && ordering.is_none();
                let same = joint.filter(|joint| may && matches!(joint.shape, Shape::Same));
                let one = same.is_some() && from.iter().all(|&from| warp.is_same(from, mask));
                let accesses = Accesses {
                    window,
                    at,
                    mask: if one { mask & mask.wrapping_neg() } else { mask },
                    bytes: total,
                    reads: false,
                    takes: false,
                    writes: true,
                    ordering,
                    read_only: false,
                };
                order::tell(warp, env, accesses, joint.filter(|_| !one), |lane| warp.gather(from, bytes, lane))
                    .map_err(|what| refuse(warp, env, accesses, what))?;
                let contested = env.order.as_mut().is_some_and(Order::take_contested);
                env.contested_stores += u64::from(contested);
                // Which lane's value stays is for the schedule to say.
                let first = if contested {
                    env.launch.schedule.lane(&[env.cluster, warp.number.into(), warp.retired])
                } else {
                    0
                };
                let joint = joint.filter(|_| first == 0);
                if !joint.is_some_and(|joint| transfer::store(warp, env, joint, from, bytes as u32)) {
                    let later = mask & ((1 << first) - 1);
                    for lane in lanes(mask & !later).chain(lanes(later)) {
                        let value = warp.gather(from, bytes, lane);
                        write(warp, env, warp.place(window, at, lane), lane, &value[..total])
                            .map_err(|what| warp.blame(lane, what))?;
                    }
                }
            }
            _ => unreachable!("no access to memory"),
        }
        Ok(())
    }
}

/// `mapa`: an address in the shared memory of another CTA of the cluster.
pub(super) fn mapa(warp: &mut Warp, env: &Env<'_>, op: &Op, mask: u32) -> Result<(), Reason> {
    let Op::Mapa { d, a, rank, generic } = *op else { unreachable!("no mapa") };
    let size = env.ctas.len();
    let mut value = [0u64; LANES];
    for lane in lanes(mask) {
        let base = if generic { SHARED } else { 0 };
        let address = warp.source(a, lane).wrapping_sub(base) as u32;
        let rank = warp.r(rank)[lane];
        if rank as usize >= size {
            let what = Reason::address(format!("mapa to CTA {rank} of a cluster of {size}"));
            return Err(warp.blame(lane, what));
        }
        value[lane] = base + u64::from((rank + 1) << RANK_SHIFT | address & IN_CTA);
    }
    match d {
        Destination::R(d, _) => warp.put_r(d, mask, &value.map(|value| value as u32)),
        Destination::D(d) => warp.put_d(d, mask, &value),
        Destination::Sink => {}
    }
    Ok(())
}

/// Registers get what nobody wrote: no value.
#[cold]
pub(super) fn unwritten(warp: &mut Warp, env: &Env<'_>, holes: &[Hole], to: &[Destination], bytes: u32) {
    let total = bytes * to.len() as u32;
    let (program, pc) = (env.launch.program, env.order.as_ref().map_or(0, Order::pc));
    // The first one is the one that is told.
    for hole in holes.iter().rev() {
        let lane = 1 << hole.lane;
        for (i, to) in to.iter().enumerate() {
            let register = match *to {
                Destination::R(register, _) => Register::R(register),
                Destination::D(register) => Register::D(register),
                Destination::Sink => continue,
            };
            let element = ((1u32 << bytes) - 1) << (i as u32 * bytes);
            let without = u32::from(hole.bytes) & element;
            let origin = Some(Origin { pc, cause: Cause::Shared { at: hole.at, bytes: total } });
            if without == element {
                warp.define(program, register, lane, lane, origin);
            } else if without != 0 {
                warp.define_partly(program, register, lane, origin);
            }
        }
    }
}
