//! What the lanes of a warp do together.

use super::atomic::combine;
use crate::exec::env::Env;
use crate::exec::result::{Active, Next};
use crate::exec::warp::{Warp, lanes};
use crate::program::op::Op;
use crate::program::operand::{Shuffle, Vote};
use crate::program::register::LANES;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, active: Active) -> Result<Next, String> {
    let mask = active.mask;
    if let Op::ActiveMask(d) = *op {
        warp.put_r(d, mask, &[mask; LANES]);
        return Ok(Next::Advance);
    }
    let members = match *op {
        Op::Shuffle { members, .. }
        | Op::Vote { members, .. }
        | Op::Ballot { members, .. }
        | Op::Match { members, .. }
        | Op::Reduce { members, .. }
        | Op::Elect { members, .. }
        | Op::SyncWarp { members } => members,
        _ => unreachable!("not of all lanes together"),
    };
    if mask == 0 {
        return Ok(Next::Advance);
    }
    // Lanes may name different members: each set waits for its own.
    let named = *warp.r(members);
    for lane in lanes(mask) {
        if named[lane] >> lane & 1 == 0 {
            return Err(format!("lane {lane} is none of the lanes {:#010x} that it names", named[lane]));
        }
        if let Some(wait) = active.together(warp, named[lane]) {
            return Ok(wait);
        }
    }
    match *op {
        Op::Shuffle { kind, d, valid, a, b, c, .. } => {
            let (a, b, c) = (*warp.r(a), warp.r(b), warp.r(c));
            let (mut value, mut inside) = (a, 0);
            for lane in 0..LANES {
                let (by, clamp, segment) = (b[lane] & 31, c[lane] & 31, c[lane] >> 8 & 31);
                let own = lane as u32;
                let last = own & segment | clamp & !segment;
                let first = own & segment;
                let (from, ok) = match kind {
                    Shuffle::Up => (own.wrapping_sub(by), own.wrapping_sub(by) as i32 >= last as i32),
                    Shuffle::Down => (own + by, own + by <= last),
                    Shuffle::Butterfly => (own ^ by, own ^ by <= last),
                    Shuffle::Index => (first | by & !segment, first | by & !segment <= last),
                };
                value[lane] = a[if ok { from as usize % LANES } else { lane }];
                inside |= u32::from(ok) << lane;
            }
            warp.put_r(d, mask, &value);
            if let Some(valid) = valid {
                warp.put_p(valid, mask, inside);
            }
        }
        Op::Vote { kind, d, a, .. } => {
            let holds = warp.condition(a) & mask;
            let mut value = 0;
            for lane in lanes(mask) {
                let (here, holds) = (named[lane] & mask, holds & named[lane]);
                let result = match kind {
                    Vote::Any => holds != 0,
                    Vote::All => holds == here,
                    Vote::Uniform => holds == 0 || holds == here,
                };
                value |= u32::from(result) << lane;
            }
            warp.put_p(d, mask, value);
        }
        Op::Ballot { d, a, .. } => {
            let holds = warp.condition(a) & mask;
            warp.put_r(d, mask, &named.map(|named| holds & named));
        }
        Op::Match { d, all, agree, a, .. } => {
            let a: [u64; LANES] = std::array::from_fn(|lane| warp.source(a, lane));
            let same = |lane: usize| lanes(mask & named[lane]).filter(move |&other| a[other] == a[lane]);
            let same: [u32; LANES] =
                std::array::from_fn(|lane| same(lane).fold(0, |all, other| all | 1 << other));
            let agreed = |lane: usize| same[lane] == mask & named[lane];
            let value = std::array::from_fn(|lane| if !all || agreed(lane) { same[lane] } else { 0 });
            warp.put_r(d, mask, &value);
            if let Some(agree) = agree {
                let agreed = lanes(mask).filter(|&lane| agreed(lane)).fold(0, |all, lane| all | 1 << lane);
                warp.put_p(agree, mask, agreed);
            }
        }
        Op::Reduce { op, d, a, .. } => {
            let a = *warp.r(a);
            let total = |lane: usize| {
                let values = lanes(mask & named[lane]).map(|other| a[other]);
                values
                    .reduce(|all, value| combine(op, 4, [all.into(), value.into(), 0], false) as u32)
                    .unwrap_or(0)
            };
            let value = std::array::from_fn(total);
            warp.put_r(d, mask, &value);
        }
        Op::Elect { d, p, .. } => {
            // The manual leaves open which lane it is: the first one.
            let first = named.map(|named| (named & mask).trailing_zeros());
            let elected =
                lanes(mask).filter(|&lane| first[lane] == lane as u32).fold(0, |all, lane| all | 1 << lane);
            warp.put_p(p, mask, elected);
            if let Some(d) = d {
                warp.put_r(d, mask, &first);
            }
        }
        _ => {
            if let Some(order) = &mut env.order {
                order.tick();
            }
        }
    }
    Ok(Next::Advance)
}
