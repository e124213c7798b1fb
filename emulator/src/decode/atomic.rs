//! Atomic operations.
//!
//! PTX ISA, "atom", "red". A vector is as many operations as it has elements: only each of them is atomic.

use super::context::Context;
use super::memory::{Hints, hints, parts, window, without_policy};
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Address, AtomicOp, Destination, Ordering};
use crate::tensor::map::DataType;
use crate::tensor::reduce::Reduction;
use tilewright_ptx::ast::Operand;

pub(super) fn decode(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
) -> Result<Vec<Op>, String> {
    if opcode.has("async") {
        return reduce_async(context, opcode, operands).map(|op| vec![op]);
    }
    let returns = opcode.name() == "atom";
    let Hints { policy, ordering, scope } = hints(opcode);
    let ordering = Ordering { scope, ..ordering.unwrap_or(Ordering::RELAXED) };
    let operands = without_policy(context, operands, policy)?;
    let (d, operands) = match operands {
        [d, rest @ ..] if returns => (Some(d), rest),
        all => (None, all),
    };
    let [at, values @ ..] = operands else { return Err("takes an address".into()) };
    let window = window(context, opcode, at);
    let ordering = ordering.at(window);
    let count = opcode.any(&[("v2", 2), ("v4", 4), ("v8", 8)]);
    let (op, ty) = operation(opcode, count.is_some())?;
    let bytes = ty.bits() / 8;
    if count.is_some_and(|count| count * bytes > 16) {
        return Err("more than 16 bytes are not emulated".into());
    }
    let (b, c) = match (values, op) {
        ([b, c], AtomicOp::CompareAndSwap) => (b, Some(context.source(c, ty.bits())?)),
        ([b], op) if op != AtomicOp::CompareAndSwap => (b, None),
        _ => return Err(format!("does not take {} values", values.len())),
    };
    let count = count.unwrap_or(1);
    let b = parts(b, count as usize)?;
    let d = match d {
        Some(Operand::Name(sink)) if sink == "_" => None,
        Some(d) => Some(parts(d, count as usize)?),
        None => None,
    };
    let at = context.address(at)?;
    let mut all = Vec::new();
    for (i, b) in b.iter().enumerate() {
        let d = d.map_or(Ok(Destination::Sink), |d| context.destination(&d[i], ty.bits()))?;
        let b = context.source(b, ty.bits())?;
        let at = Address { offset: at.offset + i as i64 * i64::from(bytes), ..at };
        all.push(Op::Atomic { op, window, bytes, d, at, b, c, ordering, returns });
    }
    Ok(all)
}

/// `red.async`: to shared memory of the cluster, told to an mbarrier there.
fn reduce_async(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result<Op, String> {
    for modifier in ["async", "relaxed", "cluster", "mbarrier::complete_tx::bytes"] {
        if !opcode.flag(modifier) {
            return Err(format!("needs `.{modifier}`"));
        }
    }
    opcode.flag("shared::cluster");
    let [at, value, bar] = operands else { return Err("takes three operands".into()) };
    let (op, ty) = operation(opcode, false)?;
    let wide = ty.bits() == 64 && op != AtomicOp::AddInteger;
    if !ty.is_integer() || wide || matches!(op, AtomicOp::Exchange | AtomicOp::CompareAndSwap) {
        return opcode.refuse(ty);
    }
    let from = [context.source(value, ty.bits())?].into();
    let (at, bar) = (context.address(at)?, context.address(bar)?);
    Ok(Op::StoreAsync { bytes: ty.bits() / 8, from, at, bar, reduction: Some(op) })
}

/// What is done, and on which type.
fn operation(opcode: &mut Opcode<'_>, vector: bool) -> Result<(AtomicOp, Type), String> {
    const NAMES: [&str; 10] = ["exch", "cas", "and", "or", "xor", "add", "min", "max", "inc", "dec"];
    let name = NAMES.into_iter().find(|name| opcode.flag(name)).ok_or("has no operation that is emulated")?;
    let ty = opcode.ty()?;
    let halves = |reduction| match ty {
        Type::F16 | Type::F16x2 => AtomicOp::Halves(reduction, DataType::F16),
        _ => AtomicOp::Halves(reduction, DataType::Bf16),
    };
    let op = match (name, ty) {
        ("add", Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => halves(Reduction::Add),
        ("min", Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) if vector => halves(Reduction::Min),
        ("max", Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) if vector => halves(Reduction::Max),
        ("add", Type::F32) => AtomicOp::AddFloat,
        _ if vector => return opcode.refuse(ty),
        ("exch", Type::B(32 | 64)) => AtomicOp::Exchange,
        ("cas", Type::B(16 | 32 | 64)) => AtomicOp::CompareAndSwap,
        ("and", Type::B(32 | 64)) => AtomicOp::And,
        ("or", Type::B(32 | 64)) => AtomicOp::Or,
        ("xor", Type::B(32 | 64)) => AtomicOp::Xor,
        ("add", Type::U(32 | 64) | Type::S(32 | 64)) => AtomicOp::AddInteger,
        ("add", Type::F64) => AtomicOp::AddFloat,
        ("min", Type::U(32 | 64)) => AtomicOp::MinUnsigned,
        ("max", Type::U(32 | 64)) => AtomicOp::MaxUnsigned,
        ("min", Type::S(32 | 64)) => AtomicOp::MinSigned,
        ("max", Type::S(32 | 64)) => AtomicOp::MaxSigned,
        ("inc", Type::U(32)) => AtomicOp::Increment,
        ("dec", Type::U(32)) => AtomicOp::Decrement,
        _ => return opcode.refuse(ty),
    };
    Ok((op, ty))
}
