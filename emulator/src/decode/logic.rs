//! Logic, shifts and bit fields.
//!
//! PTX ISA, "Logic and Shift Instructions" and the bit instructions of "Integer Arithmetic Instructions".

use super::Result_;
use super::context::Context;
use super::lanes::{f1, f2, f3};
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::PredicateOp;
use crate::program::register::{F1, F2, F3};
use tilewright_ptx::ast::Operand;

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match (opcode.name(), operands) {
        ("and" | "or" | "xor", [d, a, b]) => bitwise(context, opcode, d, a, b),
        ("shl" | "shr", [d, a, b]) => shift(context, opcode, d, a, b),
        ("not" | "cnot" | "clz" | "popc" | "brev", [d, a]) => one(context, opcode, d, a),
        ("shf", [d, a, b, c]) => {
            let left = opcode.any(&[("l", true), ("r", false)]).ok_or("needs `.l` or `.r`")?;
            let clamp = opcode.any(&[("clamp", true), ("wrap", false)]).ok_or("needs `.clamp` or `.wrap`")?;
            let f: F3<u32, u32, u32, u32> = match (opcode.ty()?, left, clamp) {
                (Type::B(32), true, true) => {
                    f3!(|a: u32, b: u32, c: u32| -> u32 { funnel_left(a, b, c.min(32)) })
                }
                (Type::B(32), true, false) => {
                    f3!(|a: u32, b: u32, c: u32| -> u32 { funnel_left(a, b, c & 31) })
                }
                (Type::B(32), false, true) => {
                    f3!(|a: u32, b: u32, c: u32| -> u32 { funnel_right(a, b, c.min(32)) })
                }
                (Type::B(32), false, false) => {
                    f3!(|a: u32, b: u32, c: u32| -> u32 { funnel_right(a, b, c & 31) })
                }
                (ty, ..) => return opcode.refuse(ty),
            };
            Ok(Op::F3_32(f, context.to_r(d, 32)?, [context.r(a, 32)?, context.r(b, 32)?, context.r(c, 32)?]))
        }
        ("prmt", [d, a, b, c]) => match opcode.ty()? {
            Type::B(32) => {
                let sources = [context.r(a, 32)?, context.r(b, 32)?, context.r(c, 32)?];
                Ok(Op::Permute { d: context.to_r(d, 32)?, sources })
            }
            ty => opcode.refuse(ty),
        },
        ("bfe", [d, a, b, c]) => {
            let ty = opcode.ty()?;
            let (b, c) = (context.r(b, 32)?, context.r(c, 32)?);
            match ty {
                Type::U(32) | Type::S(32) => {
                    let f: F3<u32, u32, u32, u32> = match ty.is_signed() {
                        false => {
                            f3!(|a: u32, b: u32, c: u32| -> u32 { extract(a.into(), 32, b, c, false) as u32 })
                        }
                        true => {
                            f3!(|a: u32, b: u32, c: u32| -> u32 { extract(a.into(), 32, b, c, true) as u32 })
                        }
                    };
                    Ok(Op::F3_32(f, context.to_r(d, 32)?, [context.r(a, 32)?, b, c]))
                }
                Type::U(64) | Type::S(64) => {
                    let f: F3<u64, u64, u32, u32> = match ty.is_signed() {
                        false => f3!(|a: u64, b: u32, c: u32| -> u64 { extract(a, 64, b, c, false) }),
                        true => f3!(|a: u64, b: u32, c: u32| -> u64 { extract(a, 64, b, c, true) }),
                    };
                    Ok(Op::BitField64(f, context.to_d(d)?, context.d(a)?, b, c))
                }
                _ => opcode.refuse(ty),
            }
        }
        ("bfi", [d, a, b, c, e]) => match opcode.ty()? {
            Type::B(32) => Ok(Op::Insert32([
                context.to_r(d, 32)?,
                context.r(a, 32)?,
                context.r(b, 32)?,
                context.r(c, 32)?,
                context.r(e, 32)?,
            ])),
            ty => opcode.refuse(ty),
        },
        ("lop3", [d, a, b, c, Operand::Integer(table)]) => match (opcode.ty()?, u8::try_from(*table)) {
            (Type::B(32), Ok(table)) => {
                let mut sources = [context.r(a, 32)?, context.r(b, 32)?, context.r(c, 32)?];
                // Nothing depends on what the table does not look at, such as a register without a value.
                for (source, bit) in sources.iter_mut().zip([4, 2, 1]) {
                    if ignores(table, bit) {
                        *source = context.constant32(0);
                    }
                }
                Ok(Op::Lop3 { table, d: context.to_r(d, 32)?, sources })
            }
            (ty, _) => opcode.refuse(ty),
        },
        _ => Err(format!("is not emulated with {} operands", operands.len())),
    }
}

/// Whether both operands are one register.
fn same_register(a: &Operand, b: &Operand) -> bool {
    matches!((a, b), (Operand::Name(a), Operand::Name(b)) if a == b)
}

