//! What lanes give each other, once all that take part are there.

use super::atomic::combine;
use crate::exec::check::undefined::origin_of;
use crate::exec::env::Env;
use crate::exec::warp::watched::{Cause, Origin};
use crate::exec::warp::{Warp, lanes};
use crate::program::Program;
use crate::program::op::Op;
use crate::program::operand::{Shuffle, Vote};
use crate::program::register::{L32, LANES, Register, lanes_of};
use crate::wide::twice;

/// Lanes that take part, and the instruction that they are at.
pub(super) struct Part {
    pub(super) pc: u32,
    pub(super) lanes: u32,
}

/// Executes the instruction of lanes that are all those of a mask which have not ended.
pub(super) fn exchange(warp: &mut Warp, env: &mut Env<'_>, parts: &[Part]) {
    let program = env.launch.program;
    let all = parts.iter().fold(0, |all, part| all | part.lanes);
    match parts.first().map(|part| &program.code[part.pc as usize].op) {
        Some(&Op::Shuffle { kind, .. }) => shuffle(warp, program, parts, kind, all),
        Some(Op::SyncWarp { .. }) => {
            if let Some(order) = &mut env.order {
                order.meet_lanes(warp.all_of(all));
            }
        }
        Some(Op::Vote { .. } | Op::Ballot { .. }) => vote(warp, program, parts, all),
        Some(Op::Match { .. }) => find_equal(warp, program, parts, all),
        Some(&Op::Reduce { op, .. }) => {
            let mut values = [0; LANES];
            let mut state = State::of(warp, program, parts);
            for part in parts {
                let Op::Reduce { a, .. } = *part.op(program) else { continue };
                take(&mut values, warp.r(a), part.lanes);
                state.read(warp, part, Register::R(a));
            }
            let total = lanes(all)
                .map(|lane| values[lane])
                .reduce(|all, value| combine(op, 4, [all.into(), value.into(), 0], false) as u32)
                .unwrap_or(0);
            for part in parts {
                let Op::Reduce { d, .. } = *part.op(program) else { continue };
                warp.put_r(d, part.lanes, &[total; LANES]);
                state.write(warp, part, Register::R(d), state.any());
            }
        }
        _ => elect(warp, program, parts, all),
    }
}

impl Part {
    fn op<'p>(&self, program: &'p Program) -> &'p Op {
        &program.code[self.pc as usize].op
    }
}

/// Takes over the values of some lanes.
fn take(all: &mut L32, from: &L32, mask: u32) {
    if mask == u32::MAX {
        *all = *from;
        return;
    }
    for lane in 0..LANES {
        all[lane] = if mask >> lane & 1 != 0 { from[lane] } else { all[lane] };
    }
}

/// What is known of the values that are exchanged.
struct State<'p> {
    program: &'p Program,
    /// Whether one may be missing.
    doubtful: bool,
    /// The lanes in which one is.
    missing: u32,
    origin: Option<Origin>,
}

impl<'p> State<'p> {
    fn of(warp: &Warp, program: &'p Program, parts: &[Part]) -> Self {
        let doubtful = warp.watches_all() || parts.iter().any(|part| program.code[part.pc as usize].watched);
        Self { program, doubtful, missing: 0, origin: None }
    }

    /// A part gives what is in a register. The lanes in which nothing is.
    fn read(&mut self, warp: &Warp, part: &Part, register: Register) -> u32 {
        let missing = if self.doubtful { warp.absent(self.program, register) & part.lanes } else { 0 };
        if missing != 0 {
            self.missing |= missing;
            self.origin = self.origin.or(Some(origin_of(warp, self.program, part.pc, register)));
        }
        missing
    }

    /// All lanes, if a value is missing in one.
    fn any(&self) -> u32 {
        if self.missing != 0 { u32::MAX } else { 0 }
    }

    /// A part gets what has no value in these lanes.
    fn write(&self, warp: &mut Warp, part: &Part, register: Register, without: u32) {
        if self.doubtful || without != 0 {
            let without = without & part.lanes;
            let origin = self.origin.filter(|_| without != 0);
            warp.define(self.program, register, part.lanes, without, origin);
        }
    }
}

twice! {
    /// A shuffle of all lanes, none of which lacks a value.
    fn shuffle_all(warp: &mut Warp, op: &Op) {
        let Op::Shuffle { kind, d, valid, a, b, c, .. } = *op else { return };
        let (from, inside) = sources(kind, warp.r(b), warp.r(c));
        let given = *warp.r(a);
        for (d, from) in warp.r[d.0 as usize].iter_mut().zip(from) {
            *d = given[from as usize % LANES];
        }
        if let Some(valid) = valid {
            warp.put_p(valid, u32::MAX, inside);
        }
    }
}

