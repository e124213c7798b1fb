//! One instruction: its guard, its opcode, its operands.

use super::context::Context;
use super::names::Names;
use super::opcode::Opcode;
use super::{
    Result_, address, arithmetic, atomic, call, carry, collective, compare, convert, copy, directed,
    fragments, logic, matrix, mbarrier, memory, moves, rare, seldom, several, simd, stack, synchronise, talk,
    tensormap, video, wide,
};
use crate::program::Coded;
use crate::program::class::Class;
use crate::program::op::Op;
use crate::program::register::Condition;
use tilewright_ptx::ast::{Instruction, Operand};

/// Decodes an instruction, into several where it does several things.
pub(super) fn decode(
    context: &mut Context,
    instruction: &Instruction,
    names: &Names<'_>,
) -> Result<Vec<Coded>, String> {
    let guard = match &instruction.guard {
        Some(guard) => {
            Some(Condition { predicate: context.predicate(&guard.predicate)?, negated: guard.negated })
        }
        None => None,
    };
    let mut opcode = Opcode::new(&instruction.opcode);
    let operands = instruction.operands.as_slice();
    let ops = match opcode.name() {
        "bra" | "brx" => vec![branch(context, &mut opcode, operands, names)?],
        "call" => vec![call::decode(context, &mut opcode, operands, names)?],
        _ if tensormap::is_tensormap(&opcode) => tensormap::decode(context, &mut opcode, operands)?,
        _ if stack::is_stack(&opcode) => stack::decode(context, &mut opcode, operands)?,
        _ if several::is_several(&opcode, operands) => several::decode(context, &mut opcode, operands)?,
        _ if wide::is_wide(&opcode) => wide::decode(context, &mut opcode, operands)?,
        "bar" | "barrier" if opcode.has("red") => synchronise::reduce(context, &mut opcode, operands)?,
        "atom" | "red" => atomic::decode(context, &mut opcode, operands)?,
        "cvta" | "mapa" | "isspacep" | "getctarank" | "createpolicy" => {
            vec![address::decode(context, &mut opcode, operands)?]
        }
        _ if fragments::is_fragments(&opcode) => vec![fragments::decode(context, &mut opcode, operands)?],
        _ if carry::is_carrying(&opcode) => vec![carry::decode(context, &mut opcode, operands)?],
        _ if directed::is_directed(&opcode) => vec![directed::decode(context, &mut opcode, operands)?],
        _ if seldom::is_seldom(&opcode) => vec![seldom::decode(context, &mut opcode, operands)?],
        _ if rare::is_rare(&opcode) => vec![rare::decode(context, &mut opcode, operands)?],
        _ if video::is_video(&opcode) => vec![video::decode(context, &mut opcode, operands)?],
        _ if simd::is_simd(&opcode) => vec![simd::decode(context, &mut opcode, operands)?],
        name => {
            let family = family(name).ok_or("this instruction is not emulated")?;
            vec![family(context, &mut opcode, operands)?]
        }
    };
    opcode.finish()?;
    let class = Class::of(&instruction.opcode);
    let coded = |op| {
        let polls = talk::polls(&op, &instruction.opcode);
        Coded { line: instruction.line, class, guard, watched: false, doubtful: false, op, polls }
    };
    Ok(ops.into_iter().map(coded).collect())
}

fn branch(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
    names: &Names<'_>,
) -> Result_ {
    let indexed = opcode.name() == "brx";
    if indexed && !opcode.flag("idx") {
        return Err("needs `.idx`".into());
    }
    opcode.flag("uni");
    match operands {
        [Operand::Name(name)] if !indexed => Ok(Op::Branch { target: names.label(name)? }),
        [index, Operand::Name(list)] if indexed => {
            Ok(Op::BranchIndexed { index: context.r(index, 32)?, targets: names.targets(list)? })
        }
        _ => Err("takes a label, or with `.idx` an index and a list of labels".into()),
    }
}

type Family = fn(&mut Context, &mut Opcode<'_>, &[Operand]) -> Result_;

fn family(name: &str) -> Option<Family> {
    Some(match name {
        "add" | "sub" | "mul" | "mad" | "min" | "max" | "neg" | "abs" | "div" | "rem" | "dp4a" | "fma"
        | "ex2" | "lg2" | "rcp" | "rsqrt" | "sqrt" | "tanh" | "sin" | "cos" => arithmetic::decode,
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" | "bfe" | "bfi"
        | "brev" | "clz" | "popc" => logic::decode,
        "setp" | "set" | "selp" => compare::decode,
        "cvt" => convert::decode,
        "mov" => moves::decode,
        "ld" | "ldu" | "st" | "prefetch" | "prefetchu" | "applypriority" | "discard" => memory::decode,
        "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => collective::decode,
        "bar" | "barrier" | "fence" | "membar" | "griddepcontrol" | "setmaxnreg" | "exit" | "ret"
        | "trap" | "brkpt" | "nanosleep" | "pmevent" => synchronise::decode,
        "mbarrier" => mbarrier::decode,
        "cp" => copy::decode,
        "ldmatrix" | "stmatrix" | "movmatrix" | "mma" | "wgmma" => matrix::decode,
        _ => return None,
    })
}
