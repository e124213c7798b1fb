//! Asynchronous copies: `cp.async`, and the bulk copies and reductions of the TMA unit.
//!
//! PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy".

use super::Result_;
use super::context::Context;
use super::memory::window;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Address, Bulk, Queue, Start, Window};
use crate::program::register::R;
use crate::tensor::map::DataType;
use crate::tensor::reduce::Reduction;
use tilewright_ptx::ast::{Operand, Space};

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let reduce = opcode.flag("reduce");
    if !opcode.flag("async") {
        return Err("this form is not emulated".into());
    }
    if opcode.flag("bulk") {
        return bulk(context, opcode, operands, reduce);
    }
    if reduce {
        return Err("this form is not emulated".into());
    }
    // Copies take effect when they are issued; groups say which of them the program knows to be complete.
    if opcode.flag("commit_group") {
        return nothing(operands, Op::Commit { queue: Queue::Copies });
    }
    if opcode.flag("wait_all") {
        return nothing(operands, Op::WaitAllCopies);
    }
    if opcode.flag("wait_group") {
        return Ok(Op::WaitGroup { queue: Queue::Copies, pending: constant(operands)? });
    }
    if opcode.flag("mbarrier") {
        let [at] = operands else { return Err("takes an address".into()) };
        let (arrive, counted) = (opcode.flag("arrive"), opcode.flag("noinc"));
        let window = window(context, opcode, at);
        return match opcode.ty()? {
            Type::B(64) if arrive => Ok(Op::CopyAsyncArrive { at: context.address(at)?, window, counted }),
            ty => opcode.refuse(ty),
        };
    }
    copy(context, opcode, operands)
}

fn nothing(operands: &[Operand], op: Op) -> Result_ {
    if operands.is_empty() { Ok(op) } else { Err("takes no operands".into()) }
}

fn constant(operands: &[Operand]) -> Result<u32, String> {
    match operands {
        [Operand::Integer(value)] => u32::try_from(*value).map_err(|_| format!("{value} groups")),
        _ => Err("takes a constant".into()),
    }
}

fn copy(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let wide = opcode.any(&[("cg", true), ("ca", false)]).ok_or("needs `.ca` or `.cg`")?;
    let spaces = (opcode.flag("shared") || opcode.flag("shared::cta")) && opcode.flag("global");
    if !spaces {
        return Err("copies from global to shared memory alone".into());
    }
    opcode.any(&[("L2::64B", ()), ("L2::128B", ()), ("L2::256B", ())]);
    let (policy, operands) = match (opcode.flag("L2::cache_hint"), operands) {
        (true, [rest @ .., policy]) => (Some(policy), rest),
        (true, []) => return Err("takes a cache policy".into()),
        (false, all) => (None, all),
    };
    policy.map(|policy| context.d(policy)).transpose()?;
    let (to, from, bytes, rest) = match operands {
        [to, from, Operand::Integer(bytes @ (4 | 8 | 16)), rest @ ..] => (to, from, *bytes as u32, rest),
        _ => return Err("copies 4, 8 or 16 bytes".into()),
    };
    if wide && bytes != 16 {
        return Err("`.cg` copies 16 bytes".into());
    }
    let (source_bytes, ignore) = match rest {
        [] => (None, None),
        [ignore] if context.is_predicate(ignore) || matches!(ignore, Operand::Not(_)) => {
            (None, Some(context.condition(ignore)?))
        }
        [source] => (Some(context.r(source, 32)?), None),
        _ => return Err(format!("does not take {} operands", operands.len())),
    };
    Ok(Op::CopyAsync { to: context.address(to)?, from: context.address(from)?, bytes, source_bytes, ignore })
}

