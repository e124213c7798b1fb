//! `wmma`, and forms of `mma` that [`super::matrix`] has not: of f64, of single bits, of eight rows, and of a sparse A.
//!
//! PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".

use super::Result_;
use super::context::Context;
use super::matrix::{shape, together};
use super::memory::window;
use super::opcode::Opcode;
use crate::program::op::Op;
use crate::program::operand::{FragmentOp, Source, WarpProductOp, Window};
use crate::tensor::fragment::{Fragment, Number, Role};
use crate::tensor::sparse::Sparse;
use crate::tensor::warp_product::{Combine, WarpProduct};
use tilewright_ptx::ast::{Operand, Space};

const NUMBERS: [(&str, Number); 13] = [
    ("f16", Number::F16),
    ("bf16", Number::Bf16),
    ("tf32", Number::Tf32),
    ("e4m3", Number::E4m3),
    ("e5m2", Number::E5m2),
    ("s8", Number::S8),
    ("u8", Number::U8),
    ("s4", Number::S4),
    ("u4", Number::U4),
    ("b1", Number::B1),
    ("f32", Number::F32),
    ("s32", Number::S32),
    ("f64", Number::F64),
];

/// Whether an instruction is one of these.
pub(super) fn is_fragments(opcode: &Opcode<'_>) -> bool {
    let eight = ["m8n8k4", "m8n8k16", "m8n8k32", "m8n8k128"];
    let other = ["sp", "sp::ordered_metadata", "f64", "b1"];
    opcode.name() == "wmma"
        || opcode.name() == "mma" && other.iter().chain(&eight).any(|modifier| opcode.has(modifier))
}

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    if opcode.name() == "mma" {
        return mma(context, opcode, operands);
    }
    match opcode.any(&[("load", 'l'), ("store", 's'), ("mma", 'm')]) {
        Some('m') => wmma(context, opcode, operands),
        Some(action) => movement(context, opcode, operands, action == 'l'),
        None => Err("has no action that is emulated".into()),
    }
}

/// What the next modifier that names a type names.
fn number(opcode: &mut Opcode<'_>) -> Result<Number, String> {
    opcode.first_of(&NUMBERS).ok_or_else(|| "has no type that is emulated".into())
}

/// A layout: whether it is by rows.
fn by_rows(opcode: &mut Opcode<'_>) -> Result<bool, String> {
    opcode.first_of(&[("row", true), ("col", false)]).ok_or_else(|| "needs `.row` or `.col`".into())
}

