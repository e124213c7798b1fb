//! Integer and floating-point arithmetic.
//!
//! PTX ISA, "Integer Arithmetic Instructions" and "Floating Point Instructions".

use super::context::Context;
use super::lanes::{f1, f2, f3};
use super::opcode::Opcode;
use super::types::Type;
use super::{Result_, float, half};
use crate::program::op::Op;
use crate::program::register::{F1, F2, F3};
use crate::tensor::approx;
use crate::wide;
use tilewright_ptx::ast::Operand;

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match (opcode.name(), operands) {
        ("mul", [d, a, b]) => multiply(context, opcode, d, a, b),
        ("mad", [d, a, b, c]) => multiply_add(context, opcode, d, a, b, c),
        ("fma", [d, a, b, c]) => fused(context, opcode, d, a, b, c),
        ("dp4a", [d, a, b, c]) => dot(context, opcode, d, a, b, c),
        ("add" | "sub" | "min" | "max" | "div" | "rem", [d, a, b]) => two(context, opcode, d, a, b),
        ("neg" | "abs" | "ex2" | "lg2" | "rcp" | "rsqrt" | "sqrt" | "tanh" | "sin" | "cos", [d, a]) => {
            one(context, opcode, d, a)
        }
        (
            "add" | "sub" | "mul" | "min" | "max" | "div" | "rem" | "neg" | "abs" | "mad" | "fma" | "dp4a"
            | "ex2",
            _,
        ) => Err(format!("does not take {} operands", operands.len())),
        _ => Err("this instruction is not emulated".into()),
    }
}

/// Takes `.rn`, the default rounding; other roundings are left, and so refused.
fn nearest(opcode: &mut Opcode<'_>) {
    opcode.flag("rn");
}

/// The function of f32 with the flags that are given; where flushing takes more than the result, that function follows.
macro_rules! f32_with_flags {
    ($ftz:expr, $sat:expr, $f:ident!(|$($x:ident),+| $e:expr)) => {
        f32_with_flags!($ftz, $sat, $f!(|$($x),+| $e; float::flush($e)))
    };
    ($ftz:expr, $sat:expr, $f:ident!(|$($x:ident),+| $e:expr; $flushed:expr)) => {
        match ($ftz, $sat) {
            (false, false) => $f!(|$($x: f32),+| -> f32 { $e }),
            (false, true) => $f!(|$($x: f32),+| -> f32 { float::saturate($e) }),
            (true, false) => $f!(|$($x: f32),+| -> f32 { { $(let $x = float::flush($x);)+ $flushed } }),
            (true, true) => {
                $f!(|$($x: f32),+| -> f32 { { $(let $x = float::flush($x);)+ float::saturate($flushed) } })
            }
        }
    };
}

