//! `cvt`.
//!
//! PTX ISA, "cvt". The frequent conversions have functions of whole registers, the others go lane by lane.

mod general;

use super::Result_;
use super::context::Context;
use super::each::each;
use super::lanes::{f1, f2};
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Destination, Source};
use crate::program::register::{F1, F2};
use crate::tensor::float::{Rounding, f16_to_f32, f32_to_bf16, f32_to_e4m3, f32_to_e5m2, f32_to_f16};
use general::conversion;
use tilewright_ptx::ast::Operand;

/// What follows `cvt` besides the types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Flags {
    rounding: Option<Rounding>,
    /// Whether the result is rounded to an integer: `.rni`.
    integral: bool,
    ftz: bool,
    sat: bool,
    satfinite: bool,
    relu: bool,
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    const ROUNDINGS: [(&str, (Rounding, bool)); 9] = [
        ("rn", (Rounding::Nearest, false)),
        ("rz", (Rounding::Zero, false)),
        ("rm", (Rounding::Down, false)),
        ("rp", (Rounding::Up, false)),
        ("rna", (Rounding::Away, false)),
        ("rni", (Rounding::Nearest, true)),
        ("rzi", (Rounding::Zero, true)),
        ("rmi", (Rounding::Down, true)),
        ("rpi", (Rounding::Up, true)),
    ];
    let rounding = opcode.any(&ROUNDINGS);
    let flags = Flags {
        rounding: rounding.map(|(rounding, _)| rounding),
        integral: rounding.is_some_and(|(_, integral)| integral),
        ftz: opcode.flag("ftz"),
        sat: opcode.flag("sat"),
        satfinite: opcode.flag("satfinite"),
        relu: opcode.flag("relu"),
    };
    let (to, from) = (opcode.ty()?, opcode.ty()?);
    let unknown = || format!("conversion from {from:?} to {to:?} with these modifiers is not emulated");
    match operands {
        [d, a, b] => pack(context, flags, to, from, [d, a, b])?.ok_or_else(unknown),
        [d, a] => {
            let frequent = match to.is_integer() && from.is_integer() {
                true => integers(context, flags, to, from, d, a)?,
                false => floats(context, flags, to, from, d, a)?,
            };
            if let Some(op) = frequent {
                return Ok(op);
            }
            if let Some((to_part, from_part)) = pair(to, from) {
                let f = conversion(flags, to_part, from_part).ok_or_else(unknown)?;
                return each(context, (d, to), &[(a, from)], move |[a, ..]| {
                    let (width_to, width_from) = (to.bits() / 2, from.bits() / 2);
                    f(a >> width_from) << width_to | f(a & ((1 << width_from) - 1))
                });
            }
            let f = conversion(flags, to, from).filter(|_| !is_eight(to) && !is_eight(from));
            let f = f.ok_or_else(unknown)?;
            each(context, (d, to), &[(a, from)], move |[a, ..]| f(a))
        }
        _ => Err(format!("does not take {} operands", operands.len())),
    }
}

fn is_eight(ty: Type) -> bool {
    matches!(ty, Type::E4m3x2 | Type::E5m2x2)
}

/// The types of the halves of a conversion between pairs.
fn pair(to: Type, from: Type) -> Option<(Type, Type)> {
    match (to, from) {
        (Type::F16x2, Type::E4m3x2 | Type::E5m2x2) => Some((Type::F16, from)),
        (Type::E4m3x2 | Type::E5m2x2, Type::F16x2) => Some((to, Type::F16)),
        _ => None,
    }
}

/// Two values into one register, the first in the high half.
fn pack(
    context: &mut Context,
    flags: Flags,
    to: Type,
    from: Type,
    [d, a, b]: [&Operand; 3],
) -> Result<Option<Op>, String> {
    const NEAREST: Flags = Flags {
        rounding: Some(Rounding::Nearest),
        integral: false,
        ftz: false,
        sat: false,
        satfinite: false,
        relu: false,
    };
    const FINITE: Flags = Flags { satfinite: true, ..NEAREST };
    let f: F2<u32, u32, u32> = match (to, from, flags) {
        (Type::F16x2, Type::F32, NEAREST) => f2!(|a: f32, b: f32| -> u32 {
            u32::from(f32_to_f16(a, Rounding::Nearest)) << 16 | u32::from(f32_to_f16(b, Rounding::Nearest))
        }),
        (Type::Bf16x2, Type::F32, NEAREST) => f2!(|a: f32, b: f32| -> u32 {
            u32::from(f32_to_bf16(a, Rounding::Nearest)) << 16 | u32::from(f32_to_bf16(b, Rounding::Nearest))
        }),
        (Type::E4m3x2, Type::F32, FINITE) => {
            f2!(|a: f32, b: f32| -> u32 { u32::from(f32_to_e4m3(a)) << 8 | u32::from(f32_to_e4m3(b)) })
        }
        (Type::E5m2x2, Type::F32, FINITE) => {
            f2!(|a: f32, b: f32| -> u32 { u32::from(f32_to_e5m2(a)) << 8 | u32::from(f32_to_e5m2(b)) })
        }
        _ => {
            let part = match to {
                Type::F16x2 => Type::F16,
                Type::Bf16x2 => Type::Bf16,
                Type::E4m3x2 | Type::E5m2x2 => to,
                _ => return Ok(None),
            };
            let Some(f) = conversion(flags, part, from).filter(|_| from == Type::F32) else {
                return Ok(None);
            };
            let width = to.bits() / 2;
            let pack = move |[a, b, ..]: [u64; 4]| f(a) << width | f(b);
            return each(context, (d, to), &[(a, from), (b, from)], pack).map(Some);
        }
    };
    Ok(Some(Op::F2_32(f, context.to_r(d, to.bits())?, context.r(a, 32)?, context.r(b, 32)?)))
}

