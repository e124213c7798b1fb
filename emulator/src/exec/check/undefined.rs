//! Values that nobody wrote.
//!
//! PTX gives a register no value at the start of a thread, and shared memory none at the start of a CTA. What is reported
//! is not each read of such a place, but the first instruction on whose effect the value has an influence: compilers pass
//! such values on where it does not matter (see [`Undefined`]). It is each lane's own value that is there or not: what
//! lanes exchange they pass on with it. Stores to local memory pass them on too, and what is loaded from there has a value.
//! Where some bytes of a register have a value, as where half of a pair was loaded from shared memory, it counts as one but for
//! addresses, products and stores of the whole, which use all of it.

use super::fragments;
use crate::decode::logic::permuted;
use crate::error::Reason;
use crate::exec::warp::watched::{Cause, Origin};
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::program::access::Access;
use crate::program::op::Op;
use crate::program::operand::{MmaOp, Outcome, PredicateOp, Window};
use crate::program::register::{Condition, R, Register};
use crate::program::undefined::Undefined;
use crate::program::{Coded, Program};
use tilewright_ptx::ast::Space;

/// Checks what the instruction at `pc` reads in the lanes of `mask`, of those that are `here`, and notes what it
/// writes.
pub(super) fn check(warp: &mut Warp, program: &Program, pc: u32, here: u32, mask: u32) -> Result<(), Reason> {
    let coded = &program.code[pc as usize];
    if let Some(guard) = coded.guard {
        let register = Register::P(guard.predicate);
        refuse(warp, program, coded, register, warp.missing(program, register) & here)?;
    }
    if mask == 0 {
        return Ok(());
    }
    let missing = |register| warp.absent(program, register);
    let mut read = 0;
    let result = match coded.op.undefined() {
        Undefined::Used => {
            used(warp, program, coded, mask)?;
            0
        }
        // The result is known when all lanes are there.
        Undefined::Exchanged => {
            let Some(members) = coded.op.members().map(Register::R) else { return Ok(()) };
            return refuse(warp, program, coded, members, missing(members) & mask);
        }
        Undefined::Multiplied => {
            match &coded.op {
                Op::Mma(product) => multiplied(warp, program, product, pc, mask),
                Op::WarpProduct(product) => {
                    let without = fragments::multiplied(warp, program, product, mask);
                    let some = without.iter().any(|&lanes| lanes != 0);
                    let origin = if some { origin(warp, program, pc, mask) } else { None };
                    for (d, without) in product.d.iter().zip(without) {
                        warp.define(program, d.register(), mask, without, origin);
                    }
                }
                _ => {}
            }
            return Ok(());
        }
        Undefined::Chosen => chosen(warp, &coded.op, &missing),
        Undefined::PassedOn => {
            coded.op.registers(&mut |access, register| match access {
                Access::Read => read |= missing(register),
                Access::Write => {}
            });
            read
        }
        Undefined::Joined => {
            read = u32::MAX;
            coded.op.registers(&mut |access, register| match access {
                Access::Read => read &= missing(register),
                Access::Write => {}
            });
            read
        }
    };
    let result = result & mask;
    let origin = if result == 0 { None } else { origin(warp, program, pc, result) };
    coded.op.registers(&mut |access, register| {
        if access == Access::Write {
            warp.define(program, register, mask, result, origin);
        }
    });
    Ok(())
}

/// The first operand without a value in one of the lanes, and where it comes from.
fn origin(warp: &Warp, program: &Program, pc: u32, without: u32) -> Option<Origin> {
    let mut found = None;
    program.code[pc as usize].op.registers(&mut |access, register| {
        if access == Access::Read && warp.missing(program, register) & without != 0 {
            found = found.or(Some(origin_of(warp, program, pc, register)));
        }
    });
    found
}

/// Where the value would come from of a register that has none and that the instruction reads.
pub(crate) fn origin_of(warp: &Warp, program: &Program, pc: u32, register: Register) -> Origin {
    warp.origin(program, register).unwrap_or(Origin { pc, cause: Cause::Register(register) })
}

/// The elements of a product that are sums of what has no value. Each lane has those of a row of A, a column of B, and rows of C
/// and D, eight rows apart by register (PTX ISA, "Matrix Fragments for mma.m16n8k16" and of the other shapes).
fn multiplied(warp: &mut Warp, program: &Program, product: &MmaOp, pc: u32, mask: u32) {
    let missing = |warp: &Warp, register: R| warp.missing(program, Register::R(register)) & mask;
    let (mut rows, mut columns) = (0, 0);
    for (i, &a) in product.a.iter().enumerate() {
        lanes(missing(warp, a)).for_each(|lane| rows |= 1u32 << (lane / 4 + i % 2 * 8));
    }
    for &b in &product.b {
        lanes(missing(warp, b)).for_each(|lane| columns |= 1u32 << (lane / 4));
    }
    let added: Vec<u32> = product.c.iter().map(|&c| missing(warp, c)).collect();
    let some = added.iter().fold(rows | columns, |all, lanes| all | lanes);
    let origin = if some != 0 { origin(warp, program, pc, mask) } else { None };
    // Of f16 a register has two columns.
    let packed = product.d.len() == 2;
    for (i, (&d, added)) in product.d.iter().zip(added).enumerate() {
        let lacks = |lane: &usize| {
            let row = lane / 4 + if packed { i } else { i / 2 } * 8;
            let column = lane % 4 * 2;
            let columns = if packed { columns >> column & 3 } else { columns >> (column + i % 2) & 1 };
            rows >> row & 1 != 0 || columns != 0
        };
        let without = (0..32).filter(lacks).fold(added, |all, lane| all | 1 << lane);
        warp.define(program, Register::R(d), mask, without, origin);
    }
}

