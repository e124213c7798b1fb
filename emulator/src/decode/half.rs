//! Arithmetic of f16 and bf16, alone and in pairs.
//!
//! PTX ISA, "Half Precision Floating Point Instructions".

use super::Result_;
use super::context::Context;
use super::each::each;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::register::{F1, F2, F3, LANES};
use crate::tensor::arith16;
use crate::tensor::float::{Format, Rounding};
use tilewright_ptx::ast::Operand;

/// Whether it is one of this module's types.
pub(super) fn is_half(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2)
}

/// What is done to a result: nothing, `.sat`, `.relu`.
const PLAIN: u8 = 0;
const SAT: u8 = 1;
const RELU: u8 = 2;

/// A function of up to three numbers.
trait Function {
    fn of(format: Format, x: [u16; 3]) -> u16;
}

macro_rules! functions {
    ($($name:ident: |$format:ident, $a:ident, $b:ident, $c:ident| $result:expr;)*) => { $(
        struct $name;

        impl Function for $name {
            fn of($format: Format, [$a, $b, $c]: [u16; 3]) -> u16 {
                $result
            }
        }
    )* };
}
functions! {
    Add: |format, a, b, _c| arith16::add(format, a, b);
    Sub: |format, a, b, _c| arith16::sub(format, a, b);
    Mul: |format, a, b, _c| arith16::mul(format, a, b);
    Fma: |format, a, b, c| arith16::fma(format, a, b, c);
    FmaOutside: |format, a, b, c| arith16::fma_outside(format, a, b, c);
    Min: |format, a, b, _c| arith16::min(format, a, b, false);
    Max: |format, a, b, _c| arith16::max(format, a, b, false);
    MinNan: |format, a, b, _c| arith16::min(format, a, b, true);
    MaxNan: |format, a, b, _c| arith16::max(format, a, b, true);
    Neg: |format, a, _b, _c| arith16::canonical(format, a ^ 0x8000);
    Abs: |format, a, _b, _c| arith16::canonical(format, a & 0x7fff);
    MulFtz: |format, a, b, _c| arith16::fma_ftz(format, a, b, 0x8000);
    FmaFtz: |format, a, b, c| arith16::fma_ftz(format, a, b, c);
}

/// `function` of one half of each operand.
fn one_of<F: Function, const BF16: bool, const FTZ: bool, const POST: u8>(x: [u16; 3]) -> u16 {
    let format = if BF16 { Format::BF16 } else { Format::F16 };
    let flush = |x| if FTZ { arith16::ftz(format, x) } else { x };
    let result = flush(F::of(format, x.map(flush)));
    match POST {
        SAT => arith16::sat(format, result),
        RELU => format.relu(result.into()) as u16,
        _ => result,
    }
}

/// The halves of a register that the type has.
fn lane<F: Function, const BF16: bool, const PAIR: bool, const FTZ: bool, const POST: u8>(
    x: [u32; 3],
) -> u32 {
    let low = u32::from(one_of::<F, BF16, FTZ, POST>(x.map(|x| x as u16)));
    if PAIR { low | u32::from(one_of::<F, BF16, FTZ, POST>(x.map(|x| (x >> 16) as u16))) << 16 } else { low }
}

/// The function of whole registers for an instruction's type and flags, by what `$lanes` makes of that of a lane.
macro_rules! select {
    ($lanes:ident, $f:ty, $ty:expr, $ftz:expr, $post:expr) => {
        select!(@post $lanes, $post, $f, $ty, $ftz)
    };
    (@post $lanes:ident, $post:expr, $f:ty, $ty:expr, $ftz:expr) => {
        match $post {
            SAT => select!(@type $lanes, $f, $ty, $ftz, SAT),
            RELU => select!(@type $lanes, $f, $ty, $ftz, RELU),
            _ => select!(@type $lanes, $f, $ty, $ftz, PLAIN),
        }
    };
    (@type $lanes:ident, $f:ty, $ty:expr, $ftz:expr, $post:ident) => {
        match ($ty, $ftz) {
            (Type::F16, false) => $lanes!(lane::<$f, false, false, false, $post>),
            (Type::F16, true) => $lanes!(lane::<$f, false, false, true, $post>),
            (Type::F16x2, false) => $lanes!(lane::<$f, false, true, false, $post>),
            (Type::F16x2, true) => $lanes!(lane::<$f, false, true, true, $post>),
            (Type::Bf16, _) => $lanes!(lane::<$f, true, false, false, $post>),
            (_, _) => $lanes!(lane::<$f, true, true, false, $post>),
        }
    };
}

macro_rules! unary {
    ($lane:expr) => {
        (|a, d| (0..LANES).for_each(|i| d[i] = $lane([a[i], 0, 0]))) as F1<u32, u32>
    };
}

macro_rules! binary {
    ($lane:expr) => {
        (|a, b, d| (0..LANES).for_each(|i| d[i] = $lane([a[i], b[i], 0]))) as F2<u32, u32, u32>
    };
}

macro_rules! ternary {
    ($lane:expr) => {
        (|a, b, c, d| (0..LANES).for_each(|i| d[i] = $lane([a[i], b[i], c[i]]))) as F3<u32, u32, u32, u32>
    };
}

/// `.ftz`, which only f16 has.
fn ftz(opcode: &mut Opcode<'_>, ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::F16x2) && opcode.flag("ftz")
}

/// `.sat`, which only f16 has.
fn sat(opcode: &mut Opcode<'_>, ty: Type) -> u8 {
    if matches!(ty, Type::F16 | Type::F16x2) && opcode.flag("sat") { SAT } else { PLAIN }
}

