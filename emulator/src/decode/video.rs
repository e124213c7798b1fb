//! Video instructions: arithmetic on parts of registers, with a second operation.
//!
//! PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions". For sm_90 the driver's compiler makes them of others, whose
//! results are not all the manual's. They are these here, as of an H200: unsigned results of 32 bits are not held below 2^32 by
//! `.sat`, and those of fewer bits are taken for unsigned before; the upper half of a register gets that of the result; of `vmad`
//! whole registers are signed; the second operation of `vset` is signed if an operand is. The saturation of `vshl` is the manual's.

use super::Result_;
use super::context::Context;
use super::each::each;
use super::opcode::Opcode;
use super::types::Type;
use tilewright_ptx::ast::Operand;

/// A function of two parts; what the comparison gives of `vset`.
type Function = fn(i64, i64) -> i64;

const COMPARISONS: [(&str, Function); 6] = [
    ("eq", |a, b| i64::from(a == b)),
    ("ne", |a, b| i64::from(a != b)),
    ("lt", |a, b| i64::from(a < b)),
    ("le", |a, b| i64::from(a <= b)),
    ("gt", |a, b| i64::from(a > b)),
    ("ge", |a, b| i64::from(a >= b)),
];

/// The operation that an instruction is named after, and how many parts it has side by side.
fn operation(name: &str) -> Option<(&str, u32)> {
    let name = name.strip_prefix('v')?;
    let (name, parts) = match (name.strip_suffix('2'), name.strip_suffix('4')) {
        (Some(name), _) => (name, 2),
        (_, Some(name)) => (name, 4),
        _ => (name, 1),
    };
    let scalar = matches!(name, "shl" | "shr" | "mad") && parts == 1;
    let simd = name == "avrg" && parts > 1;
    let both = matches!(name, "add" | "sub" | "absdiff" | "min" | "max" | "set");
    (scalar || simd || both).then_some((name, parts))
}

/// Whether an instruction is one of these.
pub(super) fn is_video(opcode: &Opcode<'_>) -> bool {
    operation(opcode.name()).is_some()
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let (name, parts) = operation(opcode.name()).ok_or("this instruction is not emulated")?;
    // A comparison's result has no type.
    let named = if name == "set" { None } else { Some(opcode.ty()?) };
    let (left, right) = (opcode.ty()?, opcode.ty()?);
    let to = named.unwrap_or(if left.is_signed() { left } else { right });
    if [to, left, right].iter().any(|ty| !matches!(ty, Type::U(32) | Type::S(32))) {
        return opcode.refuse(to);
    }
    let signed = [to, left, right].map(Type::is_signed);
    if name == "mad" {
        return multiply_add(context, opcode, operands, signed);
    }
    let f = function(name, opcode)?;
    match parts {
        1 => scalar(context, opcode, operands, signed, f),
        _ => simd(context, opcode, operands, (parts, signed), f),
    }
}

fn function(name: &str, opcode: &mut Opcode<'_>) -> Result<Function, String> {
    Ok(match name {
        "add" => |a, b| a + b,
        "sub" => |a, b| a - b,
        // Halves of positive sums are rounded up.
        "avrg" => |a, b| (a + b + i64::from(a + b >= 0)) >> 1,
        "absdiff" => |a, b| (a - b).abs(),
        "min" => |a, b| a.min(b),
        "max" => |a, b| a.max(b),
        "set" => opcode.any(&COMPARISONS).ok_or("has no comparison")?,
        shift => {
            match (shift, opcode.any(&[("clamp", true), ("wrap", false)]).ok_or("needs `.clamp` or `.wrap`")?)
            {
                ("shl", true) => |a, b| a << b.min(32),
                ("shl", false) => |a, b| a << (b & 31),
                (_, true) => |a, b| a >> b.min(32),
                (_, false) => |a, b| a >> (b & 31),
            }
        }
    })
}

/// A part of a register: its first bit, and its bits.
type Part = (u32, u32);