/// Registers of a fragment, all of a lane.
fn vector(
    context: &mut Context,
    operand: &Operand,
    fragment: &Fragment,
    written: bool,
) -> Result<Box<[Source]>, String> {
    let parts = match operand {
        Operand::Vector(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    if parts.len() != fragment.registers {
        return Err(format!("{} registers where {} are needed", parts.len(), fragment.registers));
    }
    let each = parts.iter().map(|part| match (fragment.number, written) {
        (Number::F64, true) => context.to_d(part).map(Source::D),
        (Number::F64, false) => context.d(part).map(Source::D),
        (_, true) => context.to_r(part, 32).map(Source::R),
        (_, false) => context.r(part, 32).map(Source::R),
    });
    each.collect()
}

/// A fragment of `wmma`, if there is one.
fn wmma_fragment(role: Role, number: Number, [m, n, k]: [u32; 3]) -> Result<Fragment, String> {
    let sixteen = matches!([m, n, k], [16, 16, 16] | [32, 8, 16] | [8, 32, 16]);
    // Of A its rows, of B its columns.
    let extent = if role == Role::B { n } else { m };
    let registers = match (role, number, [m, n, k]) {
        (Role::A | Role::B, Number::F16, _) if sixteen => Some(8),
        (Role::A | Role::B, Number::Bf16, _) if sixteen => Some(extent / 4),
        (Role::A | Role::B, Number::S8 | Number::U8, _) if sixteen => Some(extent / 8),
        (Role::A | Role::B, Number::Tf32, [16, 16, 8]) => Some(4),
        (Role::A | Role::B, Number::F64, [8, 8, 4]) => Some(1),
        (Role::A | Role::B, Number::S4 | Number::U4, [8, 8, 32]) => Some(1),
        (Role::A | Role::B, Number::B1, [8, 8, 128]) => Some(1),
        (Role::C, Number::F16, _) if sixteen => Some(4),
        (Role::C, Number::F32 | Number::S32, _) if sixteen => Some(8),
        (Role::C, Number::F32, [16, 16, 8]) => Some(8),
        (Role::C, Number::F64, [8, 8, 4]) => Some(2),
        (Role::C, Number::S32, [8, 8, 32 | 128]) => Some(2),
        _ => None,
    };
    let registers = registers.ok_or_else(|| format!("there is no {role:?} of {number:?} of m{m}n{n}k{k}"))?;
    let shape = [m, n, k].map(|extent| extent as usize);
    Ok(Fragment { role, number, shape, registers: registers as usize, linear: true })
}

fn movement(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand], loads: bool) -> Result_ {
    let role = match loads {
        true => opcode.any(&[("a", Role::A), ("b", Role::B), ("c", Role::C)]),
        false => opcode.any(&[("d", Role::C)]),
    };
    let role = role.ok_or("names no matrix")?;
    together(opcode)?;
    let by_rows = by_rows(opcode)?;
    let (registers, at, stride) = match (operands, loads) {
        ([registers, at, stride @ ..], true) | ([at, registers, stride @ ..], false) => {
            (registers, at, stride)
        }
        _ => return Err("takes registers and an address".into()),
    };
    let stride = match stride {
        [] => None,
        [stride] => Some(context.r(stride, 32)?),
        _ => return Err(format!("does not take {} operands", operands.len())),
    };
    let window = window(context, opcode, at);
    if !matches!(window, Window::Generic | Window::In(Space::Global | Space::Shared)) {
        return Err("matrices lie in global or shared memory".into());
    }
    let shape = shape(opcode)?;
    let fragment = wmma_fragment(role, number(opcode)?, shape)?;
    if fragment.number.bits() < 8 && by_rows != (role == Role::A) {
        return Err(format!("a {role:?} of {:?} has only the other layout", fragment.number));
    }
    let registers = vector(context, registers, &fragment, loads)?;
    let op = FragmentOp { fragment, by_rows, window, at: context.address(at)?, stride, registers };
    Ok(if loads { Op::WmmaLoad(Box::new(op)) } else { Op::WmmaStore(Box::new(op)) })
}

/// How elements are combined, which is said of single bits.
fn combination(opcode: &mut Opcode<'_>) -> Result<Combine, String> {
    let combine = opcode.any(&[("xor", Combine::Xor), ("and", Combine::And)]);
    let counts = opcode.flag("popc");
    match (opcode.has("b1"), combine, counts) {
        (true, Some(combine), true) => Ok(combine),
        (true, ..) => Err("needs `.xor.popc` or `.and.popc`".into()),
        (_, None, false) => Ok(Combine::Multiply),
        _ => Err("counts only single bits".into()),
    }
}

fn wmma(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    together(opcode)?;
    // The fragments lie alike whatever their layout in memory was.
    let _layouts = (by_rows(opcode)?, by_rows(opcode)?);
    let (saturate, combine) = (opcode.flag("satfinite"), combination(opcode)?);
    opcode.flag("rn");
    let shape = shape(opcode)?;
    let mut types = vec![number(opcode)?, number(opcode)?];
    while let Some(next) = opcode.first_of(&NUMBERS) {
        types.push(next);
    }
    // Products of f16 name only the types of D and C.
    let (d, a, b, c) = match types[..] {
        [d, c] => (d, Number::F16, Number::F16, c),
        [d, a, b, c] => (d, a, b, c),
        _ => return Err("has too many types".into()),
    };
    let fragment = |role, number| wmma_fragment(role, number, shape);
    let form = WarpProduct {
        a: fragment(Role::A, a)?,
        b: fragment(Role::B, b)?,
        c: fragment(Role::C, c)?,
        d: fragment(Role::C, d)?,
        combine,
        saturate,
        sparse: None,
    };
    product(context, form, operands, None)
}

fn mma(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let ordered = opcode.any(&[("sp", false), ("sp::ordered_metadata", true)]);
    together(opcode)?;
    let (saturate, combine) = (opcode.flag("satfinite"), combination(opcode)?);
    if !(opcode.flag("row") && opcode.flag("col")) {
        return Err("only `.row.col` is emulated".into());
    }
    opcode.flag("rn");
    let [m, n, k] = shape(opcode)?;
    let (d, a, b, c) = (number(opcode)?, number(opcode)?, number(opcode)?, number(opcode)?);
    if !exists([m, n, k], a, ordered.is_some()) {
        return Err(format!("shape m{m}n{n}k{k} of {a:?} is not emulated"));
    }
    let stored = if ordered.is_some() { k / 2 } else { k } as usize;
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let fragment = |role, number: Number, elements: usize, depth| Fragment {
        role,
        number,
        shape: [m, n, depth],
        registers: elements / 32 / number.per_register(),
        linear: false,
    };
    let (operands, metadata, sparse) = match (operands, ordered) {
        ([all @ .., metadata, Operand::Integer(selector)], Some(ordered)) => {
            let sparse = Sparse { selector: *selector as usize, ordered };
            (all, Some(context.r(metadata, 32)?), Some(sparse))
        }
        (all, None) => (all, None, None),
        _ => return Err("takes metadata and the lanes that have it".into()),
    };
    let form = WarpProduct {
        a: fragment(Role::A, a, m * stored, stored),
        b: fragment(Role::B, b, n * k, k),
        c: fragment(Role::C, c, m * n, k),
        d: fragment(Role::C, d, m * n, k),
        combine,
        saturate,
        sparse,
    };
    if let Some(sparse) = sparse {
        sparse.check(a.bits(), stored)?;
    }
    product(context, form, operands, metadata)
}

/// Whether `mma` has the shape.
fn exists(shape: [u32; 3], a: Number, sparse: bool) -> bool {
    match (a, sparse) {
        (Number::F64, false) => matches!(shape, [8, 8, 4] | [16, 8, 4 | 8 | 16]),
        (Number::S8 | Number::U8, false) => shape == [8, 8, 16],
        (Number::S4 | Number::U4, false) => shape == [8, 8, 32],
        (Number::B1, false) => matches!(shape, [8, 8, 128] | [16, 8, 128 | 256]),
        (Number::Tf32, true) => matches!(shape, [16, 8, 8 | 16]),
        (Number::F16 | Number::Bf16, true) => matches!(shape, [16, 8, 16 | 32]),
        (Number::S8 | Number::U8, true) => matches!(shape, [16, 8, 32 | 64]),
        (Number::E4m3 | Number::E5m2, true) => shape == [16, 8, 64],
        (Number::S4 | Number::U4, true) => matches!(shape, [16, 8, 64 | 128]),
        _ => false,
    }
}

/// Whether such numbers are multiplied, and their products added to such.
fn fits(form: &WarpProduct) -> bool {
    use Number::*;
    let (a, b, c, d) = (form.a.number, form.b.number, form.c.number, form.d.number);
    match (a, b) {
        (F16, F16) | (E4m3 | E5m2, E4m3 | E5m2) => [c, d].iter().all(|ty| matches!(ty, F16 | F32)),
        (Bf16, Bf16) | (Tf32, Tf32) => (c, d) == (F32, F32),
        (S8 | U8, S8 | U8) | (S4 | U4, S4 | U4) | (B1, B1) => (c, d) == (S32, S32),
        (F64, F64) => (c, d) == (F64, F64),
        _ => false,
    }
}

fn product(
    context: &mut Context,
    form: WarpProduct,
    operands: &[Operand],
    metadata: Option<crate::program::register::R>,
) -> Result_ {
    let integer = matches!(form.d.number, Number::S32) && form.combine == Combine::Multiply;
    if !fits(&form) || form.saturate && !integer {
        return Err(format!(
            "there is no product of {:?} and {:?} that is added to {:?} and gives {:?}",
            form.a.number, form.b.number, form.c.number, form.d.number
        ));
    }
    let [d, a, b, c] = operands else { return Err("takes four matrices".into()) };
    Ok(Op::WarpProduct(Box::new(WarpProductOp {
        d: vector(context, d, &form.d, true)?,
        a: vector(context, a, &form.a, false)?,
        b: vector(context, b, &form.b, false)?,
        c: vector(context, c, &form.c, false)?,
        metadata,
        form,
    })))
}