fn two(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, a: &Operand, b: &Operand) -> Result_ {
    let name = opcode.name();
    let ty = opcode.ty()?;
    if half::is_half(ty) {
        return half::two(context, opcode, ty, d, a, b);
    }
    match ty {
        Type::F32 => {
            let (ftz, sat, nan) = (opcode.flag("ftz"), opcode.flag("sat"), opcode.flag("NaN"));
            let f: F2<u32, u32, u32> = match (name, nan) {
                ("add", false) => {
                    nearest(opcode);
                    f32_with_flags!(ftz, sat, f2!(|a, b| a + b))
                }
                ("sub", false) => {
                    nearest(opcode);
                    f32_with_flags!(ftz, sat, f2!(|a, b| a - b))
                }
                ("max", false) => f32_with_flags!(ftz, sat, f2!(|a, b| float::max(a, b))),
                ("min", false) => f32_with_flags!(ftz, sat, f2!(|a, b| float::min(a, b))),
                ("max", true) => f32_with_flags!(ftz, sat, f2!(|a, b| float::max_nan(a, b))),
                ("min", true) => f32_with_flags!(ftz, sat, f2!(|a, b| float::min_nan(a, b))),
                ("div", false) if opcode.flag("rn") => f32_with_flags!(ftz, sat, f2!(|a, b| a / b)),
                ("div", false) if opcode.flag("approx") => match ftz {
                    false => f2!(|a: f32, b: f32| -> f32 { approx::div(a, b, false) }),
                    true => f2!(|a: f32, b: f32| -> f32 { approx::div(a, b, true) }),
                },
                ("div", false) if opcode.flag("full") => match ftz {
                    false => f2!(|a: f32, b: f32| -> f32 { approx::div_full(a, b, false) }),
                    true => f2!(|a: f32, b: f32| -> f32 { approx::div_full(a, b, true) }),
                },
                _ => return opcode.refuse(ty),
            };
            return Ok(Op::F2_32(f, context.to_r(d, 32)?, context.r(a, 32)?, context.r(b, 32)?));
        }
        Type::F64 => {
            nearest(opcode);
            let f: F2<u64, u64, u64> = match name {
                "add" => f2!(|a: f64, b: f64| -> f64 { float::add64(a, b) }),
                "sub" => f2!(|a: f64, b: f64| -> f64 { float::sub64(a, b) }),
                "div" => f2!(|a: f64, b: f64| -> f64 { float::div64(a, b) }),
                _ => return opcode.refuse(ty),
            };
            return Ok(Op::F2_64(f, context.to_d(d)?, context.d(a)?, context.d(b)?));
        }
        _ if !ty.is_integer() || ty.bits() < 16 => return opcode.refuse(ty),
        _ => {}
    }
    let saturating = ty == Type::S(32) && opcode.flag("sat");
    let relu = ty == Type::S(32) && opcode.flag("relu");
    macro_rules! integers {
        ($u:ty, $s:ty) => {
            match (name, ty.is_signed()) {
                ("add", _) => f2!(|a: $u, b: $u| -> $u { a.wrapping_add(b) }),
                ("sub", _) => f2!(|a: $u, b: $u| -> $u { a.wrapping_sub(b) }),
                ("min", false) => f2!(|a: $u, b: $u| -> $u { a.min(b) }),
                ("max", false) => f2!(|a: $u, b: $u| -> $u { a.max(b) }),
                ("min", true) => f2!(|a: $s, b: $s| -> $s { a.min(b) }),
                ("max", true) => f2!(|a: $s, b: $s| -> $s { a.max(b) }),
                // By zero: the manual leaves the value open; all ones is what an H200 gives.
                ("div", false) => f2!(|a: $u, b: $u| -> $u { a.checked_div(b).unwrap_or(<$u>::MAX) }),
                ("div", true) => f2!(|a: $s, b: $s| -> $s { if b == 0 { -1 } else { a.wrapping_div(b) } }),
                ("rem", false) => f2!(|a: $u, b: $u| -> $u { a.checked_rem(b).unwrap_or(<$u>::MAX) }),
                ("rem", true) => f2!(|a: $s, b: $s| -> $s { if b == 0 { -1 } else { a.wrapping_rem(b) } }),
                _ => return opcode.refuse(ty),
            }
        };
    }
    match ty.bits() {
        64 => {
            let f: F2<u64, u64, u64> = integers!(u64, i64);
            Ok(Op::F2_64(f, context.to_d(d)?, context.d(a)?, context.d(b)?))
        }
        bits => {
            let f: F2<u32, u32, u32> = match (name, saturating, bits) {
                ("add", true, _) => f2!(|a: i32, b: i32| -> i32 { a.saturating_add(b) }),
                ("sub", true, _) => f2!(|a: i32, b: i32| -> i32 { a.saturating_sub(b) }),
                (_, true, _) => return Err("modifier `.sat` is not emulated here".into()),
                ("min", _, 32) if relu => f2!(|a: i32, b: i32| -> i32 { a.min(b).max(0) }),
                ("max", _, 32) if relu => f2!(|a: i32, b: i32| -> i32 { a.max(b).max(0) }),
                _ if relu => return Err("modifier `.relu` is not emulated here".into()),
                (_, _, 32) => integers!(u32, i32),
                _ => integers!(u16, i16),
            };
            Ok(Op::F2_32(f, context.to_r(d, bits)?, context.r(a, bits)?, context.r(b, bits)?))
        }
    }
}