fn bulk(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand], reduce: bool) -> Result_ {
    if opcode.flag("commit_group") {
        return nothing(operands, Op::Commit { queue: Queue::Bulk });
    }
    if opcode.flag("wait_group") {
        let queue = if opcode.flag("read") { Queue::BulkReads } else { Queue::Bulk };
        return Ok(Op::WaitGroup { queue, pending: constant(operands)? });
    }
    let prefetch = opcode.flag("prefetch");
    let tensor = opcode.flag("tensor");
    let rank = opcode.any(&[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)]);
    opcode.flag("tile");
    let im2col = opcode.any(&[("im2col", Mode::Offsets), ("im2col_no_offs", Mode::NoOffsets)]);
    if im2col.is_some() && rank.is_none_or(|rank| rank < 3) {
        return Err("im2col mode is of tensors of 3 to 5 dimensions".into());
    }
    if tensor != rank.is_some() {
        return Err("a tensor copy needs its number of dimensions".into());
    }
    let operands = match (opcode.flag("L2::cache_hint"), operands) {
        (true, [rest @ .., policy]) => {
            context.d(policy)?;
            rest
        }
        (true, []) => return Err("takes a cache policy".into()),
        (false, all) => all,
    };
    if prefetch {
        return match (opcode.flag("L2") && opcode.flag("global"), operands) {
            (true, [map]) if tensor && im2col.is_none() => context.box_at(map).map(|_| Op::Nop),
            (true, [map, offsets]) if im2col == Some(Mode::Offsets) => {
                context.box_at(map)?;
                halves(context, offsets, rank).map(|_| Op::Nop)
            }
            (true, [from, _]) if !tensor => context.address(from).map(|_| Op::Nop),
            _ => Err("this prefetch is not emulated".into()),
        };
    }
    let multicast = opcode.flag("multicast::cluster");
    let completes = opcode.flag("mbarrier::complete_tx::bytes");
    let group = opcode.flag("bulk_group");
    // Destination, then source.
    let spaces = [(); 2].map(|()| next_space(opcode));
    match (spaces, completes, group) {
        (
            [Some(Window::In(Space::Shared) | Window::Cluster), Some(Window::In(Space::Global))],
            true,
            false,
        ) if !reduce && im2col != Some(Mode::NoOffsets) => load(context, operands, (rank, im2col), multicast),
        ([Some(Window::Cluster), Some(Window::In(Space::Shared))], true, false) if !tensor && !multicast => {
            let [to, from, bytes, bar] = operands else { return Err("takes four operands".into()) };
            let (to, from, bar) = (context.address(to)?, context.address(from)?, context.address(bar)?);
            let reduction = if reduce { Some((reduction(opcode)?, integers(opcode)?)) } else { None };
            Ok(Op::BulkShared { to, from, bytes: context.r(bytes, 32)?, bar, reduction })
        }
        ([Some(Window::In(Space::Global)), Some(Window::In(Space::Shared))], false, true)
            if !multicast && im2col != Some(Mode::Offsets) =>
        {
            let copy = store(context, operands, (rank, im2col))?;
            if !reduce {
                return Ok(Op::BulkStore(copy));
            }
            let op = reduction(opcode)?;
            // A tensor map has the type; a linear reduction names it.
            let data = if tensor { None } else { Some(data_type(opcode)?) };
            Ok(Op::BulkReduce { copy, op, data })
        }
        _ => Err("this combination of spaces and completion is not emulated".into()),
    }
}

fn reduction(opcode: &mut Opcode<'_>) -> Result<Reduction, String> {
    let op = opcode.any(&[
        ("add", Reduction::Add),
        ("min", Reduction::Min),
        ("max", Reduction::Max),
        ("inc", Reduction::Inc),
        ("dec", Reduction::Dec),
        ("and", Reduction::And),
        ("or", Reduction::Or),
        ("xor", Reduction::Xor),
    ]);
    op.ok_or_else(|| "has no operation that is emulated".into())
}

/// The type of a reduction in shared memory.
fn integers(opcode: &mut Opcode<'_>) -> Result<DataType, String> {
    match data_type(opcode)? {
        data @ (DataType::U32 | DataType::I32 | DataType::U64) => Ok(data),
        data => Err(format!("reductions of {data:?} in shared memory do not exist")),
    }
}