/// An operand and what stands behind its register: `%r1.b0`.
fn suffixed(operand: &Operand) -> (Operand, Option<&str>) {
    match operand {
        Operand::Name(name) => match name.rsplit_once('.') {
            Some((register, suffix)) => (Operand::Name(register.into()), Some(suffix)),
            None => (operand.clone(), None),
        },
        other => (other.clone(), None),
    }
}

/// A part of a register that a scalar instruction takes.
fn part(operand: &Operand) -> Result<(Operand, Part), String> {
    let (register, suffix) = suffixed(operand);
    let part = match suffix {
        None => (0, 32),
        Some("h0") => (0, 16),
        Some("h1") => (16, 16),
        Some("b0") => (0, 8),
        Some("b1") => (8, 8),
        Some("b2") => (16, 8),
        Some("b3") => (24, 8),
        Some(other) => return Err(format!("`.{other}` is no part of a register")),
    };
    Ok((register, part))
}

fn extract(word: u64, (from, bits): Part, signed: bool) -> i64 {
    let up = word << (64 - from - bits);
    if signed { up as i64 >> (64 - bits) } else { (up >> (64 - bits)) as i64 }
}

fn saturate(x: i64, bits: u32, signed: bool) -> i64 {
    match signed {
        true => x.clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1),
        false => x.clamp(0, (1 << bits) - 1),
    }
}

fn replace(word: u64, (from, bits): Part, value: i64) -> u64 {
    let mask = ((1u64 << bits) - 1) << from;
    (word & !mask | (value as u64) << from & mask) & 0xffff_ffff
}

fn scalar(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
    [signed, signed_a, signed_b]: [bool; 3],
    f: Function,
) -> Result_ {
    let saturates = opcode.flag("sat");
    let second: Option<Function> = opcode.any(&[
        ("add", (|a, b| a + b) as Function),
        ("min", |a, b| a.min(b)),
        ("max", |a, b| a.max(b)),
    ]);
    let (d, a, b, c) = match operands {
        [d, a, b] if second.is_none() => (d, a, b, None),
        [d, a, b, c] => (d, a, b, Some(c)),
        _ => return Err(format!("does not take {} operands", operands.len())),
    };
    let ((d, into), (a, of_a), (b, of_b)) = (part(d)?, part(a)?, part(b)?);
    if c.is_none() != (into.1 == 32 && second.is_none()) || second.is_some() && into.1 != 32 {
        return Err("a third operand goes with a second operation, or with a part of the result".into());
    }
    let word = Type::B(32);
    let mut from = vec![(&a, word), (&b, word)];
    from.extend(c.map(|c| (c, word)));
    each(context, (&d, word), &from, move |[a, b, c, _]| {
        let value = f(extract(a, of_a, signed_a), extract(b, of_b, signed_b));
        let value = if saturates { saturate_scalar(value, into, signed) } else { value };
        match second {
            Some(second) => {
                let value = extract(value as u64, (0, 32), signed);
                second(value, extract(c, (0, 32), signed)) as u64 & 0xffff_ffff
            }
            None if into == (16, 16) => replace(c, into, value >> 16),
            None => replace(c, into, value),
        }
    })
}

/// The result of a scalar instruction as `.sat` leaves it, for a part of a register.
fn saturate_scalar(x: i64, (_, bits): Part, signed: bool) -> i64 {
    match (signed, bits) {
        (true, _) => saturate(x, bits, true),
        (false, 32) => x.max(0),
        (false, _) => saturate(x & 0xffff_ffff, bits, false),
    }
}

/// An operand without its sign, and whether it is negated.
fn sign(operand: &Operand) -> (Operand, bool) {
    match operand {
        Operand::Negative(name) => (Operand::Name(name.clone()), true),
        other => (other.clone(), false),
    }
}