fn shuffle(warp: &mut Warp, program: &Program, parts: &[Part], kind: Shuffle, all: u32) {
    if let [part] = parts
        && part.lanes == u32::MAX
        && !State::of(warp, program, parts).doubtful
    {
        return shuffle_all(warp, part.op(program));
    }
    let (mut a, mut b, mut c) = ([0; LANES], [0; LANES], [0; LANES]);
    let (mut state, mut missing, mut lost) = (State::of(warp, program, parts), 0, 0);
    for part in parts {
        let Op::Shuffle { a: from_a, b: from_b, c: from_c, .. } = *part.op(program) else { continue };
        take(&mut a, warp.r(from_a), part.lanes);
        take(&mut b, warp.r(from_b), part.lanes);
        take(&mut c, warp.r(from_c), part.lanes);
        missing |= state.read(warp, part, Register::R(from_a));
        lost |= state.read(warp, part, Register::R(from_b)) | state.read(warp, part, Register::R(from_c));
    }
    let (from, inside) = sources(kind, &b, &c);
    // What an absent lane gives is 0 on an H200; the manual does not define it.
    let there = lanes_of(|lane| if all >> lane & 1 != 0 { a[lane] } else { 0 });
    let value = lanes_of(|lane| there[from[lane] as usize % LANES]);
    let mut without = lost;
    if missing != 0 || all != u32::MAX {
        for (lane, from) in from.into_iter().enumerate() {
            without |= (missing >> from & 1 | !all >> from & 1) << lane;
            if all >> lane & 1 != 0 && all >> from & 1 == 0 {
                let pc = parts.iter().find(|part| part.lanes >> lane & 1 != 0).map_or(0, |part| part.pc);
                state.origin = state.origin.or(Some(Origin { pc, cause: Cause::Lane(from) }));
            }
        }
    }
    without &= all;
    for part in parts {
        let Op::Shuffle { d, valid, .. } = *part.op(program) else { continue };
        warp.put_r(d, part.lanes, &value);
        state.write(warp, part, Register::R(d), without);
        if let Some(valid) = valid {
            warp.put_p(valid, part.lanes, inside);
            state.write(warp, part, Register::P(valid), lost);
        }
    }
}

/// The lane that each one reads, and those whose lane is in its segment: the others read their own.
#[inline(always)]
fn sources(kind: Shuffle, b: &L32, c: &L32) -> (L32, u32) {
    match kind {
        Shuffle::Up => places(b, c, |own, by, _, last, _| {
            (own.wrapping_sub(by), own.wrapping_sub(by) as i32 >= last as i32)
        }),
        Shuffle::Down => places(b, c, |own, by, _, last, _| (own + by, own + by <= last)),
        Shuffle::Butterfly => places(b, c, |own, by, _, last, _| (own ^ by, own ^ by <= last)),
        Shuffle::Index => {
            places(b, c, |_, by, first, last, segment| (first | by & !segment, first | by & !segment <= last))
        }
    }
}

/// What `place` says of a lane, how far it reads, the first lane and the last of its segment, and the segment's mask.
#[inline(always)]
fn places(b: &L32, c: &L32, place: impl Fn(u32, u32, u32, u32, u32) -> (u32, bool)) -> (L32, u32) {
    let (mut from, mut inside) = ([0; LANES], 0);
    for lane in 0..LANES {
        let (own, by, clamp, segment) = (lane as u32, b[lane] & 31, c[lane] & 31, c[lane] >> 8 & 31);
        let (there, ok) = place(own, by, own & segment, own & segment | clamp & !segment, segment);
        from[lane] = if ok { there & 31 } else { own };
        inside |= u32::from(ok) << lane;
    }
    (from, inside)
}

fn vote(warp: &mut Warp, program: &Program, parts: &[Part], all: u32) {
    let (mut holds, mut state) = (0, State::of(warp, program, parts));
    for part in parts {
        let (Op::Vote { a, .. } | Op::Ballot { a, .. }) = *part.op(program) else { continue };
        holds |= warp.condition(a) & part.lanes;
        state.read(warp, part, Register::P(a.predicate));
    }
    // Those that are known may decide it alone.
    let (yes, no) = (holds & !state.missing, all & !holds & !state.missing);
    for part in parts {
        match *part.op(program) {
            Op::Vote { kind, d, .. } => {
                let (result, decided) = match kind {
                    Vote::Any => (holds != 0, yes != 0),
                    Vote::All => (holds == all, no != 0),
                    Vote::Uniform => (holds == 0 || holds == all, yes != 0 && no != 0),
                };
                warp.put_p(d, part.lanes, if result { u32::MAX } else { 0 });
                state.write(warp, part, Register::P(d), if decided { 0 } else { state.any() });
            }
            Op::Ballot { d, .. } => {
                warp.put_r(d, part.lanes, &[holds; LANES]);
                state.write(warp, part, Register::R(d), state.any());
            }
            _ => {}
        }
    }
}

fn find_equal(warp: &mut Warp, program: &Program, parts: &[Part], all: u32) {
    let (mut values, mut state) = ([0; LANES], State::of(warp, program, parts));
    for part in parts {
        let Op::Match { a, .. } = *part.op(program) else { continue };
        lanes(part.lanes).for_each(|lane| values[lane] = warp.source(a, lane));
        state.read(warp, part, a.register());
    }
    let same: [u32; LANES] = std::array::from_fn(|lane| {
        lanes(all).filter(|&other| values[other] == values[lane]).fold(0, |all, other| all | 1 << other)
    });
    let agreed = lanes(all).all(|lane| same[lane] == all);
    for part in parts {
        let Op::Match { d, all: whole, agree, .. } = *part.op(program) else { continue };
        let value = same.map(|same| if !whole || agreed { same } else { 0 });
        warp.put_r(d, part.lanes, &value);
        state.write(warp, part, Register::R(d), state.any());
        if let Some(agree) = agree {
            warp.put_p(agree, part.lanes, if agreed { u32::MAX } else { 0 });
            state.write(warp, part, Register::P(agree), state.any());
        }
    }
}

/// The manual leaves open which lane is elected: the first one.
fn elect(warp: &mut Warp, program: &Program, parts: &[Part], all: u32) {
    let first = all.trailing_zeros();
    for part in parts {
        let Op::Elect { d, p, .. } = *part.op(program) else { continue };
        warp.put_p(p, part.lanes, 1 << (first & 31));
        if let Some(d) = d {
            warp.put_r(d, part.lanes, &[first; LANES]);
        }
    }
}
