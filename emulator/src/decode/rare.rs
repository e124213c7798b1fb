//! Arithmetic of integers and floats that is rare.
//!
//! PTX ISA, "Integer Arithmetic Instructions", "Floating Point Instructions" and "slct".

use super::context::Context;
use super::each::each;
use super::opcode::Opcode;
use super::types::Type;
use super::{Result_, float};
use crate::program::op::Op;
use crate::program::operand::{Destination, EachOp};
use tilewright_ptx::ast::Operand;

/// Whether an instruction is one of these.
pub(super) fn is_rare(opcode: &Opcode<'_>) -> bool {
    let wide = opcode.has("u64") || opcode.has("s64") || opcode.has("b64");
    match opcode.name() {
        "sad" | "mul24" | "mad24" | "dp2a" | "bfind" | "bmsk" | "fns" | "szext" | "slct" | "testp"
        | "copysign" => true,
        "mad" => wide && opcode.has("hi"),
        "bfi" | "cnot" => wide,
        "min" | "max" => opcode.has("f64") || opcode.has("xorsign"),
        "rcp" | "rsqrt" | "sqrt" => opcode.has("f64"),
        _ => false,
    }
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match opcode.name() {
        "min" | "max" | "rcp" | "rsqrt" | "sqrt" | "copysign" => floats(context, opcode, operands),
        "testp" => test(context, opcode, operands),
        "slct" => choose(context, opcode, operands),
        "dp2a" => dot(context, opcode, operands),
        _ => integers(context, opcode, operands),
    }
}

/// A value of `bits`, as a number.
fn number(x: u64, ty: Type) -> i128 {
    let unused = 64 - ty.bits();
    if ty.is_signed() { ((x << unused) as i64 >> unused).into() } else { x.into() }
}

fn integers(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let name = opcode.name();
    let high = opcode.any(&[("lo", false), ("hi", true)]);
    let (amount, wrap) = (opcode.flag("shiftamt"), opcode.any(&[("clamp", false), ("wrap", true)]));
    let ty = opcode.ty()?;
    let bits = ty.bits();
    let word = Type::B(32);
    let integer = matches!(ty, Type::U(32 | 64) | Type::S(32 | 64) | Type::B(32 | 64));
    let half_word = name == "sad" && matches!(ty, Type::U(16) | Type::S(16));
    if !integer && !half_word {
        return opcode.refuse(ty);
    }
    match (name, operands, high) {
        ("sad", [d, a, b, c], None) => {
            each(context, (d, ty), &[(a, ty), (b, ty), (c, ty)], move |[a, b, c, _]| {
                ((number(a, ty) - number(b, ty)).unsigned_abs() as u64).wrapping_add(c)
            })
        }
        ("mad", [d, a, b, c], Some(true)) if bits == 64 => {
            each(context, (d, ty), &[(a, ty), (b, ty), (c, ty)], move |[a, b, c, _]| {
                let product = number(a, ty).wrapping_mul(number(b, ty));
                ((product >> 64) as u64).wrapping_add(c)
            })
        }
        // Of the product of 24 bits, 48 long, the low or the high 32.
        ("mul24", [d, a, b], Some(high)) if bits == 32 => {
            each(context, (d, ty), &[(a, ty), (b, ty)], move |[a, b, ..]| product24(a, b, ty, high))
        }
        ("mad24", [d, a, b, c], Some(high)) if bits == 32 => {
            each(context, (d, ty), &[(a, ty), (b, ty), (c, ty)], move |[a, b, c, _]| {
                product24(a, b, ty, high).wrapping_add(c)
            })
        }
        ("bfind", [d, a], None) => each(context, (d, word), &[(a, ty)], move |[a, ..]| {
            // Of a negative number, the highest bit that is not its sign.
            let negative = ty.is_signed() && a >> (bits - 1) != 0;
            let a = if negative { !a & (u64::MAX >> (64 - bits)) } else { a };
            let place = 63u64.wrapping_sub(a.leading_zeros().into());
            match (a, amount) {
                (0, _) => u64::MAX,
                (_, true) => u64::from(bits) - 1 - place,
                _ => place,
            }
        }),
        ("bmsk", [d, a, b], None) if ty == word => {
            let wrap = wrap.ok_or("needs `.clamp` or `.wrap`")?;
            each(context, (d, ty), &[(a, ty), (b, ty)], move |[start, count, ..]| {
                let cut = |x: u64| if wrap { x & 31 } else { x.min(32) };
                let (start, count) = (cut(start), cut(count));
                ((1 << count) - 1) << start
            })
        }
        ("szext", [d, a, b], None) if bits == 32 => {
            let wrap = wrap.ok_or("needs `.clamp` or `.wrap`")?;
            each(context, (d, ty), &[(a, ty), (b, word)], move |[a, count, ..]| {
                let count = if wrap { count & 31 } else { count.min(32) } as u32;
                match (count, ty.is_signed()) {
                    (0, _) => 0,
                    (_, false) => a & (u64::MAX >> (64 - count)),
                    (_, true) => ((a << (64 - count)) as i64 >> (64 - count)) as u64,
                }
            })
        }
        ("fns", [d, a, b, c], None) if ty == word => {
            each(context, (d, ty), &[(a, ty), (b, word), (c, Type::S(32))], |[mask, base, nth, _]| {
                nth_set(mask as u32, base as u32, nth as u32 as i32).into()
            })
        }
        ("bfi", [d, a, b, start, length], None) if bits == 64 => {
            let operands = [(a, ty), (b, ty), (start, word), (length, word)];
            each(context, (d, ty), &operands, |[a, b, start, length]| {
                let (start, length) = (start & 0xff, length & 0xff);
                if start >= 64 || length == 0 {
                    return b;
                }
                let mask = (u64::MAX >> (64 - length.min(64))) << start;
                b & !mask | a << start & mask
            })
        }
        ("cnot", [d, a], None) => each(context, (d, ty), &[(a, ty)], |[a, ..]| u64::from(a == 0)),
        _ => Err(format!("is not emulated with {} operands of type {ty:?}", operands.len())),
    }
}

