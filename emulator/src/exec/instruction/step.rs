//! One instruction of one group of lanes.

use super::{access, branch, family, print};
use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::observe::Observer;
use crate::exec::result::{Active, Next};
use crate::exec::warp::{Warp, lanes};
use crate::memory::{self, RANK_SHIFT};
use crate::program::op::Op;
use crate::program::operand::{EachOp, Outcome, PredicateOp};
use crate::program::register::{L32, L64, LANES, P, lanes_of};
use tilewright_ptx::ast::Space;

/// Writes what a function gives of registers of another file.
macro_rules! across {
    ($warp:ident, $mask:ident, $put:ident, $file:ident[$d:expr], $f:expr, $($x:expr),+) => {
        if $mask == u32::MAX {
            $f($(&$x,)+ &mut $warp.$file[$d.0 as usize]);
        } else {
            let mut value = [0; LANES];
            $f($(&$x,)+ &mut value);
            $warp.$put($d, $mask, &value);
        }
    };
}

/// Writes what a function gives of registers of which some, named as such, are of the same file; in place where they are others.
macro_rules! within {
    ($warp:ident, $mask:ident, $put:ident, $file:ident[$d:expr], $f:expr, [$($own:ident),+] $(, $x:ident)*) => {
        match apart(&mut $warp.$file, $d.0, [$($own.0),+]) {
            Some((to, [$($own),+])) if $mask == u32::MAX => $f($($own,)+ $($x,)* to),
            _ => {
                let mut value = [0; LANES];
                $f($(&$warp.$file[$own.0 as usize],)+ $($x,)* &mut value);
                $warp.$put($d, $mask, &value);
            }
        }
    };
}

/// A register to write, and others of its file, if it is none of these.
#[inline(always)]
fn apart<T, const N: usize>(file: &mut [T], d: u32, others: [u32; N]) -> Option<(&mut T, [&T; N])> {
    if others.contains(&d) {
        return None;
    }
    let (below, rest) = file.split_at_mut_checked(d as usize)?;
    let (to, above) = rest.split_first_mut()?;
    let other = |i: u32| if i < d { &below[i as usize] } else { &above[(i - d - 1) as usize] };
    // A loop: `map` is a call.
    let mut all = [other(*others.first()?); N];
    for (one, i) in all.iter_mut().zip(others) {
        *one = other(i);
    }
    Some((to, all))
}