fn multiply(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    d: &Operand,
    a: &Operand,
    b: &Operand,
) -> Result_ {
    let half = opcode.any(&[("lo", 'l'), ("hi", 'h'), ("wide", 'w')]);
    let ty = opcode.ty()?;
    let signed = ty.is_signed();
    if half.is_none() && half::is_half(ty) {
        return half::two(context, opcode, ty, d, a, b);
    }
    if let (Type::F32, None) = (ty, half) {
        nearest(opcode);
        let (ftz, sat) = (opcode.flag("ftz"), opcode.flag("sat"));
        let f: F2<u32, u32, u32> = f32_with_flags!(ftz, sat, f2!(|a, b| a * b; float::mul_ftz(a, b)));
        return Ok(Op::F2_32(f, context.to_r(d, 32)?, context.r(a, 32)?, context.r(b, 32)?));
    }
    if let (Type::F64, None) = (ty, half) {
        nearest(opcode);
        let f: F2<u64, u64, u64> = f2!(|a: f64, b: f64| -> f64 { float::mul64(a, b) });
        return Ok(Op::F2_64(f, context.to_d(d)?, context.d(a)?, context.d(b)?));
    }
    if !ty.is_integer() {
        return opcode.refuse(ty);
    }
    let f: F2<u32, u32, u32> = match (half, ty.bits(), signed) {
        (Some('w'), 32, _) => {
            let f: F2<u64, u32, u32> = match signed {
                false => f2!(|a: u32, b: u32| -> u64 { u64::from(a) * u64::from(b) }),
                true => f2!(|a: i32, b: i32| -> i64 { i64::from(a) * i64::from(b) }),
            };
            return Ok(Op::F2Wide(f, context.to_d(d)?, context.r(a, 32)?, context.r(b, 32)?));
        }
        (Some('w'), 16, _) => {
            let f: F2<u32, u32, u32> = match signed {
                false => f2!(|a: u16, b: u16| -> u32 { u32::from(a) * u32::from(b) }),
                true => f2!(|a: i16, b: i16| -> i32 { i32::from(a) * i32::from(b) }),
            };
            return Ok(Op::F2_32(f, context.to_r(d, 32)?, context.r(a, 16)?, context.r(b, 16)?));
        }
        (Some('l' | 'h'), 64, _) => {
            let f: F2<u64, u64, u64> = match (half, signed) {
                (Some('l'), _) => f2!(|a: u64, b: u64| -> u64 { a.wrapping_mul(b) }),
                (_, false) => f2!(|a: u64, b: u64| -> u64 { ((u128::from(a) * u128::from(b)) >> 64) as u64 }),
                (_, true) => f2!(|a: i64, b: i64| -> i64 { ((i128::from(a) * i128::from(b)) >> 64) as i64 }),
            };
            return Ok(Op::F2_64(f, context.to_d(d)?, context.d(a)?, context.d(b)?));
        }
        (Some('l'), 32, _) => f2!(|a: u32, b: u32| -> u32 { a.wrapping_mul(b) }),
        (Some('l'), 16, _) => f2!(|a: u16, b: u16| -> u16 { a.wrapping_mul(b) }),
        (Some('h'), 32, false) => {
            f2!(|a: u32, b: u32| -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 })
        }
        (Some('h'), 32, true) => {
            f2!(|a: i32, b: i32| -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 })
        }
        (Some('h'), 16, false) => {
            f2!(|a: u16, b: u16| -> u16 { ((u32::from(a) * u32::from(b)) >> 16) as u16 })
        }
        (Some('h'), 16, true) => {
            f2!(|a: i16, b: i16| -> i16 { ((i32::from(a) * i32::from(b)) >> 16) as i16 })
        }
        _ => return Err("an integer product needs `.lo`, `.hi` or `.wide`".into()),
    };
    let bits = ty.bits();
    Ok(Op::F2_32(f, context.to_r(d, bits)?, context.r(a, bits)?, context.r(b, bits)?))
}

