//! Integers side by side in a register.
//!
//! PTX ISA, "SIMD Video Instructions", without selection, masks and saturation, and the `.u16x2` and `.s16x2` forms of "add", "min"
//! and "max".

use super::Result_;
use super::context::Context;
use super::each::each;
use super::opcode::Opcode;
use super::types::Type;
use tilewright_ptx::ast::Operand;

/// Whether an instruction is one of these.
pub(super) fn is_simd(opcode: &Opcode<'_>) -> bool {
    match opcode.name() {
        "add" | "min" | "max" => opcode.has("u16x2") || opcode.has("s16x2"),
        name => video(name).is_some(),
    }
}

/// The operation of a video instruction, and how many parts it has.
fn video(name: &str) -> Option<(&str, u32)> {
    let name = name.strip_prefix('v')?;
    let (name, parts) = match name.strip_suffix('4') {
        Some(name) => (name, 4),
        None => (name.strip_suffix('2')?, 2),
    };
    matches!(name, "add" | "sub" | "avrg" | "absdiff" | "min" | "max").then_some((name, parts))
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let word = Type::B(32);
    if let Some((name, parts)) = video(opcode.name()) {
        let (_, left, right) = (opcode.ty()?, opcode.ty()?, opcode.ty()?);
        // What `.add` adds the parts of the result to; without it, the operand is for parts that a mask leaves out.
        let total = opcode.flag("add");
        let [d, a, b, c] = operands else { return Err("takes four operands".into()) };
        let f = function(name)?;
        return each(context, (d, word), &[(a, word), (b, word), (c, word)], move |[a, b, c, _]| {
            let width = 32 / parts;
            let values = (0..parts)
                .map(|i| f(part(a, i, width, left.is_signed()), part(b, i, width, right.is_signed())));
            match total {
                true => values.fold(c, |sum, value| sum.wrapping_add(value as u64)) & 0xffff_ffff,
                false => pack(values, width),
            }
        });
    }
    let signed = opcode.any(&[("u16x2", false), ("s16x2", true)]).ok_or("has no type that is emulated")?;
    let relu = signed && opcode.name() != "add" && opcode.flag("relu");
    let f = function(opcode.name())?;
    let [d, a, b] = operands else { return Err("takes three operands".into()) };
    each(context, (d, word), &[(a, word), (b, word)], move |[a, b, ..]| {
        let value = |i| f(part(a, i, 16, signed), part(b, i, 16, signed));
        pack((0..2).map(|i| if relu { value(i).max(0) } else { value(i) }), 16)
    })
}

fn function(name: &str) -> Result<fn(i64, i64) -> i64, String> {
    Ok(match name {
        "add" => |a, b| a + b,
        "sub" => |a, b| a - b,
        // Halves are rounded up.
        "avrg" => |a, b| (a + b + 1) >> 1,
        "absdiff" => |a, b| (a - b).abs(),
        "min" => |a, b| a.min(b),
        "max" => |a, b| a.max(b),
        _ => return Err("this instruction is not emulated".into()),
    })
}

fn part(word: u64, i: u32, width: u32, signed: bool) -> i64 {
    let up = (word << (64 - width * (i + 1))) as i64;
    if signed { up >> (64 - width) } else { (up as u64 >> (64 - width)) as i64 }
}

fn pack(values: impl Iterator<Item = i64>, width: u32) -> u64 {
    values
        .enumerate()
        .fold(0, |word, (i, value)| word | (value as u64 & ((1 << width) - 1)) << (width * i as u32))
}