fn bitwise(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, a: &Operand, b: &Operand) -> Result_ {
    let name = opcode.name();
    let ty = opcode.ty()?;
    if name == "xor" && same_register(a, b) {
        // Zero, also of a register without a value.
        return match (ty, d) {
            (Type::Pred, Operand::Name(d)) => {
                context.condition(a)?;
                Ok(Op::SetPredicate(context.predicate_to(d)?, false))
            }
            (Type::B(64), _) => {
                context.d(a)?;
                Ok(Op::Move64(context.to_d(d)?, context.constant64(0)))
            }
            (Type::B(bits @ (16 | 32)), _) => {
                context.r(a, bits)?;
                Ok(Op::Move32(context.to_r(d, bits)?, context.constant32(0)))
            }
            _ => opcode.refuse(ty),
        };
    }
    match ty {
        Type::Pred => {
            let op = match name {
                "and" => PredicateOp::And,
                "or" => PredicateOp::Or,
                _ => PredicateOp::Xor,
            };
            let Operand::Name(d) = d else { return Err("the result is no predicate".into()) };
            Ok(Op::Predicates(op, context.predicate_to(d)?, context.condition(a)?, context.condition(b)?))
        }
        Type::B(64) => {
            let f: F2<u64, u64, u64> = match name {
                "and" => f2!(|a: u64, b: u64| -> u64 { a & b }),
                "or" => f2!(|a: u64, b: u64| -> u64 { a | b }),
                _ => f2!(|a: u64, b: u64| -> u64 { a ^ b }),
            };
            Ok(Op::F2_64(f, context.to_d(d)?, context.d(a)?, context.d(b)?))
        }
        Type::B(bits @ (16 | 32)) => {
            let f: F2<u32, u32, u32> = match name {
                "and" => f2!(|a: u32, b: u32| -> u32 { a & b }),
                "or" => f2!(|a: u32, b: u32| -> u32 { a | b }),
                _ => f2!(|a: u32, b: u32| -> u32 { a ^ b }),
            };
            Ok(Op::F2_32(f, context.to_r(d, bits)?, context.r(a, bits)?, context.r(b, bits)?))
        }
        _ => opcode.refuse(ty),
    }
}

/// Shifts by the width or more shift everything out.
fn shift(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, a: &Operand, b: &Operand) -> Result_ {
    let ty = opcode.ty()?;
    if !ty.is_integer() {
        return opcode.refuse(ty);
    }
    let left = opcode.name() == "shl";
    let by = context.r(b, 32)?;
    if ty.bits() == 64 {
        let f: F2<u64, u64, u32> = match (left, ty.is_signed()) {
            (true, _) => f2!(|a: u64, b: u32| -> u64 { if b < 64 { a << b } else { 0 } }),
            (false, false) => f2!(|a: u64, b: u32| -> u64 { if b < 64 { a >> b } else { 0 } }),
            (false, true) => f2!(|a: i64, b: u32| -> i64 { a >> b.min(63) }),
        };
        return Ok(Op::Shift64(f, context.to_d(d)?, context.d(a)?, by));
    }
    let f: F2<u32, u32, u32> = match (left, ty.is_signed(), ty.bits()) {
        (true, _, 32) => f2!(|a: u32, b: u32| -> u32 { if b < 32 { a << b } else { 0 } }),
        (false, false, 32) => f2!(|a: u32, b: u32| -> u32 { if b < 32 { a >> b } else { 0 } }),
        (false, true, 32) => f2!(|a: i32, b: u32| -> i32 { a >> b.min(31) }),
        (true, _, 16) => f2!(|a: u16, b: u32| -> u16 { if b < 16 { a << b } else { 0 } }),
        (false, false, 16) => f2!(|a: u16, b: u32| -> u16 { if b < 16 { a >> b } else { 0 } }),
        (false, true, 16) => f2!(|a: i16, b: u32| -> i16 { a >> b.min(15) }),
        _ => return opcode.refuse(ty),
    };
    Ok(Op::F2_32(f, context.to_r(d, ty.bits())?, context.r(a, ty.bits())?, by))
}

