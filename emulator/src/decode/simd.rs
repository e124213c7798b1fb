//! Integers side by side in a register: the `.u16x2` and `.s16x2` forms of "add", "min" and "max".
//!
//! PTX ISA, "Integer Arithmetic Instructions".

use super::Result_;
use super::context::Context;
use super::each::each;
use super::opcode::Opcode;
use super::types::Type;
use tilewright_ptx::ast::Operand;

/// Whether an instruction is one of these.
pub(super) fn is_simd(opcode: &Opcode<'_>) -> bool {
    matches!(opcode.name(), "add" | "min" | "max") && (opcode.has("u16x2") || opcode.has("s16x2"))
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let word = Type::B(32);
    let signed = opcode.any(&[("u16x2", false), ("s16x2", true)]).ok_or("has no type that is emulated")?;
    let relu = signed && opcode.name() != "add" && opcode.flag("relu");
    let f: fn(i64, i64) -> i64 = match opcode.name() {
        "add" => |a, b| a + b,
        "min" => |a, b| a.min(b),
        _ => |a, b| a.max(b),
    };
    let [d, a, b] = operands else { return Err("takes three operands".into()) };
    each(context, (d, word), &[(a, word), (b, word)], move |[a, b, ..]| {
        let half = |x: u64, i: u32| {
            let x = (x >> (16 * i)) as u16;
            if signed { i64::from(x as i16) } else { x.into() }
        };
        (0..2).fold(0, |all, i| {
            let value = f(half(a, i), half(b, i));
            let value = if relu { value.max(0) } else { value };
            all | (value as u64 & 0xffff) << (16 * i)
        })
    })
}
