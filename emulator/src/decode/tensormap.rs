//! Tensor maps that kernels change, and the fences before they are used.
//!
//! PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy" and "fence.proxy.tensormap". The proxy of tensor maps is taken for the
//! async proxy: a fence of it is one between that and the generic proxy, and one of memory.

use super::context::Context;
use super::memory::window;
use super::opcode::Opcode;
use super::synchronise::scope;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Source, Window};
use crate::tensor::map::Field;
use tilewright_ptx::ast::{Operand, Space};

/// Bytes of a map.
const BYTES: u64 = 128;

/// Whether an instruction is one of these.
pub(super) fn is_tensormap(opcode: &Opcode<'_>) -> bool {
    opcode.name() == "tensormap" || opcode.name() == "fence" && opcode.has("tensormap::generic")
}

pub(super) fn decode(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
) -> Result<Vec<Op>, String> {
    if opcode.name() == "fence" {
        return fence(context, opcode, operands);
    }
    if opcode.flag("replace") {
        return replace(context, opcode, operands);
    }
    if !opcode.flag("cp_fenceproxy") {
        return Err("has no action that is emulated".into());
    }
    for modifier in ["global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"] {
        if !opcode.flag(modifier) {
            return Err(format!("needs `.{modifier}`"));
        }
    }
    let scope = scope(opcode);
    match operands {
        [to, from, Operand::Integer(BYTES)] => {
            let copy = Op::TensorMapCopy { to: context.address(to)?, from: context.address(from)? };
            Ok(vec![copy, Op::Fence(scope), Op::ProxyFence(None)])
        }
        _ => Err(format!("takes two addresses and {BYTES} bytes")),
    }
}

fn fence(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result<Vec<Op>, String> {
    opcode.flag("proxy");
    opcode.flag("tensormap::generic");
    let acquires =
        opcode.any(&[("acquire", true), ("release", false)]).ok_or("needs `.acquire` or `.release`")?;
    match (operands, acquires) {
        ([at, Operand::Integer(BYTES)], true) => {
            context.address(at)?;
        }
        ([], false) => {}
        _ => return Err(format!("takes an address and {BYTES} bytes to acquire, and nothing to release")),
    }
    Ok(vec![Op::Fence(scope(opcode)), Op::ProxyFence(None)])
}

fn replace(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result<Vec<Op>, String> {
    const FIELDS: [&str; 10] = [
        "global_address",
        "rank",
        "box_dim",
        "global_dim",
        "global_stride",
        "element_stride",
        "elemtype",
        "interleave_layout",
        "swizzle_mode",
        "fill_mode",
    ];
    if !opcode.flag("tile") {
        return Err("needs `.tile`".into());
    }
    let name = FIELDS.into_iter().find(|name| opcode.flag(name)).ok_or("has no field that is emulated")?;
    let [at, rest @ ..] = operands else { return Err("takes an address".into()) };
    let dimension = |value: &Operand, most: u64| match value {
        Operand::Integer(value) if *value < most => Ok(*value as usize),
        other => Err(format!("{other:?} is no number of a dimension below {most}")),
    };
    let (field, value) = match (name, rest) {
        ("global_address", [value]) => (Field::Address, value),
        ("rank", [value]) => (Field::Rank, value),
        ("box_dim", [ord, value]) => (Field::Box(dimension(ord, 5)?), value),
        ("global_dim", [ord, value]) => (Field::Extent(dimension(ord, 5)?), value),
        ("global_stride", [ord, value]) => (Field::Stride(dimension(ord, 4)?), value),
        ("element_stride", [ord, value]) => (Field::Step(dimension(ord, 5)?), value),
        ("elemtype", [value @ Operand::Integer(_)]) => (Field::DataType, value),
        ("interleave_layout", [value @ Operand::Integer(_)]) => (Field::Interleave, value),
        ("swizzle_mode", [value @ Operand::Integer(_)]) => (Field::Swizzle, value),
        ("fill_mode", [value @ Operand::Integer(_)]) => (Field::Fill, value),
        _ => return Err(format!("does not take {} operands", operands.len())),
    };
    let window = window(context, opcode, at);
    if !matches!(window, Window::Generic | Window::In(Space::Global | Space::Shared)) {
        return Err("maps lie in global or shared memory".into());
    }
    let value = match (opcode.flag("b1024"), opcode.ty()?, field.is_wide()) {
        (true, Type::B(64), true) => Source::D(context.d(value)?),
        (true, Type::B(32), false) => Source::R(context.r(value, 32)?),
        (_, ty, _) => return opcode.refuse(ty),
    };
    Ok(vec![Op::TensorMapReplace { field, window, at: context.address(at)?, value }])
}