fn one(context: &mut Context, opcode: &mut Opcode<'_>, d: &Operand, a: &Operand) -> Result_ {
    let name = opcode.name();
    let ty = opcode.ty()?;
    let f: F1<u32, u32> = match (name, ty) {
        ("not", Type::Pred) => {
            let Operand::Name(d) = d else { return Err("the result is no predicate".into()) };
            let mut a = context.condition(a)?;
            a.negated = !a.negated;
            return Ok(Op::MovePredicate(context.predicate_to(d)?, a));
        }
        ("not", Type::B(64)) => {
            let f: F1<u64, u64> = f1!(|a: u64| -> u64 { !a });
            return Ok(Op::F1_64(f, context.to_d(d)?, context.d(a)?));
        }
        ("brev", Type::B(64)) => {
            let f: F1<u64, u64> = f1!(|a: u64| -> u64 { a.reverse_bits() });
            return Ok(Op::F1_64(f, context.to_d(d)?, context.d(a)?));
        }
        ("clz", Type::B(64)) => {
            let f: F1<u32, u64> = f1!(|a: u64| -> u32 { a.leading_zeros() });
            return Ok(Op::F1_64to32(f, context.to_r(d, 32)?, context.d(a)?));
        }
        ("popc", Type::B(64)) => {
            let f: F1<u32, u64> = f1!(|a: u64| -> u32 { a.count_ones() });
            return Ok(Op::F1_64to32(f, context.to_r(d, 32)?, context.d(a)?));
        }
        ("not", Type::B(32)) => f1!(|a: u32| -> u32 { !a }),
        ("not", Type::B(16)) => f1!(|a: u16| -> u16 { !a }),
        ("cnot", Type::B(32)) => f1!(|a: u32| -> u32 { u32::from(a == 0) }),
        ("clz", Type::B(32)) => f1!(|a: u32| -> u32 { a.leading_zeros() }),
        ("popc", Type::B(32)) => f1!(|a: u32| -> u32 { a.count_ones() }),
        ("brev", Type::B(32)) => f1!(|a: u32| -> u32 { a.reverse_bits() }),
        _ => return opcode.refuse(ty),
    };
    Ok(Op::F1_32(f, context.to_r(d, ty.bits())?, context.r(a, ty.bits())?))
}

/// Whether the table's result is the same whatever this bit of its index is.
fn ignores(table: u8, bit: u8) -> bool {
    (0..8).filter(|i| i & bit == 0).all(|i| table >> i & 1 == table >> (i | bit) & 1)
}

fn funnel_left(low: u32, high: u32, by: u32) -> u32 {
    (((u64::from(high) << 32 | u64::from(low)) << by) >> 32) as u32
}

fn funnel_right(low: u32, high: u32, by: u32) -> u32 {
    ((u64::from(high) << 32 | u64::from(low)) >> by) as u32
}

/// Four bytes of eight, each chosen by four bits of the selector, the top one of which replicates the sign.
pub(crate) fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    (0..4).fold(0, |result, i| {
        let choice = selector >> (4 * i);
        let byte = (bytes >> (8 * (choice & 7))) as u8;
        let byte = if choice & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        result | u32::from(byte) << (8 * i)
    })
}

/// Whether a byte of the result is chosen from the first operand, and whether one is from the second.
pub(crate) fn permuted(selector: u32) -> [bool; 2] {
    let second = |i: u32| selector >> (4 * i + 2) & 1 != 0;
    [!(0..4).all(second), (0..4).any(second)]
}

/// `length` bits from `start`; beyond the top bit, zeros or the sign.
fn extract(value: u64, width: u32, start: u32, length: u32, signed: bool) -> u64 {
    let (start, length) = (start & 0xff, length & 0xff);
    let top = (start + length).saturating_sub(1).min(width - 1);
    let sign = if signed && length > 0 { value >> top & 1 } else { 0 };
    let fill = sign.wrapping_neg();
    let extended = if width == 64 { value } else { value | fill << 32 };
    let shifted = if start >= 64 {
        fill
    } else {
        (extended >> start) | if start > 0 { fill << (64 - start) } else { 0 }
    };
    if length >= 64 {
        return shifted;
    }
    let mask = (1u64 << length) - 1;
    (shifted & mask) | (fill & !mask)
}

/// The low `length` bits of `a` at `start` of `b`.
pub(crate) fn insert(a: u32, b: u32, start: u32, length: u32) -> u32 {
    let (start, length) = (start & 0xff, length & 0xff);
    if start >= 32 {
        return b;
    }
    let mask = if length >= 32 { u32::MAX } else { (1 << length) - 1 };
    (b & !(mask << start)) | ((a & mask) << start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_fields() {
        assert_eq!(extract(0xabcd_1234, 32, 8, 8, false), 0x12);
        assert_eq!(extract(0xabcd_8234, 32, 8, 8, true) as u32, 0xffff_ff82);
        assert_eq!(extract(0x8000_0000, 32, 28, 16, true) as u32, 0xffff_fff8);
        assert_eq!(extract(0x8000_0000, 32, 28, 16, false) as u32, 8);
        assert_eq!(extract(5, 32, 0, 0, true), 0);
        assert_eq!(extract(u64::MAX, 64, 60, 255, false), 15);
        assert_eq!(insert(0xff, 0, 4, 4), 0xf0);
        assert_eq!(insert(0xff, 7, 40, 4), 7);
    }

    #[test]
    fn permutations() {
        assert_eq!(permute(0x3322_1100, 0x7766_5544, 0x7410), 0x7744_1100);
        assert_eq!(permute(0x0000_0080, 0, 0x8888), 0xffff_ffff);
        assert_eq!(funnel_left(0x8000_0000, 1, 1), 3);
        assert_eq!(funnel_right(0, 1, 32), 1);
    }
}