fn product24(a: u64, b: u64, ty: Type, high: bool) -> u64 {
    let cut = |x: u64| match ty.is_signed() {
        true => i64::from((x as u32) << 8) << 32 >> 40,
        false => (x & 0xff_ffff) as i64,
    };
    let product = cut(a).wrapping_mul(cut(b)) as u64;
    (if high { product >> 16 } else { product }) & 0xffff_ffff
}

/// The place of the nth bit that is set, counted from `base` on upwards, or downwards where n is negative.
fn nth_set(mask: u32, base: u32, nth: i32) -> u32 {
    let set = |place: &u32| mask >> place & 1 != 0;
    let found = match nth {
        0 => Some(base).filter(|base| *base < 32 && set(base)),
        1.. => (base..32).filter(set).nth(nth as usize - 1),
        _ => (0..=base.min(31)).rev().filter(set).nth(nth.unsigned_abs() as usize - 1),
    };
    found.unwrap_or(u32::MAX)
}

/// `dp2a`: two products of 16 by 8 bits.
fn dot(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let high = opcode.any(&[("lo", false), ("hi", true)]).ok_or("needs `.lo` or `.hi`")?;
    let (left, right) = (opcode.ty()?, opcode.ty()?);
    let [d, a, b, c] = operands else { return Err("takes four operands".into()) };
    if ![left, right].iter().all(|ty| matches!(ty, Type::U(32) | Type::S(32))) {
        return opcode.refuse(left);
    }
    let word = Type::B(32);
    each(context, (d, word), &[(a, word), (b, word), (c, word)], move |[a, b, c, _]| {
        let bytes = if high { b >> 16 } else { b };
        let product = |i: u32| {
            let (a, b) = ((a >> (16 * i)) as u16, (bytes >> (8 * i)) as u8);
            let a = if left.is_signed() { i64::from(a as i16) } else { a.into() };
            a * if right.is_signed() { i64::from(b as i8) } else { b.into() }
        };
        (c as i64).wrapping_add(product(0) + product(1)) as u64 & 0xffff_ffff
    })
}