fn multiply_add(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    d: &Operand,
    a: &Operand,
    b: &Operand,
    c: &Operand,
) -> Result_ {
    let half = opcode.any(&[("lo", 'l'), ("hi", 'h'), ("wide", 'w')]);
    let Some(half) = half else { return fused(context, opcode, d, a, b, c) };
    let ty = opcode.ty()?;
    let signed = ty.is_signed();
    if !ty.is_integer() {
        return opcode.refuse(ty);
    }
    let f: F3<u32, u32, u32, u32> = match (half, ty.bits()) {
        ('w', 32) => {
            let f: F3<u64, u32, u32, u64> = match signed {
                false => {
                    f3!(|a: u32, b: u32, c: u64| -> u64 { (u64::from(a) * u64::from(b)).wrapping_add(c) })
                }
                true => {
                    f3!(|a: i32, b: i32, c: i64| -> i64 { (i64::from(a) * i64::from(b)).wrapping_add(c) })
                }
            };
            return Ok(Op::F3Wide(f, context.to_d(d)?, context.r(a, 32)?, context.r(b, 32)?, context.d(c)?));
        }
        ('w', 16) => {
            let f: F3<u32, u32, u32, u32> = match signed {
                false => {
                    f3!(|a: u16, b: u16, c: u32| -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) })
                }
                true => {
                    f3!(|a: i16, b: i16, c: i32| -> i32 { (i32::from(a) * i32::from(b)).wrapping_add(c) })
                }
            };
            return Ok(Op::F3_32(
                f,
                context.to_r(d, 32)?,
                [context.r(a, 16)?, context.r(b, 16)?, context.r(c, 32)?],
            ));
        }
        ('l', 64) => {
            let f: F3<u64, u64, u64, u64> =
                f3!(|a: u64, b: u64, c: u64| -> u64 { a.wrapping_mul(b).wrapping_add(c) });
            return Ok(Op::F3_64(f, context.to_d(d)?, [context.d(a)?, context.d(b)?, context.d(c)?]));
        }
        ('l', 32) => f3!(|a: u32, b: u32, c: u32| -> u32 { a.wrapping_mul(b).wrapping_add(c) }),
        ('l', 16) => f3!(|a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) }),
        ('h', 32) if signed => {
            f3!(|a: i32, b: i32, c: i32| -> i32 {
                (((i64::from(a) * i64::from(b)) >> 32) as i32).wrapping_add(c)
            })
        }
        ('h', 32) => {
            f3!(|a: u32, b: u32, c: u32| -> u32 {
                (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c)
            })
        }
        _ => return opcode.refuse(ty),
    };
    let bits = ty.bits();
    Ok(Op::F3_32(f, context.to_r(d, bits)?, [context.r(a, bits)?, context.r(b, bits)?, context.r(c, bits)?]))
}

fn fused(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    d: &Operand,
    a: &Operand,
    b: &Operand,
    c: &Operand,
) -> Result_ {
    let ty = opcode.ty()?;
    if !opcode.flag("rn") {
        return Err("only rounding to nearest (`.rn`) is emulated".into());
    }
    if half::is_half(ty) {
        return half::fused(context, opcode, ty, d, [a, b, c]);
    }
    match ty {
        Type::F32 => {
            let (ftz, sat) = (opcode.flag("ftz"), opcode.flag("sat"));
            let f: F3<u32, u32, u32, u32> = match (ftz, sat) {
                // With an instruction of the CPU it is much faster, without it much slower.
                (false, false) if wide::available() => {
                    f3!(|a: f32, b: f32, c: f32| -> f32 { a.mul_add(b, c) })
                }
                _ => f32_with_flags!(ftz, sat, f3!(|a, b, c| float::fma(a, b, c); float::fma_ftz(a, b, c))),
            };
            Ok(Op::F3_32(f, context.to_r(d, 32)?, [context.r(a, 32)?, context.r(b, 32)?, context.r(c, 32)?]))
        }
        Type::F64 => {
            let f: F3<u64, u64, u64, u64> = f3!(|a: f64, b: f64, c: f64| -> f64 { float::fma64(a, b, c) });
            Ok(Op::F3_64(f, context.to_d(d)?, [context.d(a)?, context.d(b)?, context.d(c)?]))
        }
        _ => opcode.refuse(ty),
    }
}

