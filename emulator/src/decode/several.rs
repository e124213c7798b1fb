//! Instructions that are several operations here.
//!
//! PTX ISA, "lop3", "setp" of pairs, "discard", and "mov" of bytes, of halves of counters and of predicates that are special
//! registers.

use super::compare;
use super::context::Context;
use super::opcode::Opcode;
use super::types::Type;
use crate::decode::lanes::comparison;
use crate::program::op::Op;
use crate::program::operand::{Address, Destination, EachOp, Outcome, PredicateOp, Source, Window};
use crate::program::register::{Compare, Condition};
use tilewright_ptx::ast::{Operand, Space};

type Several = Result<Vec<Op>, String>;

const COMBINATIONS: [(&str, PredicateOp); 3] =
    [("and", PredicateOp::And), ("or", PredicateOp::Or), ("xor", PredicateOp::Xor)];

/// Bytes that `discard` is for.
const DISCARDED: u64 = 128;
/// What they hold then.
const NOTHING: u64 = 0xcdcd_cdcd_cdcd_cdcd;

/// Whether an instruction is one of these.
pub(super) fn is_several(opcode: &Opcode<'_>, operands: &[Operand]) -> bool {
    match (opcode.name(), operands) {
        ("lop3", [_, _, _, _, _, _]) | ("discard", _) => true,
        ("setp", _) => opcode.has("f16x2") || opcode.has("bf16x2"),
        ("mov", [Operand::Vector(parts), _] | [_, Operand::Vector(parts)]) => {
            opcode.has("b16") && parts.len() == 2 || opcode.has("b32") && parts.len() == 4
        }
        ("mov", [_, Operand::Name(name)]) => {
            matches!(name.as_str(), "%clock_hi" | "%globaltimer_lo" | "%globaltimer_hi")
                || opcode.has("pred") && name == "%is_explicit_cluster"
        }
        _ => false,
    }
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Several {
    match (opcode.name(), operands) {
        ("lop3", _) => logic(context, opcode, operands),
        ("discard", _) => discard(context, opcode, operands),
        ("setp", _) => pairs(context, opcode, operands),
        (_, [Operand::Vector(parts), a]) => split(context, opcode, parts, a),
        (_, [d, Operand::Vector(parts)]) => join(context, opcode, d, parts),
        (_, [d, a]) => special(context, opcode, d, a),
        _ => Err(format!("does not take {} operands", operands.len())),
    }
}

fn nonzero() -> Compare<u32> {
    comparison!(|a: u32, b| a != b)
}

/// `lop3.or.b32 d|p, a, b, c, table, q`: whether there is a bit in the result, combined with a predicate.
fn logic(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Several {
    let [Operand::Pair(d, p), a, b, c, table @ Operand::Integer(_), q] = operands else {
        return Err("takes a register and a predicate, three operands, a table and a predicate".into());
    };
    let op = opcode.any(&COMBINATIONS[..2]).ok_or("needs `.and` or `.or`")?;
    let d = Operand::Name(d.clone());
    let plain = [d.clone(), a.clone(), b.clone(), c.clone(), table.clone()];
    let result = super::logic::decode(context, opcode, &plain)?;
    let outcome =
        Outcome { p: context.predicate_to(p)?, q: None, combine: Some((op, context.condition(q)?)) };
    let (d, zero) = (context.to_r(&d, 32)?, context.constant32(0));
    Ok(vec![result, Op::Compare32(nonzero(), d, zero, outcome)])
}

/// `setp` of two numbers of 16 bits in a register: the first result is of the lower ones.
fn pairs(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Several {
    let relation = compare::relation(opcode)?;
    let op = opcode.any(&COMBINATIONS);
    let (ty, ftz) = (opcode.ty()?, opcode.flag("ftz"));
    let half = if ty == Type::F16x2 { Type::F16 } else { Type::Bf16 };
    let (targets, a, b, other) = match (operands, op) {
        ([Operand::Pair(p, q), a, b], None) => ([p, q], a, b, None),
        ([Operand::Pair(p, q), a, b, c], Some(op)) => ([p, q], a, b, Some((op, context.condition(c)?))),
        _ => return Err(
            "takes two predicates for its results, two operands, and one more with `.and`, `.or` or `.xor`"
                .into(),
        ),
    };
    let f = compare::compare32(half, relation, ftz)?;
    let (mut ops, mut kept) = (Vec::new(), None);
    if let Some((op, condition)) = other {
        // The first result may be where it is.
        let copy = context.new_p();
        ops.push(Op::MovePredicate(copy, condition));
        kept = Some((op, Condition { predicate: copy, negated: false }));
    }
    for (target, shift) in targets.into_iter().zip([0, 16]) {
        let part = |operand: &Operand, context: &mut Context| -> Result<_, String> {
            let d = context.new_r();
            let from = Box::new([context.source(operand, 32)?]);
            let f = Box::new(move |[x, ..]: [u64; 4], _| (x >> shift & 0xffff, false));
            Ok((d, Op::Each(Box::new(EachOp { f, d: Destination::R(d, 32), from, take: None, leave: None }))))
        };
        let ((left, take_left), (right, take_right)) = (part(a, context)?, part(b, context)?);
        let outcome = Outcome { p: context.predicate_to(target)?, q: None, combine: kept };
        ops.extend([take_left, take_right, Op::Compare32(f, left, right, outcome)]);
    }
    Ok(ops)
}

/// What is discarded is as if nobody had written it: it holds what new memory does.
fn discard(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Several {
    let space = if opcode.flag("global") { Window::In(Space::Global) } else { Window::Generic };
    let (true, [at, Operand::Integer(DISCARDED)]) = (opcode.flag("L2"), operands) else {
        return Err(format!("needs `.L2`, an address and {DISCARDED} bytes"));
    };
    let (at, nothing) = (context.address(at)?, Source::D(context.constant64(NOTHING)));
    let stores = (0..DISCARDED as i64).step_by(16).map(|offset| Op::Store {
        window: space,
        bytes: 8,
        from: [nothing; 2].into(),
        at: Address { offset: at.offset.wrapping_add(offset), ..at },
        ordering: None,
    });
    Ok(stores.collect())
}

/// A register as bytes.
fn split(context: &mut Context, opcode: &mut Opcode<'_>, parts: &[Operand], a: &Operand) -> Several {
    let ty = opcode.ty()?;
    let a = context.source(a, ty.bits())?;
    let each = parts.iter().enumerate().filter(|(_, part)| **part != Operand::Name("_".into()));
    each.map(|(i, part)| {
        let d = context.destination(part, 8)?;
        let f = Box::new(move |[a, ..]: [u64; 4], _| (a >> (8 * i) & 0xff, false));
        Ok(Op::Each(Box::new(EachOp { f, d, from: Box::new([a]), take: None, leave: None })))
    })
    .collect()
}

/// Bytes as a register.
fn join(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, parts: &[Operand]) -> Several {
    let ty = opcode.ty()?;
    let bytes: Vec<_> = parts.iter().map(|part| (part, Type::B(8))).collect();
    let op = super::each::each(context, (d, ty), &bytes, |bytes| {
        bytes.iter().rev().fold(0, |all, byte| all << 8 | byte)
    })?;
    Ok(vec![op])
}

/// Special registers that are half of another, or a predicate.
fn special(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, a: &Operand) -> Several {
    let (ty, Operand::Name(name)) = (opcode.ty()?, a) else { return Err("takes a register".into()) };
    if let (Type::Pred, Operand::Name(d)) = (ty, d) {
        let outcome = Outcome { p: context.predicate_to(d)?, q: None, combine: None };
        let (a, zero) = (context.r(a, 32)?, context.constant32(0));
        return Ok(vec![Op::Compare32(nonzero(), a, zero, outcome)]);
    }
    if ty.bits() != 32 {
        return opcode.refuse(ty);
    }
    let (time, rest) = (context.new_d(), context.new_r());
    let d = context.to_r(d, 32)?;
    let (low, high) = if name.ends_with("_lo") { (d, rest) } else { (rest, d) };
    Ok(vec![Op::Clock64(time), Op::Split64(low, high, time)])
}
