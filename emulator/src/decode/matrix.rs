//! Matrix moves and products.
//!
//! PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions" and "Asynchronous Warpgroup Level Matrix
//! Multiply-Accumulate Instructions".

use super::Result_;
use super::context::Context;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{MmaOp, WgmmaA, WgmmaOp, Window};
use crate::program::register::R;
use crate::tensor::element::{Accumulator, Element};
use crate::tensor::mma::Mma;
use crate::tensor::sparse::Sparse;
use crate::tensor::wgmma::Wgmma;
use tilewright_ptx::ast::{Operand, Space};

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match opcode.name() {
        "wgmma" => wgmma(context, opcode, operands),
        "mma" => mma(context, opcode, operands),
        "movmatrix" => transpose(context, opcode, operands),
        _ => rows(context, opcode, operands),
    }
}

fn transpose(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    together(opcode)?;
    match (opcode.flag("m8n8") && opcode.flag("trans"), opcode.ty()?, operands) {
        (true, Type::B(16), [to, from]) => {
            Ok(Op::Movmatrix { to: context.to_r(to, 32)?, from: context.r(from, 32)? })
        }
        (_, ty, _) => opcode.refuse(ty),
    }
}

pub(super) fn together(opcode: &mut Opcode<'_>) -> Result<(), String> {
    if opcode.flag("sync") && opcode.flag("aligned") { Ok(()) } else { Err("needs `.sync.aligned`".into()) }
}

/// The registers of a vector operand.
fn vector(
    operand: &Operand,
    count: usize,
    mut each: impl FnMut(&Operand) -> Result<R, String>,
) -> Result<Box<[R]>, String> {
    match operand {
        Operand::Vector(parts) if parts.len() == count => parts.iter().map(&mut each).collect(),
        Operand::Vector(parts) => Err(format!("{} registers where {count} are needed", parts.len())),
        _ => Err(format!("{operand:?} is no vector of registers")),
    }
}

/// `ldmatrix` and `stmatrix`.
fn rows(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    together(opcode)?;
    let count = opcode.any(&[("x1", 1), ("x2", 2), ("x4", 4)]).ok_or("needs a number of matrices")?;
    let trans = opcode.flag("trans");
    if !opcode.flag("m8n8") {
        return Err("only the shape m8n8 is emulated".into());
    }
    let shared = opcode.flag("shared") || opcode.flag("shared::cta");
    let window = if shared { Window::In(Space::Shared) } else { Window::Generic };
    match (opcode.name(), opcode.ty()?, operands) {
        ("ldmatrix", Type::B(16), [to, at]) => {
            let to = vector(to, count, |part| context.to_r(part, 32))?;
            Ok(Op::Ldmatrix { to, trans, window, at: context.address(at)? })
        }
        ("stmatrix", Type::B(16), [at, from]) => {
            let from = vector(from, count, |part| context.r(part, 32))?;
            Ok(Op::Stmatrix { from, trans, window, at: context.address(at)? })
        }
        (_, ty, _) => opcode.refuse(ty),
    }
}

/// `m16n8k16` as its three numbers.
pub(super) fn shape(opcode: &mut Opcode<'_>) -> Result<[u32; 3], String> {
    let text = opcode.next().ok_or("has no shape")?;
    let numbers = text.strip_prefix('m').and_then(|text| {
        let (m, rest) = text.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
    });
    numbers.ok_or_else(|| format!("`.{text}` is no shape"))
}

fn element(opcode: &mut Opcode<'_>) -> Result<Element, String> {
    Ok(match opcode.next() {
        Some("f16") => Element::F16,
        Some("bf16") => Element::Bf16,
        Some("tf32") => Element::Tf32,
        Some("e4m3") => Element::E4m3,
        Some("e5m2") => Element::E5m2,
        Some("s8") => Element::S8,
        Some("u8") => Element::U8,
        Some("s4") => Element::S4,
        Some("u4") => Element::U4,
        Some("b1") => Element::B1,
        other => return Err(format!("elements of type `{}` are not emulated", other.unwrap_or(""))),
    })
}

fn accumulator(opcode: &mut Opcode<'_>, saturate: bool) -> Result<Accumulator, String> {
    match opcode.next() {
        Some("f32") if !saturate => Ok(Accumulator::F32),
        Some("f16") if !saturate => Ok(Accumulator::F16),
        Some("s32") => Ok(Accumulator::S32 { saturate }),
        other => Err(format!("accumulators of type `{}` are not emulated", other.unwrap_or(""))),
    }
}

