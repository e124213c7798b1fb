//! Comparison and selection.
//!
//! PTX ISA, "Comparison and Selection Instructions".

use super::Result_;
use super::context::Context;
use super::lanes::comparison;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Each, EachOp, Outcome, PredicateOp};
use crate::program::register::{Compare, LANES};
use crate::tensor::arith16;
use crate::tensor::float::{Format, bf16_to_f32, f16_to_f32};
use tilewright_ptx::ast::Operand;

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match (opcode.name(), operands) {
        ("setp", [d, a, b]) => compare(context, opcode, d, a, b, None),
        ("setp", [d, a, b, c]) => compare(context, opcode, d, a, b, Some(c)),
        ("set", _) => set(context, opcode, operands),
        ("selp", [d, a, b, c]) => select(context, opcode, d, a, b, c),
        _ => Err(format!("is not emulated with {} operands", operands.len())),
    }
}

fn select(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    d: &Operand,
    a: &Operand,
    b: &Operand,
    c: &Operand,
) -> Result_ {
    let condition = context.condition(c)?;
    match opcode.ty()?.bits() {
        64 => Ok(Op::Select64(context.to_d(d)?, context.d(a)?, context.d(b)?, condition)),
        bits @ (16 | 32) => {
            Ok(Op::Select32(context.to_r(d, bits)?, context.r(a, bits)?, context.r(b, bits)?, condition))
        }
        bits => Err(format!("is not emulated for {bits} bits")),
    }
}

/// `lt`, and whether it also holds for NaNs (`ltu`).
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Number,
    Nan,
}

const RELATIONS: [(&str, (Relation, bool)); 18] = [
    ("eq", (Relation::Eq, false)),
    ("ne", (Relation::Ne, false)),
    ("lt", (Relation::Lt, false)),
    ("le", (Relation::Le, false)),
    ("gt", (Relation::Gt, false)),
    ("ge", (Relation::Ge, false)),
    ("lo", (Relation::Lt, false)),
    ("ls", (Relation::Le, false)),
    ("hi", (Relation::Gt, false)),
    ("hs", (Relation::Ge, false)),
    ("equ", (Relation::Eq, true)),
    ("neu", (Relation::Ne, true)),
    ("ltu", (Relation::Lt, true)),
    ("leu", (Relation::Le, true)),
    ("gtu", (Relation::Gt, true)),
    ("geu", (Relation::Ge, true)),
    ("num", (Relation::Number, false)),
    ("nan", (Relation::Nan, false)),
];

pub(super) fn relation(opcode: &mut Opcode<'_>) -> Result<(Relation, bool), String> {
    opcode.any(&RELATIONS).ok_or_else(|| "has no comparison that is emulated".into())
}

/// The function of a comparison of floats.
macro_rules! floats {
    ($ty:ty, $relation:expr, $unordered:expr, $bad:expr, $flush:expr) => {
        match ($relation, $unordered) {
            (Relation::Eq, false) => comparison!(|a: $ty, b| $flush(a) == $flush(b)),
            (Relation::Ne, false) => comparison!(|a: $ty, b| $flush(a) < $flush(b) || $flush(a) > $flush(b)),
            (Relation::Lt, false) => comparison!(|a: $ty, b| $flush(a) < $flush(b)),
            (Relation::Le, false) => comparison!(|a: $ty, b| $flush(a) <= $flush(b)),
            (Relation::Gt, false) => comparison!(|a: $ty, b| $flush(a) > $flush(b)),
            (Relation::Ge, false) => comparison!(|a: $ty, b| $flush(a) >= $flush(b)),
            (Relation::Eq, true) => {
                comparison!(|a: $ty, b| !($flush(a) < $flush(b) || $flush(a) > $flush(b)))
            }
            (Relation::Ne, true) => comparison!(|a: $ty, b| $flush(a) != $flush(b)),
            (Relation::Lt, true) => comparison!(|a: $ty, b| !($flush(a) >= $flush(b))),
            (Relation::Le, true) => comparison!(|a: $ty, b| !($flush(a) > $flush(b))),
            (Relation::Gt, true) => comparison!(|a: $ty, b| !($flush(a) <= $flush(b))),
            (Relation::Ge, true) => comparison!(|a: $ty, b| !($flush(a) < $flush(b))),
            (Relation::Number, _) => comparison!(|a: $ty, b| !$flush(a).is_nan() && !$flush(b).is_nan()),
            (Relation::Nan, _) => comparison!(|a: $ty, b| $flush(a).is_nan() || $flush(b).is_nan()),
        }
    };
}

macro_rules! integers {
    ($ty:ty, $relation:expr, $bad:expr) => {
        match $relation {
            Relation::Eq => comparison!(|a: $ty, b| a == b),
            Relation::Ne => comparison!(|a: $ty, b| a != b),
            Relation::Lt => comparison!(|a: $ty, b| a < b),
            Relation::Le => comparison!(|a: $ty, b| a <= b),
            Relation::Gt => comparison!(|a: $ty, b| a > b),
            Relation::Ge => comparison!(|a: $ty, b| a >= b),
            _ => return $bad,
        }
    };
}

