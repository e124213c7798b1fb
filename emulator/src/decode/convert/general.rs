//! Conversions of any type to any other.
//!
//! What becomes of a NaN the manual leaves open, but for one that becomes zero in an integer. Here it is as on an H200.

use super::Flags;
use crate::decode::float::{flush, narrow_nan};
use crate::decode::types::Type;
use crate::tensor::float::exact::Unrounded;
use crate::tensor::float::{Format, Rounding, f32_to_tf32};

/// A number between two types.
#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    /// Every floating-point type is exact in it.
    Float(f64),
}

/// The function of a conversion on the bits of a value; `None` if PTX has none.
pub(super) fn conversion(flags: Flags, to: Type, from: Type) -> Option<impl Fn(u64) -> u64 + Send + Sync> {
    let known = |ty| is_integer(ty) || format(ty).is_some() || ty == Type::F64;
    if !known(to) || !known(from) || !allowed(flags, to, from) {
        return None;
    }
    Some(move |bits| {
        let number = decode(flags, from, bits, to != Type::F16);
        let nan = matches!(number, Number::Float(x) if x.is_nan());
        let special = if nan { of_nan(flags, to, from, bits) } else { None };
        special.unwrap_or_else(|| encode(flags, to, number))
    })
}

/// What a NaN becomes where it is neither zero nor the canonical one.
fn of_nan(flags: Flags, to: Type, from: Type, bits: u64) -> Option<u64> {
    match (to, from) {
        (Type::U(64) | Type::S(64), Type::F16 | Type::F32 | Type::F64) => Some(1 << 63),
        (Type::U(32) | Type::S(32), Type::F64) => Some(1 << 31),
        (Type::Tf32, _) if flags.rounding == Some(Rounding::Away) => Some(bits >> 13 << 13),
        _ if flags.sat => None,
        (Type::F32, Type::F32) if !flags.integral && !flags.ftz => Some(bits),
        (Type::F64, Type::F64) if flags.integral => Some(bits | 1 << 51),
        (Type::F32, Type::F64) => Some(narrow_nan(f64::from_bits(bits)).into()),
        (Type::F16, Type::F64) => Some(bits >> 48 & 0x8000 | 0x7e00 | bits >> 42 & 0x01ff),
        (Type::F64, Type::F16) => Some((bits & 0x8000) << 48 | 0x7ff8 << 48 | (bits & 0x03ff) << 42),
        (Type::F64, Type::F32) if flags.ftz => Some(0x7fff_ffff_e000_0000),
        _ => None,
    }
}

fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::U(_) | Type::S(_) | Type::B(_))
}

/// The format of a type of up to 32 bits.
fn format(ty: Type) -> Option<Format> {
    Some(match ty {
        Type::F16 => Format::F16,
        Type::Bf16 => Format::BF16,
        Type::Tf32 => Format::TF32,
        Type::F32 => Format::F32,
        Type::E4m3x2 => Format::E4M3,
        Type::E5m2x2 => Format::E5M2,
        _ => return None,
    })
}

/// Whether PTX has these modifiers for these types.
fn allowed(flags: Flags, to: Type, from: Type) -> bool {
    let Flags { rounding, integral, ftz, sat, satfinite, relu } = flags;
    let single = to == Type::F32 || from == Type::F32;
    let narrow = matches!(to, Type::F16 | Type::Bf16 | Type::Tf32 | Type::E4m3x2 | Type::E5m2x2);
    let eight = matches!(to, Type::E4m3x2 | Type::E5m2x2);
    let rounds = match (is_integer(to), is_integer(from)) {
        (true, true) => rounding.is_none() && !integral,
        (true, false) => rounding.is_some() && integral,
        (false, true) => rounding.is_some() && !integral,
        // A rounding to an integer stays in the type; other roundings are for what may not fit.
        (false, false) if to == from => rounding.is_none() || integral,
        (false, false) if to == Type::F64 || to == Type::F32 && from != Type::F64 => rounding.is_none(),
        (false, false) => rounding.is_some() && !integral,
    };
    let away = rounding == Some(Rounding::Away);
    rounds
        && (!ftz || single)
        && (!relu || narrow)
        && (!satfinite || eight || from == Type::F32 && narrow)
        && (!eight || satfinite)
        && !(relu && sat)
        && (!away || to == Type::Tf32)
        && (to != Type::Tf32 || from == Type::F32)
        && from != Type::Tf32
}