/// Between integers, without saturation.
fn integers(
    context: &mut Context,
    flags: Flags,
    to: Type,
    from: Type,
    d: &Operand,
    a: &Operand,
) -> Result<Option<Op>, String> {
    if flags != Flags::default() {
        return Ok(None);
    }
    let destination = context.destination(d, to.bits())?;
    let source = context.source(a, from.bits())?;
    // The value is of the instruction's types; the destination's register may be wider, and is then extended.
    macro_rules! targets {
        ($A:ty, $D:ty) => {
            match to {
                Type::B(8) | Type::U(8) => f1!(|a: $A| -> $D { a as u8 as $D }),
                Type::S(8) => f1!(|a: $A| -> $D { a as i8 as $D }),
                Type::B(16) | Type::U(16) => f1!(|a: $A| -> $D { a as u16 as $D }),
                Type::S(16) => f1!(|a: $A| -> $D { a as i16 as $D }),
                Type::B(32) | Type::U(32) => f1!(|a: $A| -> $D { a as u32 as $D }),
                Type::S(32) => f1!(|a: $A| -> $D { a as i32 as $D }),
                Type::B(64) | Type::U(64) => f1!(|a: $A| -> $D { a as u64 as $D }),
                Type::S(64) => f1!(|a: $A| -> $D { a as i64 as $D }),
                _ => return Ok(None),
            }
        };
    }
    macro_rules! narrow_sources {
        ($D:ty) => {
            match from {
                Type::B(8) | Type::U(8) => targets!(u8, $D),
                Type::S(8) => targets!(i8, $D),
                Type::B(16) | Type::U(16) => targets!(u16, $D),
                Type::S(16) => targets!(i16, $D),
                Type::B(32) | Type::U(32) => targets!(u32, $D),
                Type::S(32) => targets!(i32, $D),
                _ => return Ok(None),
            }
        };
    }
    macro_rules! wide_sources {
        ($D:ty) => {
            match from {
                Type::B(8) | Type::U(8) => targets!(u8, $D),
                Type::S(8) => targets!(i8, $D),
                Type::B(16) | Type::U(16) => targets!(u16, $D),
                Type::S(16) => targets!(i16, $D),
                Type::B(32) | Type::U(32) => targets!(u32, $D),
                Type::S(32) => targets!(i32, $D),
                Type::B(64) | Type::U(64) => targets!(u64, $D),
                Type::S(64) => targets!(i64, $D),
                _ => return Ok(None),
            }
        };
    }
    Ok(Some(match (destination, source) {
        (Destination::R(d, 32), Source::R(a)) => Op::F1_32(narrow_sources!(u32), d, a),
        (Destination::R(d, _), Source::R(a)) => Op::F1_32(narrow_sources!(u16), d, a),
        (Destination::R(d, 32), Source::D(a)) => Op::F1_64to32(wide_sources!(u32), d, a),
        (Destination::R(d, _), Source::D(a)) => Op::F1_64to32(wide_sources!(u16), d, a),
        (Destination::D(d), Source::R(a)) => Op::F1_32to64(narrow_sources!(u64), d, a),
        (Destination::D(d), Source::D(a)) => Op::F1_64(wide_sources!(u64), d, a),
        (Destination::Sink, _) => Op::Nop,
    }))
}

/// The frequent ones with floats.
fn floats(
    context: &mut Context,
    flags: Flags,
    to: Type,
    from: Type,
    d: &Operand,
    a: &Operand,
) -> Result<Option<Op>, String> {
    let Flags { rounding, integral, .. } = flags;
    if flags != (Flags { rounding, integral, ..Flags::default() }) {
        return Ok(None);
    }
    let f: F1<u32, u32> = match (to, from, rounding, integral) {
        (Type::F32, Type::F16, None, _) => f1!(|a: u16| -> f32 { f16_to_f32(a) }),
        // The upper half alone: NaNs keep their payload.
        (Type::F32, Type::Bf16, None, _) => f1!(|a: u16| -> u32 { u32::from(a) << 16 }),
        (Type::F16, Type::F32, Some(Rounding::Nearest), false) => {
            f1!(|a: f32| -> u16 { f32_to_f16(a, Rounding::Nearest) })
        }
        (Type::Bf16, Type::F32, Some(Rounding::Nearest), false) => {
            f1!(|a: f32| -> u16 { f32_to_bf16(a, Rounding::Nearest) })
        }
        (Type::U(32), Type::F32, Some(Rounding::Zero), true) => f1!(|a: f32| -> u32 { a as u32 }),
        (Type::S(32), Type::F32, Some(Rounding::Zero), true) => f1!(|a: f32| -> i32 { a as i32 }),
        (Type::S(32), Type::F32, Some(Rounding::Nearest), true) => {
            f1!(|a: f32| -> i32 { a.round_ties_even() as i32 })
        }
        (Type::F32, Type::U(32), Some(Rounding::Nearest), false) => f1!(|a: u32| -> f32 { a as f32 }),
        (Type::F32, Type::S(32), Some(Rounding::Nearest), false) => f1!(|a: i32| -> f32 { a as f32 }),
        _ => return Ok(None),
    };
    Ok(Some(Op::F1_32(f, context.to_r(d, to.bits())?, context.wide_r(a, from.bits(), 32)?)))
}
