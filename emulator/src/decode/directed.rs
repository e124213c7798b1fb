//! Arithmetic of f32 and f64 that is not rounded to nearest.
//!
//! PTX ISA, "Floating Point Instructions": `.rz`, `.rm`, `.rp`.

use super::Result_;
use super::context::Context;
use super::each::each;
use super::float;
use super::opcode::Opcode;
use super::types::Type;
use crate::tensor::float::exact::{self, Unrounded};
use crate::tensor::float::{NAN, Rounding};
use tilewright_ptx::ast::Operand;

/// Which operand's NaN a result of f64 is, if several are.
#[derive(Clone, Copy)]
enum Order {
    /// As the operation has it.
    Own,
    SecondFirst,
    OfSum,
}

/// Whether an instruction is one of these.
pub(super) fn is_directed(opcode: &Opcode<'_>) -> bool {
    let rounds = ["rz", "rm", "rp"].iter().any(|rounding| opcode.has(rounding));
    let has = matches!(opcode.name(), "add" | "sub" | "mul" | "fma" | "mad" | "div" | "rcp" | "sqrt");
    rounds && has && (opcode.has("f32") || opcode.has("f64"))
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let roundings = [("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];
    let rounding = opcode.any(&roundings).ok_or("has no rounding")?;
    let (name, ty) = (opcode.name(), opcode.ty()?);
    let single = ty == Type::F32;
    let (ftz, sat) = (single && opcode.flag("ftz"), single && opcode.flag("sat"));
    let compute: fn([f64; 3], Rounding) -> Unrounded = match (name, operands.len()) {
        ("add", 3) => |[a, b, _], rounding| exact::add(a, b, rounding),
        ("sub", 3) => |[a, b, _], rounding| exact::add(a, -b, rounding),
        ("mul", 3) => |[a, b, _], rounding| exact::mul(a, b, rounding),
        ("fma" | "mad", 4) => |[a, b, c], rounding| exact::fma(a, b, c, rounding),
        ("div", 3) => |[a, b, _], _| exact::div(a, b),
        ("rcp", 2) => |[a, ..], _| exact::div(1.0, a),
        ("sqrt", 2) => |[a, ..], _| exact::sqrt(a),
        (_, count) => return Err(format!("does not take {count} operands")),
    };
    let order = match name {
        "add" | "sub" | "mul" => Order::SecondFirst,
        "fma" | "mad" => Order::OfSum,
        _ => Order::Own,
    };
    let [d, operands @ ..] = operands else { return Err("takes a destination".into()) };
    let operands: Vec<_> = operands.iter().map(|operand| (operand, ty)).collect();
    each(context, (d, ty), &operands, move |[a, b, c, _]| {
        if !single {
            let [a, b, c] = [a, b, c].map(f64::from_bits);
            let result = compute([a, b, c], rounding).f64(rounding);
            return match order {
                Order::Own => result,
                Order::SecondFirst => float::nan64(result, [b, a]),
                Order::OfSum => float::nan64(result, [b, c, a]),
            }
            .to_bits();
        }
        let flush = |x: f32| if ftz { float::flush(x) } else { x };
        let operands = [a, b, c].map(|x| f64::from(flush(f32::from_bits(x as u32))));
        let result = compute(operands, rounding);
        let single = result.f32(rounding);
        // Away from zero to the least normal number, from where a number without a least exponent would not get there.
        let least = f64::from(f32::MIN_POSITIVE);
        let tiny = ftz
            && single.abs() == f32::MIN_POSITIVE
            && result.f64(rounding).abs() <= least * (1.0 - f64::from(f32::EPSILON) / 2.0);
        let result = if tiny { 0f32.copysign(single) } else { flush(single) };
        let result = if sat { float::saturate(result) } else { result };
        u64::from(if result.is_nan() { NAN } else { result.to_bits() })
    })
}