fn floats(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let name = opcode.name();
    let (approximate, ftz) = (opcode.flag("approx"), opcode.flag("ftz"));
    let nearest = opcode.flag("rn");
    let (nan, xorsign) = (opcode.flag("NaN"), opcode.flag("xorsign") && opcode.flag("abs"));
    let ty = opcode.ty()?;
    let plain = !(approximate || ftz || nearest || nan || xorsign);
    match (name, operands, ty) {
        ("min" | "max", [d, a, b], Type::F64) if plain => {
            let max = name == "max";
            each(context, (d, ty), &[(a, ty), (b, ty)], move |[a, b, ..]| {
                let (x, y) = (f64::from_bits(a), f64::from_bits(b));
                let second = match max {
                    true => y > x || x == y && x.is_sign_negative(),
                    false => y < x || x == y && y.is_sign_negative(),
                };
                // A NaN where both are one.
                let quiet = if x.is_nan() && y.is_nan() { 1 << 51 } else { 0 };
                if x.is_nan() || second { b | quiet } else { a }
            })
        }
        ("min" | "max", [d, a, b], Type::F32) if xorsign && !approximate && !nearest => {
            let max = name == "max";
            each(context, (d, ty), &[(a, ty), (b, ty)], move |[a, b, ..]| {
                let flush = |x: u64| {
                    if ftz { float::flush(f32::from_bits(x as u32)) } else { f32::from_bits(x as u32) }
                };
                let (x, y) = (flush(a).abs(), flush(b).abs());
                let magnitude = match (max, nan) {
                    (true, false) => float::max(x, y),
                    (true, true) => float::max_nan(x, y),
                    (false, false) => float::min(x, y),
                    (false, true) => float::min_nan(x, y),
                };
                match magnitude.is_nan() {
                    true => 0x7fff_ffff,
                    false => u64::from(magnitude.to_bits()) | (a ^ b) & 1 << 31,
                }
            })
        }
        ("rcp" | "sqrt", [d, a], Type::F64) if nearest && !approximate && !ftz => {
            let root = name == "sqrt";
            each(context, (d, ty), &[(a, ty)], move |[a, ..]| {
                let a = f64::from_bits(a);
                (if root { a.sqrt() } else { 1.0 / a }).to_bits()
            })
        }
        // The upper half of the argument, and a result of which the lower half is zero.
        ("rcp" | "rsqrt", [d, a], Type::F64) if approximate && (ftz || name == "rsqrt") => {
            let root = name == "rsqrt";
            each(context, (d, ty), &[(a, ty)], move |[a, ..]| {
                let flush = |x: f64| if ftz && x.is_subnormal() { 0f64.copysign(x) } else { x };
                let a = if ftz { a & !0xffff_ffff } else { a };
                let a = flush(f64::from_bits(a));
                let result = flush(if root { 1.0 / a.sqrt() } else { 1.0 / a }).to_bits();
                if ftz { result.saturating_add(1 << 31) & !0xffff_ffff } else { result }
            })
        }
        ("copysign", [d, a, b], Type::F32 | Type::F64) if plain => {
            let sign = 1u64 << (ty.bits() - 1);
            each(context, (d, ty), &[(a, ty), (b, ty)], move |[a, b, ..]| a & sign | b & !sign)
        }
        _ => opcode.refuse(ty),
    }
}

/// `testp`.
fn test(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    type Test = fn(f64, bool) -> bool;
    let tests: [(&str, Test); 6] = [
        ("finite", |x, _| x.is_finite()),
        ("infinite", |x, _| x.is_infinite()),
        ("number", |x, _| !x.is_nan()),
        ("notanumber", |x, _| x.is_nan()),
        // Zeros count as normal numbers.
        ("normal", |x, subnormal| x.is_finite() && !subnormal),
        ("subnormal", |_, subnormal| subnormal),
    ];
    let test = opcode.any(&tests).ok_or("has no test that is emulated")?;
    let (ty, [Operand::Name(p), a]) = (opcode.ty()?, operands) else {
        return Err("takes a predicate and a number".into());
    };
    let f = move |x: u64| match ty {
        Type::F32 => {
            let x = f32::from_bits(x as u32);
            test(x.into(), x.is_subnormal())
        }
        _ => test(f64::from_bits(x), f64::from_bits(x).is_subnormal()),
    };
    if !matches!(ty, Type::F32 | Type::F64) {
        return opcode.refuse(ty);
    }
    let leave = Some(context.predicate_to(p)?);
    let from = Box::new([context.source(a, ty.bits())?]);
    let f = Box::new(move |[x, ..]: [u64; 4], _| (0, f(x)));
    Ok(Op::Each(Box::new(EachOp { f, d: Destination::Sink, from, take: None, leave })))
}

/// `slct`: by the sign of the last operand.
fn choose(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let ftz = opcode.flag("ftz");
    let (ty, by) = (opcode.ty()?, opcode.ty()?);
    let [d, a, b, c] = operands else { return Err("takes four operands".into()) };
    if !matches!(by, Type::S(32) | Type::F32) || ty.bits() < 16 || ftz && by != Type::F32 {
        return opcode.refuse(by);
    }
    each(context, (d, ty), &[(a, ty), (b, ty), (c, by)], move |[a, b, c, _]| {
        let first = match by {
            Type::F32 => f32::from_bits(c as u32) >= 0.0 || ftz && f32::from_bits(c as u32).is_subnormal(),
            _ => c as u32 as i32 >= 0,
        };
        if first { a } else { b }
    })
}
