//! Values that nobody wrote.
//!
//! PTX gives a register no value at the start of a thread. What is reported is not each read of such a register, but
//! the first instruction on whose effect the value has an influence: compilers pass such values on where it does not
//! matter (see [`Undefined`]). Stores to local memory pass them on too, and what is loaded from there has a value.

use crate::exec::warp::watched::Origin;
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::program::access::Access;
use crate::program::op::Op;
use crate::program::operand::{Outcome, PredicateOp, Window};
use crate::program::register::{Condition, Register};
use crate::program::undefined::Undefined;
use crate::program::{Coded, Program};
use tilewright_ptx::ast::Space;

/// Checks what the instruction at `pc` reads in the lanes of `mask`, of those that are `here`, and notes what it
/// writes.
pub(super) fn check(warp: &mut Warp, program: &Program, pc: u32, here: u32, mask: u32) -> Result<(), String> {
    let coded = &program.code[pc as usize];
    if let Some(guard) = coded.guard {
        let register = Register::P(guard.predicate);
        refuse(warp, program, coded, register, lanes_without(warp, program, register) & here)?;
    }
    if mask == 0 {
        return Ok(());
    }
    let missing = |register| lanes_without(warp, program, register);
    let mut read = 0;
    let result = match coded.op.undefined() {
        Undefined::Used => {
            used(warp, program, coded, mask)?;
            0
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
        if access == Access::Write
            && let Some(slot) = program.watched.slot(register)
        {
            let state = &mut warp.watched[slot].value;
            state.lanes = state.lanes & !mask | result;
            state.origin = origin.or(state.origin);
        }
    });
    Ok(())
}

/// The lanes in which the register has no value.
fn lanes_without(warp: &Warp, program: &Program, register: Register) -> u32 {
    program.watched.slot(register).map_or(0, |slot| warp.watched[slot].value.lanes)
}

/// The first operand without a value in one of the lanes, and where it comes from.
fn origin(warp: &Warp, program: &Program, pc: u32, without: u32) -> Option<Origin> {
    let mut found = None;
    program.code[pc as usize].op.registers(&mut |access, register| {
        if access == Access::Read && lanes_without(warp, program, register) & without != 0 {
            let slot = program.watched.slot(register);
            let before = slot.and_then(|slot| warp.watched[slot].value.origin);
            found = found.or(Some(before.unwrap_or(Origin { pc, register })));
        }
    });
    found
}

/// All operands must have values, but accumulators that are overwritten and what goes to local memory.
fn used(warp: &mut Warp, program: &Program, coded: &Coded, mask: u32) -> Result<(), String> {
    let mut fault = None;
    coded.op.registers(&mut |access, register| {
        let without = lanes_without(warp, program, register) & mask;
        if access == Access::Read && without != 0 && fault.is_none() {
            let without = without & !exempt(warp, &coded.op, register, mask);
            fault = (without != 0).then_some((register, without));
        }
    });
    match fault {
        Some((register, without)) => refuse(warp, program, coded, register, without),
        None => Ok(()),
    }
}

/// The lanes in which the operation does not need the register.
fn exempt(warp: &Warp, op: &Op, register: Register, mask: u32) -> u32 {
    match op {
        Op::Store { from, .. } if from.iter().any(|from| from.register() == register) => {
            to_local(warp, op, mask)
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
) -> Result<(), String> {
    if without == 0 {
        return Ok(());
    }
    warp.culprit = Some(without.trailing_zeros());
    let name = program.names.of(register);
    let before = program.watched.slot(register).and_then(|slot| warp.watched[slot].value.origin);
    Err(match before {
        Some(Origin { pc, register }) if program.code[pc as usize].line != coded.line => {
            let line = program.code[pc as usize].line;
            let first = program.names.of(register);
            format!(
                "{name} is used, whose value comes from {first}, that nobody had written when PTX line {line} read it ({})",
                program.line(line)
            )
        }
        _ => format!("{name} is used, and nobody has written it"),
    })
}
