//! What the lanes of a warp do together.
//!
//! PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync".

use super::Result_;
use super::context::Context;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{AtomicOp, Shuffle, Vote};
use tilewright_ptx::ast::Operand;

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    if opcode.name() == "activemask" {
        return match (opcode.ty()?, operands) {
            (Type::B(32), [d]) => Ok(Op::ActiveMask(context.to_r(d, 32)?)),
            (ty, _) => opcode.refuse(ty),
        };
    }
    if !opcode.flag("sync") {
        return Err("only the form with `.sync` is emulated".into());
    }
    let Some((members, operands)) = operands.split_last() else { return Err("takes a mask of lanes".into()) };
    let members = context.r(members, 32)?;
    match (opcode.name(), operands) {
        ("shfl", [d, a, b, c]) => {
            let kinds = [
                ("up", Shuffle::Up),
                ("down", Shuffle::Down),
                ("bfly", Shuffle::Butterfly),
                ("idx", Shuffle::Index),
            ];
            let kind = opcode.any(&kinds).ok_or("has no mode")?;
            if opcode.ty()? != Type::B(32) {
                return Err("only 32 bits are emulated".into());
            }
            let (d, valid) = match d {
                Operand::Pair(d, p) => {
                    (context.to_r(&Operand::Name(d.clone()), 32)?, Some(context.predicate_to(p)?))
                }
                d => (context.to_r(d, 32)?, None),
            };
            let (a, b, c) = (context.r(a, 32)?, context.r(b, 32)?, context.r(c, 32)?);
            Ok(Op::Shuffle { kind, d, valid, a, b, c, members })
        }
        ("vote", [d, a]) => {
            let a = context.condition(a)?;
            if opcode.flag("ballot") {
                return match opcode.ty()? {
                    Type::B(32) => Ok(Op::Ballot { d: context.to_r(d, 32)?, a, members }),
                    ty => opcode.refuse(ty),
                };
            }
            let kinds = [("any", Vote::Any), ("all", Vote::All), ("uni", Vote::Uniform)];
            let kind = opcode.any(&kinds).ok_or("has no mode")?;
            match (opcode.ty()?, d) {
                (Type::Pred, Operand::Name(d)) => {
                    Ok(Op::Vote { kind, d: context.predicate_to(d)?, a, members })
                }
                (ty, _) => opcode.refuse(ty),
            }
        }
        ("match", [d, a]) => {
            let all = opcode.any(&[("any", false), ("all", true)]).ok_or("needs `.any` or `.all`")?;
            let (d, agree) = match d {
                Operand::Pair(d, p) if all => (&Operand::Name(d.clone()), Some(context.predicate_to(p)?)),
                d => (d, None),
            };
            match opcode.ty()? {
                Type::B(bits @ (32 | 64)) => {
                    let (d, a) = (context.to_r(d, 32)?, context.source(a, bits)?);
                    Ok(Op::Match { d, all, agree, a, members })
                }
                ty => opcode.refuse(ty),
            }
        }
        ("redux", [d, a]) => {
            let name = opcode.any(&[
                ("add", "add"),
                ("min", "min"),
                ("max", "max"),
                ("and", "and"),
                ("or", "or"),
                ("xor", "xor"),
            ]);
            let op = match (name.ok_or("has no operation that is emulated")?, opcode.ty()?) {
                ("add", Type::U(32) | Type::S(32)) => AtomicOp::AddInteger,
                ("min", Type::U(32)) => AtomicOp::MinUnsigned,
                ("max", Type::U(32)) => AtomicOp::MaxUnsigned,
                ("min", Type::S(32)) => AtomicOp::MinSigned,
                ("max", Type::S(32)) => AtomicOp::MaxSigned,
                ("and", Type::B(32)) => AtomicOp::And,
                ("or", Type::B(32)) => AtomicOp::Or,
                ("xor", Type::B(32)) => AtomicOp::Xor,
                (_, ty) => return opcode.refuse(ty),
            };
            Ok(Op::Reduce { op, d: context.to_r(d, 32)?, a: context.r(a, 32)?, members })
        }
        ("elect", [Operand::Pair(d, p)]) => {
            let d = if d == "_" { None } else { Some(context.to_r(&Operand::Name(d.clone()), 32)?) };
            Ok(Op::Elect { d, p: context.predicate_to(p)?, members })
        }
        _ => Err("this form is not emulated".into()),
    }
}