#[inline(always)]
pub(crate) fn step(
    warp: &mut Warp,
    env: &mut Env<'_>,
    observer: &mut Option<Observer>,
    op: &Op,
    active: Active,
) -> Result<Next, Reason> {
    let mask = active.mask;
    match *op {
        Op::Move32(d, a) => {
            let value = *warp.r(a);
            warp.put_r(d, mask, &value);
        }
        Op::Move64(d, a) => {
            let value = *warp.d(a);
            warp.put_d(d, mask, &value);
        }
        Op::MovePredicate(d, a) => {
            let value = warp.condition(a);
            warp.put_p(d, mask, value);
        }
        Op::SetPredicate(d, value) => warp.put_p(d, mask, if value { u32::MAX } else { 0 }),
        Op::F1_32(f, d, a) => within!(warp, mask, put_r, r[d], f, [a]),
        Op::F1_64(f, d, a) => within!(warp, mask, put_d, d[d], f, [a]),
        Op::F1_32to64(f, d, a) => across!(warp, mask, put_d, d[d], f, warp.r[a.0 as usize]),
        Op::F1_64to32(f, d, a) => across!(warp, mask, put_r, r[d], f, warp.d[a.0 as usize]),
        Op::F2_32(f, d, a, b) => within!(warp, mask, put_r, r[d], f, [a, b]),
        Op::F2_64(f, d, a, b) => within!(warp, mask, put_d, d[d], f, [a, b]),
        Op::F2Wide(f, d, a, b) => {
            across!(warp, mask, put_d, d[d], f, warp.r[a.0 as usize], warp.r[b.0 as usize]);
        }
        Op::Shift64(f, d, a, b) => {
            let b = &warp.r[b.0 as usize];
            within!(warp, mask, put_d, d[d], f, [a], b);
        }
        Op::F3_32(f, d, [a, b, c]) => within!(warp, mask, put_r, r[d], f, [a, b, c]),
        Op::F3_64(f, d, [a, b, c]) => within!(warp, mask, put_d, d[d], f, [a, b, c]),
        Op::F3Wide(f, d, a, b, c) => {
            let (a, b) = (&warp.r[a.0 as usize], &warp.r[b.0 as usize]);
            let f = |c: &_, to: &mut _| f(a, b, c, to);
            within!(warp, mask, put_d, d[d], f, [c]);
        }
        Op::BitField64(f, d, a, b, c) => {
            let (b, c) = (&warp.r[b.0 as usize], &warp.r[c.0 as usize]);
            within!(warp, mask, put_d, d[d], f, [a], b, c);
        }
        Op::Insert32([d, a, b, c, e]) => {
            let (a, b, c, e) = (warp.r(a), warp.r(b), warp.r(c), warp.r(e));
            let value = lanes_of(|i| crate::decode::logic::insert(a[i], b[i], c[i], e[i]));
            warp.put_r(d, mask, &value);
        }
        Op::Lop3 { table, d, sources } => {
            let [a, b, c] = sources;
            let value = lop3([warp.r(a), warp.r(b), warp.r(c)], table);
            warp.put_r(d, mask, &value);
        }
        Op::Permute { d, sources } => {
            let [a, b, c] = sources;
            let (a, b, c) = (warp.r(a), warp.r(b), warp.r(c));
            let value = lanes_of(|i| crate::decode::logic::permute(a[i], b[i], c[i]));
            warp.put_r(d, mask, &value);
        }
        Op::Select32(d, a, b, condition) => {
            let (chosen, a, b) = (warp.condition(condition), warp.r(a), warp.r(b));
            let value = lanes_of(|i| if chosen >> i & 1 != 0 { a[i] } else { b[i] });
            warp.put_r(d, mask, &value);
        }
        Op::Select64(d, a, b, condition) => {
            let (chosen, a, b) = (warp.condition(condition), warp.d(a), warp.d(b));
            let value = lanes_of(|i| if chosen >> i & 1 != 0 { a[i] } else { b[i] });
            warp.put_d(d, mask, &value);
        }
        Op::Compare32(f, a, b, outcome) => {
            let holds = f(warp.r(a), warp.r(b));
            put_outcome(warp, mask, outcome, holds);
        }
        Op::Compare64(f, a, b, outcome) => {
            let holds = f(warp.d(a), warp.d(b));
            put_outcome(warp, mask, outcome, holds);
        }
        Op::Predicates(op, d, a, b) => {
            let value = combine(op, warp.condition(a), warp.condition(b));
            warp.put_p(d, mask, value);
        }
        Op::Join64(d, low, high) => {
            let (low, high) = (warp.r(low), warp.r(high));
            let value = lanes_of(|i| u64::from(high[i]) << 32 | u64::from(low[i]));
            warp.put_d(d, mask, &value);
        }
        Op::Split64(low, high, a) => {
            let a = *warp.d(a);
            warp.put_r(low, mask, &lanes_of(|i| a[i] as u32));
            warp.put_r(high, mask, &lanes_of(|i| (a[i] >> 32) as u32));
        }
        Op::Join32(d, low, high) => {
            let (low, high) = (warp.r(low), warp.r(high));
            let value = lanes_of(|i| high[i] << 16 | low[i] & 0xffff);
            warp.put_r(d, mask, &value);
        }
        Op::Split32(low, high, a) => {
            let a = *warp.r(a);
            warp.put_r(low, mask, &lanes_of(|i| a[i] & 0xffff));
            warp.put_r(high, mask, &lanes_of(|i| a[i] >> 16));
        }
        Op::Join16x4(d, parts) => {
            let parts = parts.map(|part| *warp.r(part));
            let value =
                lanes_of(|i| (0..4).fold(0, |all, j| all | u64::from(parts[j][i] & 0xffff) << (16 * j)));
            warp.put_d(d, mask, &value);
        }
        Op::Split16x4(parts, a) => {
            let a = *warp.d(a);
            for (j, part) in parts.into_iter().enumerate() {
                warp.put_r(part, mask, &lanes_of(|i| (a[i] >> (16 * j)) as u32 & 0xffff));
            }
        }
        Op::Clock32(d) => warp.put_r(d, mask, &[warp.retired as u32; LANES]),
        Op::Clock64(d) => warp.put_d(d, mask, &[warp.retired; LANES]),
        Op::Branch { target } => return Ok(Next::Jump(target)),
        Op::BranchIndexed { .. } | Op::Call(_) | Op::Return => return branch::step(warp, env, op, mask),
        Op::Exit => return Ok(Next::Exit),
        Op::Trap if mask != 0 => return Err(print::trap(warp)),
        Op::Trap => {}
        Op::Nop => {}
        Op::Sleep if mask != 0 => return Ok(Next::Yield),
        Op::Sleep => {}
        Op::ToGeneric { space, d, a } => {
            let (a, base) = (warp.d(a), bases(warp, space));
            // Of its own shared memory: for the other CTAs of the cluster too.
            let own = match space {
                Space::Shared if env.ctas.len() > 1 => (warp.cta as u64 + 1) << RANK_SHIFT,
                _ => 0,
            };
            let named = |at: u64| if at as u32 >> RANK_SHIFT == 0 { at.wrapping_add(own) } else { at };
            let value = lanes_of(|lane| named(a[lane]).wrapping_add(base[lane]));
            warp.put_d(d, mask, &value);
        }
        Op::FromGeneric { space, d, a } => {
            let (a, base) = (warp.d(a), bases(warp, space));
            let value = lanes_of(|lane| a[lane].wrapping_sub(base[lane]));
            warp.put_d(d, mask, &value);
        }
        Op::Each(ref op) => each(warp, op, mask),
        Op::Load { .. } | Op::Store { .. } => access::step(warp, env, observer, op, active)?,
        ref op => return family::step(warp, env, observer, op, active),
    }
    Ok(Next::Advance)
}