/// All operands must have values, but accumulators that are overwritten and what goes to local memory.
fn used(warp: &mut Warp, program: &Program, coded: &Coded, mask: u32) -> Result<(), Reason> {
    let mut fault = None;
    coded.op.registers(&mut |access, register| {
        let without = warp.missing(program, register) & mask;
        if access == Access::Read && without != 0 && fault.is_none() {
            let without = without & !exempt(warp, program, &coded.op, register, mask);
            fault = (without != 0).then_some((register, without));
        }
    });
    match fault {
        Some((register, without)) => refuse(warp, program, coded, register, without),
        None => Ok(()),
    }
}

/// The lanes in which the operation does not need the register.
fn exempt(warp: &Warp, program: &Program, op: &Op, register: Register, mask: u32) -> u32 {
    match op {
        Op::Store { from, bytes, .. } if from.iter().any(|from| from.register() == register) => {
            let narrower = *bytes < if let Register::D(_) = register { 8 } else { 4 };
            to_local(warp, op, mask) | if narrower { !warp.absent(program, register) } else { 0 }
        }
        Op::Wgmma(product) if product.d.iter().any(|&d| Register::R(d) == register) => {
            !warp.condition(product.scale)
        }
        _ => 0,
    }
}

/// The lanes that store to local memory.
fn to_local(warp: &Warp, op: &Op, mask: u32) -> u32 {
    match *op {
        Op::Store { window: Window::In(Space::Local), .. } => u32::MAX,
        Op::Store { window: Window::Generic, at, .. } => lanes(mask)
            .filter(|&lane| matches!(warp.place(Window::Generic, at, lane), Place::Local(_)))
            .fold(0, |all, lane| all | 1 << lane),
        _ => 0,
    }
}

/// The lanes in which an operation that chooses has no result.
fn chosen(warp: &Warp, op: &Op, missing: &impl Fn(Register) -> u32) -> u32 {
    let of = |condition: Condition| missing(Register::P(condition.predicate));
    let select = |a, b, condition| {
        let first = warp.condition(condition);
        of(condition) | first & missing(a) | !first & missing(b)
    };
    match *op {
        Op::Select32(_, a, b, condition) => select(Register::R(a), Register::R(b), condition),
        Op::Select64(_, a, b, condition) => select(Register::D(a), Register::D(b), condition),
        Op::Predicates(kind, _, a, b) => {
            let (without_a, without_b) = (of(a), of(b));
            let undecided_by_a = without_a | undecided(kind, warp.condition(a));
            let undecided_by_b = without_b | undecided(kind, warp.condition(b));
            (without_a | without_b) & undecided_by_a & undecided_by_b
        }
        Op::Compare32(_, a, b, outcome) => {
            compared(warp, missing(Register::R(a)) | missing(Register::R(b)), outcome, &of)
        }
        Op::Compare64(_, a, b, outcome) => {
            compared(warp, missing(Register::D(a)) | missing(Register::D(b)), outcome, &of)
        }
        Op::Permute { sources: [a, b, selector], .. } => {
            let (mut first, mut second) = (0, 0);
            for (lane, &selector) in warp.r(selector).iter().enumerate() {
                let [one, other] = permuted(selector);
                first |= u32::from(one) << lane;
                second |= u32::from(other) << lane;
            }
            let [a, b, selector] = [a, b, selector].map(|register| missing(Register::R(register)));
            selector | first & a | second & b
        }
        _ => unreachable!("does not choose"),
    }
}

fn compared(warp: &Warp, without: u32, outcome: Outcome, of: &impl Fn(Condition) -> u32) -> u32 {
    match outcome.combine {
        None => without,
        Some((kind, other)) => without & undecided(kind, warp.condition(other)) | of(other),
    }
}

/// Where one operand of this value leaves it to the other what the result is.
fn undecided(kind: PredicateOp, value: u32) -> u32 {
    match kind {
        PredicateOp::And => value,
        PredicateOp::Or => !value,
        PredicateOp::Xor => u32::MAX,
    }
}

/// The error for a register that has no value in these lanes, if there are any.
fn refuse(
    warp: &mut Warp,
    program: &Program,
    coded: &Coded,
    register: Register,
    without: u32,
) -> Result<(), Reason> {
    if without == 0 {
        return Ok(());
    }
    warp.culprit = Some(without.trailing_zeros());
    let name = program.names.of(register);
    let before = warp.origin(program, register);
    let Some(Origin { pc, cause }) = before else {
        return Err(Reason::uninitialized(format!("{name} is used, and nobody has written it")));
    };
    warp.early = matches!(cause, Cause::Shared { .. });
    let line = program.code[pc as usize].line;
    let place = format!("PTX line {line}");
    let text = program.line(line);
    Err(Reason::uninitialized(match cause {
        Cause::Register(_) if line == coded.line => format!("{name} is used, and nobody has written it"),
        Cause::Register(first) => {
            let first = program.names.of(first);
            format!(
                "{name} is used, whose value comes from {first}, that nobody had written when {place} read it ({text})"
            )
        }
        Cause::Lane(lane) => format!(
            "{name} is used, whose value comes from lane {lane}, that did not take part when {place} took it from there ({text})"
        ),
        Cause::Shared { at, bytes } => format!(
            "{name} is used, whose value comes from {bytes} bytes of shared memory at {at:#x}, of which nobody had \
             written all when {place} loaded them ({text})"
        ),
    }))
}