/// `flushes`: whether `.ftz` is of operands of f32; where the result is f16, it is of none.
fn decode(flags: Flags, ty: Type, bits: u64, flushes: bool) -> Number {
    match ty {
        Type::S(width) => Number::Integer(i128::from((bits << (64 - width)) as i64 >> (64 - width))),
        Type::F64 => Number::Float(f64::from_bits(bits)),
        Type::F32 => {
            let x = f32::from_bits(bits as u32);
            Number::Float(if flags.ftz && flushes { flush(x) } else { x }.into())
        }
        _ => match format(ty) {
            Some(format) => Number::Float(format.decode(bits as u32).into()),
            None => Number::Integer(bits.into()),
        },
    }
}

fn encode(flags: Flags, ty: Type, number: Number) -> u64 {
    let rounding = flags.rounding.unwrap_or(Rounding::Nearest);
    match (ty, number) {
        (Type::U(width) | Type::B(width), Number::Integer(value)) => {
            let most = i128::from(u64::MAX >> (64 - width));
            (if flags.sat { value.clamp(0, most) } else { value & most }) as u64
        }
        (Type::S(width), Number::Integer(value)) => {
            let most = i128::from(i64::MAX >> (64 - width));
            let value = if flags.sat { value.clamp(-most - 1, most) } else { value };
            ((value as i64) << (64 - width) >> (64 - width)) as u64
        }
        // What does not fit becomes what is nearest; NaN becomes zero.
        (Type::U(width) | Type::B(width), Number::Float(x)) => {
            (round(x, rounding) as u64).min(u64::MAX >> (64 - width))
        }
        (Type::S(width), Number::Float(x)) => {
            let most = i64::MAX >> (64 - width);
            (round(x, rounding) as i64).clamp(-most - 1, most) as u64
        }
        (Type::F64, Number::Integer(value)) => Unrounded::integer(value).f64(rounding).to_bits(),
        (Type::F64, Number::Float(x)) => {
            let x = if flags.integral { round(x, rounding) } else { x };
            (if flags.sat { saturate(x) } else { x }).to_bits()
        }
        (_, Number::Integer(value)) => small(flags, ty, odd(value), rounding),
        (_, Number::Float(x)) if flags.integral => small(flags, ty, round(x, rounding), Rounding::Nearest),
        (_, Number::Float(x)) => small(flags, ty, x, rounding),
    }
}

/// A type of up to 32 bits.
fn small(flags: Flags, ty: Type, x: f64, rounding: Rounding) -> u64 {
    let Some(format) = format(ty) else { unreachable!("checked at load") };
    let x = if flags.sat { saturate(x) } else { x };
    if ty == Type::Tf32 {
        // Only f32 is converted to it, so this is exact.
        let bits = f32_to_tf32(x as f32, rounding, flags.satfinite);
        return u64::from(if flags.relu { Format::F32.relu(bits) } else { bits });
    }
    let bits = format.encode(x, rounding, flags.satfinite);
    let bits = if flags.relu { format.relu(bits) } else { bits };
    match ty {
        Type::F32 if flags.ftz && format.is_subnormal(bits) => u64::from(bits & 1 << 31),
        _ => bits.into(),
    }
}

fn round(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => x.round_ties_even(),
        Rounding::Away => x.round(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

/// Into [0, 1]; NaN becomes zero.
fn saturate(x: f64) -> f64 {
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}

/// An integer as f64, its last bit set if it is not exact: rounding that once more rounds as if once.
fn odd(value: i128) -> f64 {
    let x = Unrounded::integer(value).f64(Rounding::Zero);
    if x as i128 == value { x } else { f64::from_bits(x.to_bits() | 1) }
}
