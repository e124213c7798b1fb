//! `mov`: registers, constants, addresses of variables, special registers; joining and splitting.
//!
//! PTX ISA, "mov".

use super::Result_;
use super::context::Context;
use super::lanes::f2;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::register::F2;
use tilewright_ptx::ast::Operand;

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let ty = opcode.ty()?;
    let [d, a] = operands else { return Err(format!("does not take {} operands", operands.len())) };
    match (ty, d, a) {
        (Type::Pred, Operand::Name(d), Operand::Integer(value)) => {
            Ok(Op::SetPredicate(context.predicate_to(d)?, *value != 0))
        }
        (Type::Pred, Operand::Name(d), a) => {
            Ok(Op::MovePredicate(context.predicate_to(d)?, context.condition(a)?))
        }
        (_, d, Operand::Name(name)) if ty.bits() == 32 && name == "%clock" => {
            Ok(Op::Clock32(context.to_r(d, 32)?))
        }
        (_, d, Operand::Name(name)) if ty.bits() == 64 && (name == "%clock64" || name == "%globaltimer") => {
            Ok(Op::Clock64(context.to_d(d)?))
        }
        (_, d, a) if context.in_frame(a).is_some_and(|_| ty.bits() >= 32) => frame_address(context, ty, d, a),
        (_, Operand::Vector(to), a) => split(context, ty, to, a),
        (_, d, Operand::Vector(from)) => join(context, ty, d, from),
        _ if ty.bits() == 64 => Ok(Op::Move64(context.to_d(d)?, context.d(a)?)),
        _ if ty.bits() == 16 || ty.bits() == 32 => {
            Ok(Op::Move32(context.to_r(d, ty.bits())?, context.r(a, ty.bits())?))
        }
        _ => opcode.refuse(ty),
    }
}

/// The address of a variable of the function's frame.
fn frame_address(context: &mut Context, ty: Type, d: &Operand, a: &Operand) -> Result_ {
    let (frame, offset) = context.in_frame(a).ok_or("takes a variable")?;
    let offset = context.constant32(offset);
    if ty.bits() == 64 {
        let f: F2<u64, u32, u32> = f2!(|a: u32, b: u32| -> u32 { a.wrapping_add(b) });
        return Ok(Op::F2Wide(f, context.to_d(d)?, frame, offset));
    }
    let f: F2<u32, u32, u32> = f2!(|a: u32, b: u32| -> u32 { a.wrapping_add(b) });
    Ok(Op::F2_32(f, context.to_r(d, 32)?, frame, offset))
}

fn split(context: &mut Context, ty: Type, to: &[Operand], a: &Operand) -> Result_ {
    match (ty.bits(), to) {
        (64, [low, high]) => Ok(Op::Split64(context.to_r(low, 32)?, context.to_r(high, 32)?, context.d(a)?)),
        (32, [low, high]) => {
            Ok(Op::Split32(context.to_r(low, 16)?, context.to_r(high, 16)?, context.r(a, 32)?))
        }
        (64, [w, x, y, z]) => {
            let to = [w, x, y, z].map(|part| context.to_r(part, 16));
            let [w, x, y, z] = to;
            Ok(Op::Split16x4([w?, x?, y?, z?], context.d(a)?))
        }
        (bits, _) => Err(format!("splitting {bits} bits into {} is not emulated", to.len())),
    }
}

fn join(context: &mut Context, ty: Type, d: &Operand, from: &[Operand]) -> Result_ {
    match (ty.bits(), from) {
        (64, [low, high]) => Ok(Op::Join64(context.to_d(d)?, context.r(low, 32)?, context.r(high, 32)?)),
        (32, [low, high]) => Ok(Op::Join32(context.to_r(d, 32)?, context.r(low, 16)?, context.r(high, 16)?)),
        (64, [w, x, y, z]) => {
            let from = [w, x, y, z].map(|part| context.r(part, 16));
            let [w, x, y, z] = from;
            Ok(Op::Join16x4(context.to_d(d)?, [w?, x?, y?, z?]))
        }
        (bits, _) => Err(format!("joining {} into {bits} bits is not emulated", from.len())),
    }
}