fn mma(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    together(opcode)?;
    let saturate = opcode.flag("satfinite");
    if !(opcode.flag("row") && opcode.flag("col")) {
        return Err("only `.row.col` is emulated".into());
    }
    let [m, n, k] = shape(opcode)?;
    if [m, n] != [16, 8] {
        return Err(format!("shape m{m}n{n}k{k} is not emulated"));
    }
    let accumulator_d = accumulator(opcode, saturate)?;
    let (a, b) = (element(opcode)?, element(opcode)?);
    if accumulator(opcode, saturate)? != accumulator_d {
        return Err("C and D of different types are not emulated".into());
    }
    let shape = Mma { k, a, b };
    shape.check(accumulator_d)?;
    let [to_d, from_a, from_b, from_c] = operands else { return Err("takes four operands".into()) };
    let registers = accumulator_d.registers(8);
    Ok(Op::Mma(Box::new(MmaOp {
        shape,
        accumulator: accumulator_d,
        d: vector(to_d, registers, |part| context.to_r(part, 32))?,
        a: vector(from_a, shape.registers_a(), |part| context.r(part, 32))?,
        b: vector(from_b, shape.registers_b(), |part| context.r(part, 32))?,
        c: vector(from_c, registers, |part| context.r(part, 32))?,
    })))
}

fn wgmma(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    const ACTIONS: [&str; 4] = ["mma_async", "fence", "commit_group", "wait_group"];
    let action =
        ACTIONS.into_iter().find(|action| opcode.flag(action)).ok_or("has no action that is emulated")?;
    together(opcode)?;
    match (action, operands) {
        ("fence", []) => return Ok(Op::WgmmaFence),
        ("commit_group", []) => return Ok(Op::WgmmaCommit),
        ("wait_group", [Operand::Integer(pending)]) => {
            let pending = u32::try_from(*pending).map_err(|_| "waits for a negative number of groups")?;
            return Ok(Op::WgmmaWait { pending });
        }
        ("mma_async", _) => {}
        _ => return Err(format!("does not take {} operands", operands.len())),
    }
    let (saturate, is_sparse) = (opcode.flag("satfinite"), opcode.flag("sp"));
    let counts = opcode.flag("and") && opcode.flag("popc");
    let [m, n, k] = shape(opcode)?;
    let accumulator = accumulator(opcode, saturate)?;
    let (element_a, element_b) = (element(opcode)?, element(opcode)?);
    if counts != (element_a == Element::B1) {
        return Err("needs `.and.popc` for single bits, and for no other elements".into());
    }
    let [d, a, b, rest @ ..] = operands else { return Err("takes at least four operands".into()) };
    let (metadata, sparse, rest) = match (rest, is_sparse) {
        ([metadata, Operand::Integer(selector), rest @ ..], true) => {
            let sparse =
                Sparse { selector: usize::try_from(*selector).unwrap_or(usize::MAX), ordered: false };
            (Some(context.r(metadata, 32)?), Some(sparse), rest)
        }
        (_, true) => return Err("takes metadata and the lanes that have it".into()),
        (rest, false) => (None, None, rest),
    };
    let [scale, constants @ ..] = rest else { return Err("takes at least four operands".into()) };
    let constants = constants.iter().map(|operand| match operand {
        Operand::Integer(value) => Ok(*value as i64),
        other => Err(format!("{other:?} is no constant")),
    });
    let constants = constants.collect::<Result<Vec<_>, _>>()?;
    let in_registers = matches!(a, Operand::Vector(_));
    // Scales of A and B, then whether they are transposed: A in registers never is.
    let (scales, transposed) = match (constants.as_slice(), in_registers) {
        ([], _) => ([1, 1], [0, 0]),
        (&[a, b], _) => ([a, b], [0, 0]),
        (&[a, b, t], true) => ([a, b], [0, t]),
        (&[a, b, s, t], false) => ([a, b], [s, t]),
        (other, _) => return Err(format!("does not take {} constants", other.len())),
    };
    let flag = |value: i64, off: i64, on: i64| match value {
        value if value == off => Ok(false),
        value if value == on => Ok(true),
        other => Err(format!("constant {other} must be {off} or {on}")),
    };
    let shape = Wgmma {
        n,
        a: element_a,
        b: element_b,
        trans_a: flag(transposed[0], 0, 1)?,
        trans_b: flag(transposed[1], 0, 1)?,
        negate_a: flag(scales[0], 1, -1)?,
        negate_b: flag(scales[1], 1, -1)?,
        sparse,
    };
    shape.check(accumulator, in_registers)?;
    if m != 64 || k as usize != shape.depth() {
        return Err(format!("shape m{m}n{n}k{k} does not exist for {element_a:?}"));
    }
    let d = vector(d, accumulator.registers(n as usize), |part| context.to_r(part, 32))?;
    let a = if in_registers {
        let registers = vector(a, 4, |part| context.r(part, 32))?;
        WgmmaA::Registers([registers[0], registers[1], registers[2], registers[3]])
    } else {
        WgmmaA::Shared(context.d(a)?)
    };
    let scale = context.condition(scale)?;
    Ok(Op::Wgmma(Box::new(WgmmaOp { shape, accumulator, d, a, b: context.d(b)?, metadata, scale })))
}