/// `vmad`. A negated product is its complement, and a negated `c` that of its 32 bits, each with one more; then the result is signed.
/// An unsigned result that is shifted has 64 bits before.
fn multiply_add(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
    [_, signed_a, signed_b]: [bool; 3],
) -> Result_ {
    let (saturates, more) = (opcode.flag("sat"), opcode.flag("po"));
    let shift = opcode.any(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0);
    let [d, a, b, c] = operands else { return Err("takes four operands".into()) };
    let ((a, minus_a), (b, minus_b), (c, minus_c)) = (sign(a), sign(b), sign(c));
    let minus = minus_a != minus_b;
    if more && (minus_a || minus_b || minus_c) || minus && minus_c {
        return Err("either the product or what is added is negated, and neither with `.po`".into());
    }
    let ((a, of_a), (b, of_b)) = (part(&a)?, part(&b)?);
    let word = Type::B(32);
    let signed = signed_a || signed_b || minus || minus_c;
    each(context, (d, word), &[(&a, word), (&b, word), (&c, word)], move |[a, b, c, _]| {
        let factor = |x, part: Part, signed| extract(x, part, signed || part.1 == 32);
        let product = factor(a, of_a, signed_a) * factor(b, of_b, signed_b);
        let product = if minus { !product } else { product };
        let c = if minus_c { !c } else { c };
        let sum = product + extract(c, (0, 32), true) + i64::from(more || minus || minus_c);
        let value = match (saturates, signed) {
            (true, false) if shift > 0 => (sum as u64 >> shift).min(u32::MAX.into()),
            (true, _) => saturate(sum >> shift, 32, signed) as u64,
            (false, _) => (sum >> shift) as u64,
        };
        value & 0xffff_ffff
    })
}

/// The parts of two registers that are taken, the lowest first: `.h10` of halves, `.b3210` of bytes.
fn chosen(operand: &Operand, parts: u32, first: u32) -> Result<(Operand, Vec<u32>), String> {
    let (register, suffix) = suffixed(operand);
    let places = match suffix {
        None => (first..first + parts).collect(),
        Some(suffix) => places(suffix, parts, 2 * parts)
            .filter(|places| places.len() == parts as usize)
            .ok_or_else(|| format!("`.{suffix}` does not choose {parts} of {}", 2 * parts))?,
    };
    Ok((register, places))
}

/// The numbers that stand behind a letter, the last first, each less than `most`.
fn places(suffix: &str, parts: u32, most: u32) -> Option<Vec<u32>> {
    let digits = suffix.strip_prefix(if parts == 2 { 'h' } else { 'b' })?;
    digits.chars().rev().map(|digit| digit.to_digit(most)).collect()
}

fn simd(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
    (parts, [signed, signed_a, signed_b]): (u32, [bool; 3]),
    f: Function,
) -> Result_ {
    let (saturates, adds) = (opcode.flag("sat"), opcode.flag("add"));
    let [d, a, b, c] = operands else { return Err("takes four operands".into()) };
    let (d, suffix) = suffixed(d);
    let mask = match suffix {
        None => (0..parts).collect(),
        Some(suffix) => places(suffix, parts, parts).ok_or_else(|| format!("`.{suffix}` is no mask"))?,
    };
    let ((a, of_a), (b, of_b)) = (chosen(a, parts, 0)?, chosen(b, parts, parts)?);
    let word = Type::B(32);
    let width = 32 / parts;
    each(context, (&d, word), &[(&a, word), (&b, word), (c, word)], move |[a, b, c, _]| {
        let both = b << 32 | a;
        mask.iter().fold(c, |all, &i| {
            let one = |places: &[u32], signed| extract(both, (places[i as usize] * width, width), signed);
            let value = f(one(&of_a, signed_a), one(&of_b, signed_b));
            let value = if saturates { saturate(value, width, signed) } else { value };
            match adds {
                true => all.wrapping_add(value as u64) & 0xffff_ffff,
                false => replace(all, (i * width, width), value),
            }
        })
    })
}
