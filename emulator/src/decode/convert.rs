//! `cvt`.
//!
//! PTX ISA, "cvt".

use super::Result_;
use super::context::Context;
use super::float::flush;
use super::lanes::{f1, f2};
use super::opcode::Opcode;
use super::types::Type;
use crate::program::{Destination, F1, F2, Op, Source};
use crate::ptx::Operand;
use crate::tensor::float::{
    Rounding, bf16_to_f32, e4m3_to_f32, e5m2_to_f32, f16_to_f32, f32_to_bf16, f32_to_e4m3, f32_to_e5m2,
    f32_to_f16, f32_to_tf32,
};

/// What follows `cvt` besides the types.
struct Flags {
    rounding: Option<&'static str>,
    ftz: bool,
    sat: bool,
    satfinite: bool,
    relu: bool,
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    const ROUNDINGS: [(&str, &str); 9] = [
        ("rn", "rn"),
        ("rz", "rz"),
        ("rm", "rm"),
        ("rp", "rp"),
        ("rna", "rna"),
        ("rni", "rni"),
        ("rzi", "rzi"),
        ("rmi", "rmi"),
        ("rpi", "rpi"),
    ];
    let flags = Flags {
        rounding: opcode.any(&ROUNDINGS),
        ftz: opcode.flag("ftz"),
        sat: opcode.flag("sat"),
        satfinite: opcode.flag("satfinite"),
        relu: opcode.flag("relu"),
    };
    let (to, from) = (opcode.ty()?, opcode.ty()?);
    match operands {
        [d, a, b] => pack(context, &flags, to, from, [d, a, b]),
        [d, a] if to.is_integer() && from.is_integer() => integers(context, &flags, to, from, d, a),
        [d, a] => floats(context, &flags, to, from, d, a),
        _ => Err(format!("does not take {} operands", operands.len())),
    }
}

fn unknown<T>(to: Type, from: Type) -> Result<T, String> {
    Err(format!("conversion from {from:?} to {to:?} with these modifiers is not emulated"))
}

/// Two values into one register, the first in the high half.
fn pack(context: &mut Context, flags: &Flags, to: Type, from: Type, [d, a, b]: [&Operand; 3]) -> Result_ {
    let bits = to.bits();
    let f: F2<u32, u32, u32> = match (to, from, flags) {
        (
            Type::F16x2,
            Type::F32,
            Flags { rounding: Some("rn"), ftz: false, sat: false, satfinite: false, relu: false },
        ) => {
            f2!(|a: f32, b: f32| -> u32 {
                u32::from(f32_to_f16(a, Rounding::Nearest)) << 16
                    | u32::from(f32_to_f16(b, Rounding::Nearest))
            })
        }
        (
            Type::F16x2,
            Type::F32,
            Flags { rounding: Some("rz"), ftz: false, sat: false, satfinite: false, relu: false },
        ) => {
            f2!(|a: f32, b: f32| -> u32 {
                u32::from(f32_to_f16(a, Rounding::Zero)) << 16 | u32::from(f32_to_f16(b, Rounding::Zero))
            })
        }
        (
            Type::Bf16x2,
            Type::F32,
            Flags { rounding: Some("rn"), ftz: false, sat: false, satfinite: false, relu: false },
        ) => {
            f2!(|a: f32, b: f32| -> u32 {
                u32::from(f32_to_bf16(a, Rounding::Nearest)) << 16
                    | u32::from(f32_to_bf16(b, Rounding::Nearest))
            })
        }
        (
            Type::Bf16x2,
            Type::F32,
            Flags { rounding: Some("rz"), ftz: false, sat: false, satfinite: false, relu: false },
        ) => {
            f2!(|a: f32, b: f32| -> u32 {
                u32::from(f32_to_bf16(a, Rounding::Zero)) << 16 | u32::from(f32_to_bf16(b, Rounding::Zero))
            })
        }
        (
            Type::E4m3x2,
            Type::F32,
            Flags { rounding: Some("rn"), ftz: false, sat: false, satfinite: true, relu: false },
        ) => {
            f2!(|a: f32, b: f32| -> u32 { u32::from(f32_to_e4m3(a)) << 8 | u32::from(f32_to_e4m3(b)) })
        }
        (
            Type::E5m2x2,
            Type::F32,
            Flags { rounding: Some("rn"), ftz: false, sat: false, satfinite: true, relu: false },
        ) => {
            f2!(|a: f32, b: f32| -> u32 { u32::from(f32_to_e5m2(a)) << 8 | u32::from(f32_to_e5m2(b)) })
        }
        _ => return unknown(to, from),
    };
    Ok(Op::F2_32(f, context.to_r(d, bits)?, context.r(a, 32)?, context.r(b, 32)?))
}