/// A function of each lane.
#[inline(never)]
fn each(warp: &mut Warp, op: &EachOp, mask: u32) {
    let taken = op.take.map_or(0, |P(take)| warp.p[take as usize]);
    let mut left = 0;
    for lane in lanes(mask) {
        let mut operands = [0; 4];
        for (operand, &from) in operands.iter_mut().zip(&op.from) {
            *operand = warp.source(from, lane);
        }
        let (value, flag) = (op.f)(operands, taken >> lane & 1 != 0);
        warp.put(op.d, lane, &value.to_le_bytes(), false);
        left |= u32::from(flag) << lane;
    }
    if let Some(leave) = op.leave {
        warp.put_p(leave, mask, left);
    }
}

/// Where each lane's window of a space begins among generic addresses.
#[inline]
fn bases(warp: &Warp, space: Space) -> L64 {
    match space {
        Space::Global | Space::Const => [0; LANES],
        Space::Shared => [memory::SHARED; LANES],
        Space::Param => [memory::PARAMETERS; LANES],
        Space::Local => lanes_of(|lane| warp.local_window(lane)),
    }
}

fn put_outcome(warp: &mut Warp, mask: u32, Outcome { p, q, combine: with }: Outcome, holds: u32) {
    let (yes, no) = match with {
        None => (holds, !holds),
        Some((op, condition)) => {
            let other = warp.condition(condition);
            (combine(op, holds, other), combine(op, !holds, other))
        }
    };
    warp.put_p(p, mask, yes);
    if let Some(q) = q {
        warp.put_p(q, mask, no);
    }
}

fn combine(op: PredicateOp, a: u32, b: u32) -> u32 {
    match op {
        PredicateOp::And => a & b,
        PredicateOp::Or => a | b,
        PredicateOp::Xor => a ^ b,
    }
}

fn lop3([a, b, c]: [&L32; 3], table: u8) -> L32 {
    let mut all = [0; LANES];
    for i in (0..8).filter(|i| table >> i & 1 != 0) {
        let [a_flips, b_flips, c_flips] = [2, 1, 0].map(|bit| if i >> bit & 1 != 0 { 0 } else { u32::MAX });
        for lane in 0..LANES {
            all[lane] |= (a[lane] ^ a_flips) & (b[lane] ^ b_flips) & (c[lane] ^ c_flips);
        }
    }
    all
}
