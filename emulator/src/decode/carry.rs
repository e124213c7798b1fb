//! Arithmetic with a carry.
//!
//! PTX ISA, "Extended-Precision Integer Arithmetic Instructions". The flag is a predicate of the program. The manual calls what a
//! difference leaves its borrow; here it is the opposite, the carry of `a + !b + 1`, which `subc` takes. Only `addc` after a
//! difference tells them apart: an H200 has it so, and the division of 128-bit integers that nvcc emits needs it.

use super::Result_;
use super::context::Context;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Each, EachOp};
use tilewright_ptx::ast::Operand;

/// Whether an instruction is one of these.
pub(super) fn is_carrying(opcode: &Opcode<'_>) -> bool {
    matches!(opcode.name(), "addc" | "subc" | "madc") || opcode.has("cc")
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let (name, leaves) = (opcode.name(), opcode.flag("cc"));
    let half = opcode.any(&[("lo", false), ("hi", true)]);
    let ty = opcode.ty()?;
    let (Type::U(bits @ (32 | 64)) | Type::S(bits @ (32 | 64)) | Type::B(bits @ (32 | 64))) = ty else {
        return opcode.refuse(ty);
    };
    let add = move |a: u64, b: u64, carry: bool| {
        let sum = u128::from(a) + u128::from(b) + u128::from(carry);
        (sum as u64, sum >> bits != 0)
    };
    // Results of 32 bits are cut by their register.
    let f: Each = match (name, half, operands.len()) {
        ("add" | "addc", None, 3) => Box::new(move |[a, b, ..], carry| add(a, b, carry)),
        ("sub" | "subc", None, 3) => {
            let (first, mask) = (name == "sub", u64::MAX >> (64 - bits));
            Box::new(move |[a, b, ..], carry| add(a, !b & mask, first || carry))
        }
        ("mad" | "madc", Some(high), 4) => {
            let (signed, mask) = (ty.is_signed(), u64::MAX >> (64 - bits));
            let extend = move |x: u64| match (signed, bits) {
                (true, 32) => i128::from(x as i32),
                (true, _) => i128::from(x as i64),
                (false, _) => i128::from(x),
            };
            Box::new(move |[a, b, c, _], carry| {
                let product = extend(a).wrapping_mul(extend(b)) as u128;
                let part = if high { product >> bits } else { product } as u64 & mask;
                add(part, c, carry)
            })
        }
        (_, _, count) => return Err(format!("does not take {count} operands, or needs `.lo` or `.hi`")),
    };
    let flag = context.carry();
    let take = name.ends_with('c').then_some(flag);
    let [d, from @ ..] = operands else { return Err("takes a destination".into()) };
    let from = from.iter().map(|operand| context.source(operand, bits)).collect::<Result<_, _>>()?;
    let d = context.destination(d, bits)?;
    Ok(Op::Each(Box::new(EachOp { f, d, from, take, leave: leaves.then_some(flag) })))
}
