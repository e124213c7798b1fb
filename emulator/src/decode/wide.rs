//! 128 bits: moves, loads, stores and atomic operations of two registers of 64 bits.
//!
//! PTX ISA, "mov", "ld", "st" and "atom", their forms with `.b128`.

use super::context::Context;
use super::memory::{Hints, hints, window, without_policy};
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Destination, Ordering, Source};
use tilewright_ptx::ast::Operand;

/// Whether an instruction is one of these.
pub(super) fn is_wide(opcode: &Opcode<'_>) -> bool {
    matches!(opcode.name(), "mov" | "ld" | "ldu" | "st" | "atom") && opcode.has("b128")
}

pub(super) fn decode(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
) -> Result<Vec<Op>, String> {
    let read_only = opcode.has("nc");
    let Hints { policy, ordering, scope } = hints(opcode);
    let operands = without_policy(context, operands, policy)?;
    let name = opcode.name();
    let operation = if name == "atom" { opcode.any(&[("exch", 2), ("cas", 3)]) } else { None };
    let address = match (name, operands) {
        ("st", [at, ..]) | ("ld" | "ldu" | "atom", [_, at, ..]) => Some(at),
        _ => None,
    };
    let window = address.map(|at| window(context, opcode, at));
    let ty = opcode.ty()?;
    if ty != Type::B(128) {
        return opcode.refuse(ty);
    }
    match (name, operands, window) {
        ("mov", [d, a], None) => moves(context, d, a),
        ("ld" | "ldu", [d, at], Some(window)) => {
            let to = match d {
                Operand::Name(sink) if sink == "_" => [Destination::Sink; 2],
                d => context.quad(d)?.map(Destination::D),
            };
            let (ordering, at) = (ordering.map(|ordering| ordering.at(window)), context.address(at)?);
            Ok(vec![Op::Load { window, bytes: 8, signed: false, to: to.into(), at, ordering, read_only }])
        }
        ("st", [at, a], Some(window)) => {
            let (ordering, at) = (ordering.map(|ordering| ordering.at(window)), context.address(at)?);
            Ok(vec![Op::Store {
                window,
                bytes: 8,
                from: context.quad(a)?.map(Source::D).into(),
                at,
                ordering,
            }])
        }
        ("atom", [d, at, values @ ..], Some(window)) if Some(values.len() + 1) == operation => {
            let d = match d {
                Operand::Name(sink) if sink == "_" => None,
                d => Some(context.quad(d)?),
            };
            let ordering = Ordering { scope, ..ordering.unwrap_or(Ordering::RELAXED) }.at(window);
            let values = values.iter().map(|value| context.quad(value)).collect::<Result<Vec<_>, _>>()?;
            let [b, c @ ..] = values.as_slice() else { return Err("takes a value".into()) };
            let (at, c) = (context.address(at)?, c.first().copied());
            Ok(vec![Op::Atomic128 { window, at, d, b: *b, c, ordering }])
        }
        _ => Err(format!("is not emulated with {} operands of type {ty:?}", operands.len())),
    }
}

/// Copies, joins or splits.
fn moves(context: &mut Context, d: &Operand, a: &Operand) -> Result<Vec<Op>, String> {
    let (to, from) = match (d, a) {
        (Operand::Vector(d), a) => match d.as_slice() {
            [low, high] => ([context.to_d(low)?, context.to_d(high)?], context.quad(a)?),
            _ => return Err(format!("splitting 128 bits into {} is not emulated", d.len())),
        },
        (d, Operand::Vector(a)) => match a.as_slice() {
            [low, high] => (context.quad(d)?, [context.d(low)?, context.d(high)?]),
            _ => return Err(format!("joining {} into 128 bits is not emulated", a.len())),
        },
        (d, a) => (context.quad(d)?, context.quad(a)?),
    };
    Ok(to.into_iter().zip(from).map(|(to, from)| Op::Move64(to, from)).collect())
}