fn next_space(opcode: &mut Opcode<'_>) -> Option<Window> {
    const SPACES: [(&str, Window); 4] = [
        ("global", Window::In(Space::Global)),
        ("shared::cluster", Window::Cluster),
        ("shared::cta", Window::In(Space::Shared)),
        ("shared", Window::In(Space::Shared)),
    ];
    opcode.first_of(&SPACES)
}

fn data_type(opcode: &mut Opcode<'_>) -> Result<DataType, String> {
    opcode.flag("noftz");
    match opcode.ty()? {
        Type::U(32) | Type::B(32) => Ok(DataType::U32),
        Type::S(32) => Ok(DataType::I32),
        Type::U(64) | Type::B(64) => Ok(DataType::U64),
        Type::S(64) => Ok(DataType::I64),
        Type::F16 => Ok(DataType::F16),
        Type::Bf16 => Ok(DataType::Bf16),
        Type::F32 => Ok(DataType::F32),
        Type::F64 => Ok(DataType::F64),
        ty => opcode.refuse(ty),
    }
}

fn checked_box(context: &mut Context, operand: &Operand, rank: usize) -> Result<(Address, Box<[R]>), String> {
    let (map, coordinates) = context.box_at(operand)?;
    if coordinates.len() == rank {
        Ok((map, coordinates))
    } else {
        Err(format!("{} coordinates for {rank} dimensions", coordinates.len()))
    }
}

/// How a tensor map in im2col mode is used: with offsets, or, for stores, without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Offsets,
    NoOffsets,
}

/// A vector of 16-bit registers, one for each dimension of pixels.
fn halves(context: &mut Context, operand: &Operand, rank: Option<usize>) -> Result<Box<[R]>, String> {
    match (operand, rank) {
        (Operand::Vector(parts), Some(rank)) if parts.len() + 2 == rank => {
            parts.iter().map(|part| context.r(part, 16)).collect()
        }
        _ => Err(format!("{operand:?} are not the offsets of a tensor of this many dimensions")),
    }
}

fn load(
    context: &mut Context,
    operands: &[Operand],
    (rank, im2col): (Option<usize>, Option<Mode>),
    multicast: bool,
) -> Result_ {
    let (mask, operands) = match (multicast, operands) {
        (true, [rest @ .., mask]) => (Some(context.r(mask, 16)?), rest),
        (_, all) => (None, all),
    };
    let (offsets, operands) = match (im2col, operands) {
        (Some(_), [rest @ .., offsets]) => (Some(halves(context, offsets, rank)?), rest),
        (_, all) => (None, all),
    };
    match (rank, operands) {
        (Some(rank), [to, map, bar]) => {
            let (map, coordinates) = checked_box(context, map, rank)?;
            let start = Box::new(Start { coordinates, offsets });
            let copy = Bulk::Tensor { map, start, shared: context.address(to)? };
            Ok(Op::BulkLoad { copy, bar: context.address(bar)?, multicast: mask })
        }
        (None, [to, from, bytes, bar]) => {
            let (global, shared) = (context.address(from)?, context.address(to)?);
            let copy = Bulk::Linear { global, shared, bytes: context.r(bytes, 32)? };
            Ok(Op::BulkLoad { copy, bar: context.address(bar)?, multicast: mask })
        }
        _ => Err(format!("does not take {} operands", operands.len())),
    }
}

fn store(
    context: &mut Context,
    operands: &[Operand],
    (rank, im2col): (Option<usize>, Option<Mode>),
) -> Result<Bulk, String> {
    match (rank, operands) {
        (Some(rank), [map, from]) => {
            let (map, coordinates) = checked_box(context, map, rank)?;
            let start = Box::new(Start { coordinates, offsets: im2col.map(|_| [].into()) });
            Ok(Bulk::Tensor { map, start, shared: context.address(from)? })
        }
        (None, [to, from, bytes]) => {
            let (global, shared) = (context.address(to)?, context.address(from)?);
            Ok(Bulk::Linear { global, shared, bytes: context.r(bytes, 32)? })
        }
        _ => Err(format!("does not take {} operands", operands.len())),
    }
}