#[expect(clippy::neg_cmp_op_on_partial_ord, reason = "these hold for NaNs too")]
pub(super) fn compare32(
    ty: Type,
    (relation, unordered): (Relation, bool),
    ftz: bool,
) -> Result<Compare<u32>, String> {
    let bad = || Err(format!("this comparison is not emulated for {ty:?}"));
    if ty == Type::F32 {
        return Ok(match ftz {
            false => floats!(f32, relation, unordered, bad(), std::convert::identity),
            true => floats!(f32, relation, unordered, bad(), super::float::flush),
        });
    }
    match (ty, ftz) {
        (Type::F16, false) => return Ok(floats!(u16, relation, unordered, bad(), f16_to_f32)),
        (Type::F16, true) => return Ok(floats!(u16, relation, unordered, bad(), flushed)),
        (Type::Bf16, false) => return Ok(floats!(u16, relation, unordered, bad(), bf16_to_f32)),
        _ => {}
    }
    if unordered || ftz {
        return bad();
    }
    Ok(match ty {
        Type::U(32) | Type::B(32) => integers!(u32, relation, bad()),
        Type::S(32) => integers!(i32, relation, bad()),
        Type::U(16) | Type::B(16) => integers!(u16, relation, bad()),
        Type::S(16) => integers!(i16, relation, bad()),
        _ => return bad(),
    })
}

#[expect(clippy::neg_cmp_op_on_partial_ord, reason = "these hold for NaNs too")]
fn compare64(ty: Type, (relation, unordered): (Relation, bool)) -> Result<Compare<u64>, String> {
    let bad = || Err(format!("this comparison is not emulated for {ty:?}"));
    Ok(match ty {
        Type::F64 => floats!(f64, relation, unordered, bad(), std::convert::identity),
        _ if unordered => return bad(),
        Type::U(64) | Type::B(64) => integers!(u64, relation, bad()),
        Type::S(64) => integers!(i64, relation, bad()),
        _ => return bad(),
    })
}

fn compare(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    d: &Operand,
    a: &Operand,
    b: &Operand,
    c: Option<&Operand>,
) -> Result_ {
    let relation = relation(opcode)?;
    let op = opcode.any(&[("and", PredicateOp::And), ("or", PredicateOp::Or), ("xor", PredicateOp::Xor)]);
    let combine = match (op, c) {
        (None, None) => None,
        (Some(op), Some(c)) => Some((op, context.condition(c)?)),
        _ => return Err("a fourth operand goes with `.and`, `.or` or `.xor`".into()),
    };
    let (p, q) = match d {
        Operand::Name(p) => (context.predicate_to(p)?, None),
        Operand::Pair(p, q) => (context.predicate_to(p)?, Some(context.predicate_to(q)?)),
        _ => return Err("the result is no predicate".into()),
    };
    let outcome = Outcome { p, q, combine };
    let ty = opcode.ty()?;
    let ftz = opcode.flag("ftz");
    if ty.bits() == 64 {
        return Ok(Op::Compare64(compare64(ty, relation)?, context.d(a)?, context.d(b)?, outcome));
    }
    let f = compare32(ty, relation, ftz)?;
    Ok(Op::Compare32(f, context.r(a, ty.bits())?, context.r(b, ty.bits())?, outcome))
}

/// `set`: all ones or 1.0 where the comparison holds, for each half of a pair.
fn set(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let relation = relation(opcode)?;
    let combine =
        opcode.any(&[("and", PredicateOp::And), ("or", PredicateOp::Or), ("xor", PredicateOp::Xor)]);
    let (to, from) = (opcode.ty()?, opcode.ty()?);
    let ftz = opcode.flag("ftz");
    let (d, a, b, c) = match (operands, combine) {
        ([d, a, b], None) => (d, a, b, None),
        ([d, a, b, c], Some(op)) => (d, a, b, Some((op, context.condition(c)?))),
        _ => return Err(format!("does not take {} operands", operands.len())),
    };
    let (part, pair) = match from {
        Type::F16x2 => (Type::F16, true),
        Type::Bf16x2 => (Type::Bf16, true),
        ty => (ty, false),
    };
    let holds = match to {
        Type::F32 => 1f32.to_bits(),
        Type::U(32) | Type::S(32) => u32::MAX,
        Type::U(16) | Type::S(16) => 0xffff,
        Type::F16 | Type::F16x2 => 0x3c00,
        Type::Bf16 | Type::Bf16x2 => 0x3f80,
        _ => return opcode.refuse(to),
    };
    // Of a pair, each half has its own result.
    let holds = if pair { holds & 0xffff } else { holds };
    if pair && to.bits() != 32 {
        return opcode.refuse(to);
    }
    let bits = from.bits();
    let test: Box<dyn Fn(u64, u64) -> bool + Send + Sync> = if part.bits() == 64 {
        let f = compare64(part, relation)?;
        Box::new(move |a, b| f(&[a; LANES], &[b; LANES]) & 1 != 0)
    } else {
        let f = compare32(part, relation, ftz)?;
        Box::new(move |a, b| f(&[a as u32; LANES], &[b as u32; LANES]) & 1 != 0)
    };
    let from = Box::new([context.source(a, bits)?, context.source(b, bits)?]);
    let (take, negated, op) = match c {
        Some((op, condition)) => (Some(condition.predicate), condition.negated, Some(op)),
        None => (None, false, None),
    };
    let one = move |a: u64, b: u64, other: bool| {
        let result = match op {
            None => test(a, b),
            Some(PredicateOp::And) => test(a, b) && other,
            Some(PredicateOp::Or) => test(a, b) || other,
            Some(PredicateOp::Xor) => test(a, b) != other,
        };
        if result { u64::from(holds) } else { 0 }
    };
    let f: Each = Box::new(move |[a, b, ..], taken| {
        let other = taken != negated;
        let value = match pair {
            true => one(a >> 16, b >> 16, other) << 16 | one(a & 0xffff, b & 0xffff, other),
            false => one(a, b, other),
        };
        (value, false)
    });
    let d = context.destination(d, to.bits())?;
    Ok(Op::Each(Box::new(EachOp { f, d, from, take, leave: None })))
}

/// An f16, zero if it is subnormal.
fn flushed(bits: u16) -> f32 {
    f16_to_f32(arith16::ftz(Format::F16, bits))
}
