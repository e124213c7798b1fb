//! Instructions that lanes execute together which a mask names.
//!
//! PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync", "bar.warp.sync": a lane waits until all lanes
//! of its mask that have not ended execute such an instruction with the same qualifiers and the same mask, wherever they
//! stand in the program.

use super::exchange::{Part, exchange};
use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::result::{Active, Next};
use crate::exec::warp::group::{Group, Wait};
use crate::exec::warp::{Warp, lanes};
use crate::program::op::Op;
use crate::program::register::{L32, LANES};

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, active: Active) -> Result<Next, Reason> {
    let Active { mask, pc, .. } = active;
    let Some(members) = op.members() else {
        if let Op::ActiveMask(d) = *op {
            warp.put_r(d, mask, &[mask; LANES]);
        }
        return Ok(Next::Advance);
    };
    if mask == 0 {
        return Ok(Next::Advance);
    }
    let named = *warp.r(members);
    let (first, live) = (named[mask.trailing_zeros() as usize % LANES], warp.live());
    let differs = |lane: usize| if mask >> lane & 1 != 0 { named[lane] ^ first } else { 0 };
    if first & live == mask && (0..LANES).fold(0, |all, lane| all | differs(lane)) == 0 {
        exchange(warp, env, &[Part { pc, lanes: mask }]);
        return Ok(Next::Advance);
    }
    if let Some(lane) = lanes(mask).find(|&lane| named[lane] >> lane & 1 == 0) {
        let what = format!("lane {lane} is none of the lanes {:#010x} that it names", named[lane]);
        return Err(warp.blame(lane, Reason::misuse(what)));
    }
    // Lanes may name different ones: each set waits for its own.
    let (mut left, mut done) = (mask, 0);
    while left != 0 {
        let members = named[left.trailing_zeros() as usize % LANES];
        let own = naming(&named, members, left);
        left &= !own;
        let others = waiting(warp, env, op, members, mask);
        let there = others.iter().fold(own, |all, part| all | part.lanes);
        if members & live & !there != 0 {
            continue;
        }
        done |= own;
        let parts: Vec<_> = std::iter::once(Part { pc, lanes: own }).chain(others).collect();
        exchange(warp, env, &parts);
        parts[1..].iter().for_each(|part| go_on(warp, env, part));
    }
    Ok(if done == mask { Next::Advance } else { Next::Part(done) })
}

/// Those of some lanes that name these members.
fn naming(named: &L32, members: u32, of: u32) -> u32 {
    lanes(of).filter(|&lane| named[lane] == members).fold(0, |all, lane| all | 1 << lane)
}

/// The lanes at other instructions that wait there for the same members; `here` are those at this one.
fn waiting(warp: &Warp, env: &Env<'_>, op: &Op, members: u32, here: u32) -> Vec<Part> {
    let others = warp.groups.iter().filter(|group| group.wait == Wait::Lanes && group.mask & here == 0);
    let parts = others.filter_map(|group| {
        let other = &env.launch.program.code[group.pc as usize].op;
        let named = warp.r(other.members().filter(|_| op.meets(other))?);
        Some(Part { pc: group.pc, lanes: naming(named, members, group.mask) })
    });
    parts.filter(|part| part.lanes != 0).collect()
}

/// Lanes that waited have executed the instruction.
fn go_on(warp: &mut Warp, env: &Env<'_>, &Part { pc, lanes }: &Part) {
    let next = Group { pc: pc + 1, mask: lanes, wait: Wait::No };
    match warp.groups.iter_mut().find(|group| group.mask & lanes != 0) {
        Some(group) if group.mask == lanes => *group = next,
        Some(group) => {
            group.mask &= !lanes;
            warp.groups.push(next);
        }
        None => {}
    }
    warp.retire(env.launch.program.code[pc as usize].class, lanes);
}