fn dot(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    d: &Operand,
    a: &Operand,
    b: &Operand,
    c: &Operand,
) -> Result_ {
    fn byte(word: u32, i: u32, signed: bool) -> i32 {
        let byte = (word >> (8 * i)) as u8;
        if signed { i32::from(byte as i8) } else { i32::from(byte) }
    }
    fn dot(a: u32, b: u32, c: u32, signed_a: bool, signed_b: bool) -> u32 {
        (0..4).fold(c, |sum, i| sum.wrapping_add((byte(a, i, signed_a) * byte(b, i, signed_b)) as u32))
    }
    let f: F3<u32, u32, u32, u32> = match (opcode.ty()?, opcode.ty()?) {
        (Type::S(32), Type::S(32)) => f3!(|a: u32, b: u32, c: u32| -> u32 { dot(a, b, c, true, true) }),
        (Type::S(32), Type::U(32)) => f3!(|a: u32, b: u32, c: u32| -> u32 { dot(a, b, c, true, false) }),
        (Type::U(32), Type::S(32)) => f3!(|a: u32, b: u32, c: u32| -> u32 { dot(a, b, c, false, true) }),
        (Type::U(32), Type::U(32)) => f3!(|a: u32, b: u32, c: u32| -> u32 { dot(a, b, c, false, false) }),
        (ty, _) => return opcode.refuse(ty),
    };
    Ok(Op::F3_32(f, context.to_r(d, 32)?, [context.r(a, 32)?, context.r(b, 32)?, context.r(c, 32)?]))
}

fn one(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, a: &Operand) -> Result_ {
    let name = opcode.name();
    let ty = opcode.ty()?;
    if half::is_half(ty) {
        return half::one(context, opcode, ty, d, a);
    }
    let (ftz, approximate) = (opcode.flag("ftz"), opcode.flag("approx"));
    macro_rules! approximation {
        ($f:path) => {
            match ftz {
                false => f1!(|a: f32| -> f32 { $f(a, false) }),
                true => f1!(|a: f32| -> f32 { $f(a, true) }),
            }
        };
    }
    let f: F1<u32, u32> = match (name, ty, approximate) {
        ("neg", Type::F32, false) => f32_with_flags!(ftz, false, f1!(|a| -a)),
        ("abs", Type::F32, false) => f32_with_flags!(ftz, false, f1!(|a| a.abs())),
        ("neg", Type::F64, false) => {
            let f: F1<u64, u64> = f1!(|a: f64| -> f64 { float::neg64(a) });
            return Ok(Op::F1_64(f, context.to_d(d)?, context.d(a)?));
        }
        ("abs", Type::F64, false) => {
            let f: F1<u64, u64> = f1!(|a: f64| -> f64 { float::abs64(a) });
            return Ok(Op::F1_64(f, context.to_d(d)?, context.d(a)?));
        }
        ("neg", Type::S(64), false) => {
            let f: F1<u64, u64> = f1!(|a: u64| -> u64 { a.wrapping_neg() });
            return Ok(Op::F1_64(f, context.to_d(d)?, context.d(a)?));
        }
        ("abs", Type::S(64), false) => {
            let f: F1<u64, u64> = f1!(|a: i64| -> i64 { a.wrapping_abs() });
            return Ok(Op::F1_64(f, context.to_d(d)?, context.d(a)?));
        }
        ("neg", Type::S(32), false) => f1!(|a: u32| -> u32 { a.wrapping_neg() }),
        ("abs", Type::S(32), false) => f1!(|a: i32| -> i32 { a.wrapping_abs() }),
        ("neg", Type::S(16), false) => f1!(|a: i16| -> i16 { a.wrapping_neg() }),
        ("abs", Type::S(16), false) => f1!(|a: i16| -> i16 { a.wrapping_abs() }),
        ("ex2", Type::F32, true) => approximation!(approx::ex2),
        ("lg2", Type::F32, true) => approximation!(approx::lg2),
        ("rcp", Type::F32, true) => approximation!(approx::rcp),
        ("rsqrt", Type::F32, true) => approximation!(approx::rsqrt),
        ("sqrt", Type::F32, true) => approximation!(approx::sqrt),
        ("sin", Type::F32, true) => approximation!(approx::sin),
        ("cos", Type::F32, true) => approximation!(approx::cos),
        ("tanh", Type::F32, true) if !ftz => f1!(|a: f32| -> f32 { approx::tanh(a) }),
        ("rcp", Type::F32, false) if opcode.flag("rn") => f32_with_flags!(ftz, false, f1!(|a| 1.0 / a)),
        ("sqrt", Type::F32, false) if opcode.flag("rn") => f32_with_flags!(ftz, false, f1!(|a| a.sqrt())),
        _ => return opcode.refuse(ty),
    };
    let bits = ty.bits();
    Ok(Op::F1_32(f, context.to_r(d, bits)?, context.r(a, bits)?))
}