fn integers(context: &mut Context, flags: &Flags, to: Type, from: Type, d: &Operand, a: &Operand) -> Result_ {
    if flags.rounding.is_some() || flags.ftz || flags.sat || flags.satfinite || flags.relu {
        return unknown(to, from);
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
                _ => return unknown(to, from),
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
                _ => return unknown(to, from),
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
                _ => return unknown(to, from),
            }
        };
    }
    Ok(match (destination, source) {
        (Destination::R(d, 32), Source::R(a)) => Op::F1_32(narrow_sources!(u32), d, a),
        (Destination::R(d, _), Source::R(a)) => Op::F1_32(narrow_sources!(u16), d, a),
        (Destination::R(d, 32), Source::D(a)) => Op::F1_64to32(wide_sources!(u32), d, a),
        (Destination::R(d, _), Source::D(a)) => Op::F1_64to32(wide_sources!(u16), d, a),
        (Destination::D(d), Source::R(a)) => Op::F1_32to64(narrow_sources!(u64), d, a),
        (Destination::D(d), Source::D(a)) => Op::F1_64(wide_sources!(u64), d, a),
        (Destination::Sink, _) => Op::Nop,
    })
}

fn floats(context: &mut Context, flags: &Flags, to: Type, from: Type, d: &Operand, a: &Operand) -> Result_ {
    if flags.sat || flags.relu || flags.satfinite {
        return unknown(to, from);
    }
    /// From f32 to an integer that fits a slot of the same width.
    macro_rules! to_integer {
        ($F:ty, $D:ty, $S:ty) => {
            match flags.rounding {
                Some("rni") => f1!(|a: $F| -> $S { a.round_ties_even() as $D as $S }),
                Some("rzi") => f1!(|a: $F| -> $S { a as $D as $S }),
                Some("rmi") => f1!(|a: $F| -> $S { a.floor() as $D as $S }),
                Some("rpi") => f1!(|a: $F| -> $S { a.ceil() as $D as $S }),
                _ => return unknown(to, from),
            }
        };
    }
    let plain = flags.rounding.is_none() && !flags.ftz;
    let nearest = flags.rounding == Some("rn") && !flags.ftz;
    let f: F1<u32, u32> = match (to, from) {
        (Type::F32, Type::F16) if plain => f1!(|a: u16| -> f32 { f16_to_f32(a) }),
        (Type::F32, Type::F16) if flags.rounding.is_none() => f1!(|a: u16| -> f32 { flush(f16_to_f32(a)) }),
        (Type::F32, Type::Bf16) if plain => f1!(|a: u16| -> f32 { bf16_to_f32(a) }),
        (Type::F16, Type::F32) if nearest => f1!(|a: f32| -> u16 { f32_to_f16(a, Rounding::Nearest) }),
        (Type::F16, Type::F32) if flags.rounding == Some("rz") && !flags.ftz => {
            f1!(|a: f32| -> u16 { f32_to_f16(a, Rounding::Zero) })
        }
        (Type::Bf16, Type::F32) if nearest => f1!(|a: f32| -> u16 { f32_to_bf16(a, Rounding::Nearest) }),
        (Type::Bf16, Type::F32) if flags.rounding == Some("rz") && !flags.ftz => {
            f1!(|a: f32| -> u16 { f32_to_bf16(a, Rounding::Zero) })
        }
        (Type::Tf32, Type::F32) if flags.rounding == Some("rna") && !flags.ftz => {
            f1!(|a: f32| -> u32 { f32_to_tf32(a, Rounding::Away, false) })
        }
        (Type::Tf32, Type::F32) if nearest => {
            f1!(|a: f32| -> u32 { f32_to_tf32(a, Rounding::Nearest, false) })
        }
        (Type::F16x2, Type::E4m3x2) if nearest => f1!(|a: u16| -> u32 {
            let half = |byte: u8| u32::from(f32_to_f16(e4m3_to_f32(byte), Rounding::Nearest));
            half((a >> 8) as u8) << 16 | half(a as u8)
        }),
        (Type::F16x2, Type::E5m2x2) if nearest => f1!(|a: u16| -> u32 {
            let half = |byte: u8| u32::from(f32_to_f16(e5m2_to_f32(byte), Rounding::Nearest));
            half((a >> 8) as u8) << 16 | half(a as u8)
        }),
        (Type::F32, Type::F32) => match (flags.rounding, flags.ftz) {
            (None, true) => f1!(|a: f32| -> f32 { flush(a) }),
            (Some("rni"), false) => f1!(|a: f32| -> f32 { a.round_ties_even() }),
            (Some("rzi"), false) => f1!(|a: f32| -> f32 { a.trunc() }),
            (Some("rmi"), false) => f1!(|a: f32| -> f32 { a.floor() }),
            (Some("rpi"), false) => f1!(|a: f32| -> f32 { a.ceil() }),
            _ => return unknown(to, from),
        },
        (Type::U(32), Type::F32) if !flags.ftz => to_integer!(f32, u32, u32),
        (Type::S(32), Type::F32) if !flags.ftz => to_integer!(f32, i32, u32),
        (Type::U(16), Type::F32) if !flags.ftz => to_integer!(f32, u16, u32),
        (Type::S(16), Type::F32) if !flags.ftz => to_integer!(f32, i16, u16),
        (Type::F32, Type::U(32)) if nearest => f1!(|a: u32| -> f32 { a as f32 }),
        (Type::F32, Type::S(32)) if nearest => f1!(|a: i32| -> f32 { a as f32 }),
        (Type::F32, Type::U(16)) if nearest => f1!(|a: u16| -> f32 { a.into() }),
        (Type::F32, Type::S(16)) if nearest => f1!(|a: i16| -> f32 { a.into() }),
        (Type::F32, Type::U(8)) if nearest => f1!(|a: u8| -> f32 { a.into() }),
        (Type::F32, Type::S(8)) if nearest => f1!(|a: i8| -> f32 { a.into() }),
        (Type::F32, Type::U(64) | Type::S(64) | Type::F64) if nearest => {
            let f: F1<u32, u64> = match from {
                Type::U(64) => f1!(|a: u64| -> f32 { a as f32 }),
                Type::S(64) => f1!(|a: i64| -> f32 { a as f32 }),
                _ => f1!(|a: f64| -> f32 { a as f32 }),
            };
            return Ok(Op::F1_64to32(f, context.to_r(d, 32)?, context.d(a)?));
        }
        (Type::F64, Type::F32 | Type::U(32) | Type::S(32))
            if !flags.ftz && (flags.rounding == Some("rn") || from == Type::F32) =>
        {
            let f: F1<u64, u32> = match from {
                Type::F32 => f1!(|a: f32| -> f64 { a.into() }),
                Type::U(32) => f1!(|a: u32| -> f64 { a.into() }),
                _ => f1!(|a: i32| -> f64 { a.into() }),
            };
            return Ok(Op::F1_32to64(f, context.to_d(d)?, context.r(a, 32)?));
        }
        (Type::U(64) | Type::S(64), Type::F32) if !flags.ftz => {
            let f: F1<u64, u32> =
                if to.is_signed() { to_integer!(f32, i64, u64) } else { to_integer!(f32, u64, u64) };
            return Ok(Op::F1_32to64(f, context.to_d(d)?, context.r(a, 32)?));
        }
        _ => return unknown(to, from),
    };
    Ok(Op::F1_32(f, context.to_r(d, to.bits())?, context.wide_r(a, from.bits(), 32)?))
}