/// `neg` and `abs`.
pub(super) fn one(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    ty: Type,
    d: &Operand,
    a: &Operand,
) -> Result_ {
    if matches!(opcode.name(), "ex2" | "tanh") {
        return approximate(context, opcode, ty, d, a);
    }
    let ftz = ftz(opcode, ty);
    let f = match opcode.name() {
        "neg" => select!(unary, Neg, ty, ftz, PLAIN),
        "abs" => select!(unary, Abs, ty, ftz, PLAIN),
        _ => return opcode.refuse(ty),
    };
    Ok(Op::F1_32(f, context.to_r(d, ty.bits())?, context.r(a, ty.bits())?))
}

/// `ex2.approx` and `tanh.approx`: correctly rounded, which is inside the bounds. `.ftz`, which `ex2` of bf16 always has, makes
/// subnormal numbers zeros.
fn approximate(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    ty: Type,
    d: &Operand,
    a: &Operand,
) -> Result_ {
    if !opcode.flag("approx") {
        return Err("needs `.approx`".into());
    }
    let function = if opcode.name() == "ex2" { f64::exp2 } else { f64::tanh };
    let ftz = opcode.name() == "ex2" && opcode.flag("ftz");
    let pair = matches!(ty, Type::F16x2 | Type::Bf16x2);
    let format = if matches!(ty, Type::F16 | Type::F16x2) { Format::F16 } else { Format::BF16 };
    let one = move |bits: u64| {
        let flush = |bits| if ftz { arith16::ftz(format, bits) } else { bits };
        let value = function(format.decode(flush(bits as u16).into()).into());
        u64::from(flush(format.encode(value, Rounding::Nearest, false) as u16))
    };
    each(
        context,
        (d, ty),
        &[(a, ty)],
        move |[a, ..]| {
            if pair { one(a >> 16) << 16 | one(a & 0xffff) } else { one(a) }
        },
    )
}

/// `add`, `sub`, `mul`, `min` and `max`.
pub(super) fn two(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    ty: Type,
    d: &Operand,
    a: &Operand,
    b: &Operand,
) -> Result_ {
    let ftz = ftz(opcode, ty);
    let f = match opcode.name() {
        "min" | "max" => match (opcode.name(), opcode.flag("NaN")) {
            ("min", false) => select!(binary, Min, ty, ftz, PLAIN),
            ("min", true) => select!(binary, MinNan, ty, ftz, PLAIN),
            (_, false) => select!(binary, Max, ty, ftz, PLAIN),
            (_, true) => select!(binary, MaxNan, ty, ftz, PLAIN),
        },
        name => {
            opcode.flag("rn");
            let post = sat(opcode, ty);
            match name {
                "add" => select!(binary, Add, ty, ftz, post),
                "sub" => select!(binary, Sub, ty, ftz, post),
                "mul" if ftz => select!(binary, MulFtz, ty, ftz, post),
                "mul" => select!(binary, Mul, ty, ftz, post),
                _ => return opcode.refuse(ty),
            }
        }
    };
    let bits = ty.bits();
    Ok(Op::F2_32(f, context.to_r(d, bits)?, context.r(a, bits)?, context.r(b, bits)?))
}

/// `fma.rn`, whose rounding the caller has taken.
pub(super) fn fused(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    ty: Type,
    d: &Operand,
    [a, b, c]: [&Operand; 3],
) -> Result_ {
    let (ftz, outside) = (ftz(opcode, ty), opcode.flag("oob"));
    let post = if opcode.flag("relu") { RELU } else { sat(opcode, ty) };
    let f = match (ftz, outside) {
        (false, false) => select!(ternary, Fma, ty, ftz, post),
        (true, false) => select!(ternary, FmaFtz, ty, ftz, post),
        (false, true) if post != SAT => select!(ternary, FmaOutside, ty, ftz, post),
        _ => return opcode.refuse(ty),
    };
    let bits = ty.bits();
    Ok(Op::F3_32(f, context.to_r(d, bits)?, [context.r(a, bits)?, context.r(b, bits)?, context.r(c, bits)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_two_numbers() {
        let add: F2<u32, u32, u32> = select!(binary, Add, Type::F16x2, false, PLAIN);
        let mut d = [0; LANES];
        // 1 + 2 and -1 + 0.5.
        add(&[0xbc00_3c00; LANES], &[0x3800_4000; LANES], &mut d);
        assert_eq!(d, [0xb800_4200; LANES]);
        let add: F2<u32, u32, u32> = select!(binary, Add, Type::F16, false, SAT);
        add(&[0xbc00_3c00; LANES], &[0x3800_4000; LANES], &mut d);
        assert_eq!(d, [0x3c00; LANES]);
        let negate: F1<u32, u32> = select!(unary, Neg, Type::Bf16x2, false, PLAIN);
        negate(&[0x8000_0001; LANES], &mut d);
        assert_eq!(d, [0x0000_8001; LANES]);
        negate(&[0x7fc1_7f80; LANES], &mut d);
        assert_eq!(d, [0x7fff_ff80; LANES], "a NaN becomes the canonical one");
    }

    #[test]
    fn fused_products_with_flags() {
        let mut d = [0; LANES];
        let fma: F3<u32, u32, u32, u32> = select!(ternary, Fma, Type::F16x2, false, RELU);
        // 2 · 3 + 1 and -2 · 3 + 1.
        fma(&[0xc000_4000; LANES], &[0x4200_4200; LANES], &[0x3c00_3c00; LANES], &mut d);
        assert_eq!(d, [0x0000_4700; LANES]);
        let fma: F3<u32, u32, u32, u32> = select!(ternary, Fma, Type::F16, true, PLAIN);
        fma(&[0x0001; LANES], &[0x6400; LANES], &[0x8000; LANES], &mut d);
        assert_eq!(d, [0; LANES], "a subnormal factor is zero");
    }
}
