//! Arithmetic and moves that hardly anybody uses.
//!
//! PTX ISA, "mad", "mad24", "cnot", "min", "max", "prmt" and "cvt.pack".

use super::Result_;
use super::context::Context;
use super::each::each;
use super::logic::permute;
use super::opcode::Opcode;
use super::types::Type;
use crate::tensor::arith16;
use crate::tensor::float::Format;
use tilewright_ptx::ast::Operand;

/// How `prmt` takes bytes by a mode: the places of those of the result, for the selector's last two bits.
type Mode = fn(u32, u32) -> u32;

const MODES: [(&str, Mode); 6] = [
    ("f4e", |i, c| i + c),
    ("b4e", |i, c| c.wrapping_sub(i) & 7),
    ("rc8", |_, c| c),
    ("ecl", |i, c| i.max(c)),
    ("ecr", |i, c| i.min(c)),
    ("rc16", |i, c| i % 2 + c % 2 * 2),
];

/// Whether an instruction is one of these.
pub(super) fn is_seldom(opcode: &Opcode<'_>) -> bool {
    let half = ["f16", "f16x2", "bf16", "bf16x2"].iter().any(|ty| opcode.has(ty));
    match opcode.name() {
        "mad" => opcode.has("hi") && ["u16", "s16", "sat"].iter().any(|modifier| opcode.has(modifier)),
        "mad24" => opcode.has("sat"),
        "cnot" => opcode.has("b16"),
        "min" | "max" => half && opcode.has("xorsign"),
        "prmt" => MODES.iter().any(|(mode, _)| opcode.has(mode)),
        "cvt" => opcode.has("pack"),
        _ => false,
    }
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match (opcode.name(), operands) {
        ("mad" | "mad24", [d, a, b, c]) => multiply_add(context, opcode, d, [a, b, c]),
        ("cnot", [d, a]) => {
            let ty = opcode.ty()?;
            each(context, (d, ty), &[(a, ty)], |[a, ..]| u64::from(a == 0))
        }
        ("min" | "max", [d, a, b]) => extreme(context, opcode, d, [a, b]),
        ("prmt", [d, a, b, c]) => {
            let mode = opcode.any(&MODES).ok_or("has no mode")?;
            let ty = opcode.ty()?;
            if ty != Type::B(32) {
                return opcode.refuse(ty);
            }
            each(context, (d, ty), &[(a, ty), (b, ty), (c, ty)], move |[a, b, c, _]| {
                let selector = (0..4).fold(0, |all, i| all | mode(i, c as u32 & 3) << (4 * i));
                permute(a as u32, b as u32, selector).into()
            })
        }
        ("cvt", _) => pack(context, opcode, operands),
        _ => Err(format!("does not take {} operands", operands.len())),
    }
}

/// The upper half of a product and a sum, of 16 bits or, saturating, of 32.
fn multiply_add(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, from: [&Operand; 3]) -> Result_ {
    let (short, saturates) = (opcode.name() == "mad24", opcode.flag("sat"));
    if !opcode.flag("hi") {
        return Err("needs `.hi`".into());
    }
    let ty = opcode.ty()?;
    if saturates && ty != Type::S(32) || !saturates && !matches!(ty, Type::U(16) | Type::S(16)) {
        return opcode.refuse(ty);
    }
    let signed = ty.is_signed();
    let number = move |x: u64, bits: u32| {
        let up = x << (64 - bits);
        if signed { up as i64 >> (64 - bits) } else { (up >> (64 - bits)) as i64 }
    };
    each(context, (d, ty), &from.map(|operand| (operand, ty)), move |[a, b, c, _]| {
        if saturates {
            let (factors, shift) = if short { (24, 16) } else { (32, 32) };
            let product = (number(a, factors) * number(b, factors)) >> shift;
            let sum = i64::from(product as i32) + number(c, 32);
            return u64::from(sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32);
        }
        ((number(a, 16) * number(b, 16)) >> 16).wrapping_add(number(c, 16)) as u64 & 0xffff
    })
}

/// `min.xorsign.abs` of 16-bit numbers: that of the magnitudes, with the product of the signs.
fn extreme(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, [a, b]: [&Operand; 2]) -> Result_ {
    let (max, ftz, nan) = (opcode.name() == "max", opcode.flag("ftz"), opcode.flag("NaN"));
    if !(opcode.flag("xorsign") && opcode.flag("abs")) {
        return Err("needs `.xorsign.abs`".into());
    }
    let ty = opcode.ty()?;
    let format = match ty {
        Type::F16 | Type::F16x2 => Format::F16,
        Type::Bf16 | Type::Bf16x2 if !ftz => Format::BF16,
        _ => return opcode.refuse(ty),
    };
    let one = move |a: u64, b: u64| {
        let magnitude = |x: u64| {
            let x = x as u16 & 0x7fff;
            if ftz { arith16::ftz(format, x) } else { x }
        };
        let (a, b, sign) = (magnitude(a), magnitude(b), (a ^ b) as u16 & 0x8000);
        let result = if max { arith16::max(format, a, b, nan) } else { arith16::min(format, a, b, nan) };
        u64::from(if format.decode(result.into()).is_nan() { result } else { result | sign })
    };
    let pair = ty.bits() == 32;
    each(context, (d, ty), &[(a, ty), (b, ty)], move |[a, b, ..]| {
        if pair { one(a >> 16, b >> 16) << 16 | one(a, b) } else { one(a, b) }
    })
}

/// `cvt.pack.sat`: two integers cut to what a few bits hold, behind those that are there.
fn pack(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let widths = [
        ("u16", (16, false)),
        ("s16", (16, true)),
        ("u8", (8, false)),
        ("s8", (8, true)),
        ("u4", (4, false)),
        ("s4", (4, true)),
        ("u2", (2, false)),
        ("s2", (2, true)),
    ];
    if !(opcode.flag("pack") && opcode.flag("sat") && opcode.flag("s32")) {
        return Err("needs `.pack.sat` and integers of type `.s32`".into());
    }
    let (bits, signed) = opcode.any(&widths).ok_or("has no type that is emulated")?;
    let behind = opcode.flag("b32");
    let word = Type::B(32);
    let (d, from) = match operands {
        [d, a, b] if bits == 16 && !behind => (d, vec![(a, word), (b, word)]),
        [d, a, b, c] if bits < 16 && behind => (d, vec![(a, word), (b, word), (c, word)]),
        _ => return Err(format!("does not take {} operands", operands.len())),
    };
    each(context, (d, word), &from, move |[a, b, c, _]| {
        let cut = |x: u64| {
            let (least, most) =
                if signed { (-1 << (bits - 1), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
            i64::from(x as u32 as i32).clamp(least, most) as u64 & ((1 << bits) - 1)
        };
        (c << (2 * bits) | cut(a) << bits | cut(b)) & 0xffff_ffff
    })
}
