//! From the tree to a [`Program`]: resolves names, and gives every instruction its function.
//!
//! An instruction is looked up by the first part of its opcode in a family (a file each); a family takes the
//! modifiers that it knows, and what is left over is an error.

mod arithmetic;
mod collective;
mod compare;
mod context;
mod convert;
mod copy;
mod float;
mod half;
mod lanes;
mod logic;
mod matrix;
mod mbarrier;
mod memory;
mod moves;
mod opcode;
mod statics;
mod synchronise;
mod talk;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use crate::count::Class;
use crate::program::{Coded, Condition, Image, Op, Program, Static};
use crate::ptx::{Entry, Instruction, Module, Operand, Space, Statement, Variable};
use crate::{LoadError, flow};
use context::Context;
pub(crate) use logic::insert;
use opcode::Opcode;

type Decoded<T> = Result<T, LoadError>;

/// Decodes a module.
pub(crate) fn decode(module: &Module, text: &Arc<str>) -> Decoded<Image> {
    if let Some(function) = module.functions.iter().find(|function| function.body.is_some()) {
        return Err(LoadError::new(function.line, format!("function `{}` is not emulated", function.name)));
    }
    let statics = statics::statics(module)?;
    let programs = module.entries.iter().map(|entry| program(module, &statics, entry, text));
    Ok(Image { programs: programs.collect::<Result<_, _>>()?, statics })
}

fn program(module: &Module, statics: &[Static], entry: &Entry, text: &Arc<str>) -> Decoded<Program> {
    let mut context = Context::new();
    let in_memory = module.variables.iter().filter(|variable| variable.space != Space::Shared);
    for (variable, place) in in_memory.zip(statics) {
        context.declare_static(variable, place.address)?;
    }
    context.open();
    let parameters = context.parameters(&entry.parameters)?;
    let shared = |variable: &&Variable| variable.space == Space::Shared;
    // The dynamic shared memory, which has no size, follows all the static one.
    let in_body = entry.body.iter().filter_map(|statement| match statement {
        Statement::Variable(variable) => Some(variable),
        _ => None,
    });
    let mut memory = context::Layout::default();
    let (mut fixed, mut dynamic): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for variable in module.variables.iter().chain(in_body.clone()).filter(shared) {
        if variable.bytes == 0 { dynamic.push(variable) } else { fixed.push(variable) }
    }
    let mut addresses = HashMap::new();
    for variable in fixed {
        addresses.insert(std::ptr::from_ref(variable), memory.place(variable)?);
    }
    let dynamic_align = dynamic.iter().map(|variable| variable.align).max().unwrap_or(16);
    let dynamic_start = memory.align_to(dynamic_align)?;
    for variable in dynamic {
        addresses.insert(std::ptr::from_ref(variable), dynamic_start);
    }
    for variable in module.variables.iter().filter(shared) {
        context.declare_shared(variable, addresses[&std::ptr::from_ref(variable)])?;
    }

    let mut code = Vec::new();
    let mut labels = vec![HashMap::new()];
    let mut scopes: Vec<usize> = vec![0];
    // Labels first: a branch may go forward. Each scope has its own.
    let mut at = 0;
    let mut opened = 0;
    for statement in &entry.body {
        match statement {
            Statement::Open => {
                opened += 1;
                labels.push(HashMap::new());
                scopes.push(opened);
            }
            Statement::Close => {
                scopes.pop();
            }
            Statement::Label { line, name } => {
                let scope = *scopes.last().expect("the parser matches braces");
                if labels[scope].insert(name.as_str(), at).is_some() {
                    return Err(LoadError::new(*line, format!("label `{name}` is declared twice")));
                }
            }
            Statement::Instruction(_) => at += 1,
            _ => {}
        }
    }

    let mut talks = false;
    let mut local = context::Layout::default();
    opened = 0;
    for statement in &entry.body {
        match statement {
            Statement::Open => {
                opened += 1;
                scopes.push(opened);
                context.open();
            }
            Statement::Close => {
                scopes.pop();
                context.close();
            }
            Statement::Label { .. } => {}
            Statement::Registers { line, class, name, count } => {
                context.declare_registers(*line, class, name, *count)?;
            }
            Statement::Variable(variable) => match variable.space {
                Space::Shared => {
                    context.declare_shared(variable, addresses[&std::ptr::from_ref(variable)])?
                }
                Space::Local => context.declare_local(variable, local.place(variable)?)?,
                _ => return Err(LoadError::new(variable.line, "`.param` in a body is not emulated")),
            },
            Statement::Targets { line, name, .. } | Statement::Prototype { line, name, .. } => {
                return Err(LoadError::new(*line, format!("list `{name}` is not emulated")));
            }
            Statement::Instruction(instruction) => {
                let find =
                    |name: &str| scopes.iter().rev().find_map(|&scope| labels[scope].get(name).copied());
                let coded = self::instruction(&mut context, instruction, &find).map_err(|what| {
                    LoadError::new(instruction.line, format!("{}: {what}", instruction.opcode))
                })?;
                talks |= talk::between_clusters(&coded.op, &instruction.opcode);
                code.push(coded);
            }
        }
    }
    // Running off the end is leaving.
    let line = code.last().map_or(1, |last: &Coded| last.line);
    code.push(Coded { line, class: Class::Control, guard: None, watched: false, op: Op::Exit, polls: false });
    let registers = context.counts();
    let watched = flow::watch(&mut code, registers, &context.known());
    Ok(Program {
        name: entry.name.clone(),
        text: Arc::clone(text),
        code,
        watched,
        names: context.take_names(),
        registers,
        constants32: context.constants32(),
        constants64: context.constants64(),
        specials: context.specials(),
        parameters,
        shared: dynamic_start,
        local: local.size(),
        threads: entry.threads,
        cluster: entry.cluster,
        talks,
    })
}

/// What a family answers: the operation, or what it does not know.
type Result_ = Result<Op, String>;

fn instruction(
    context: &mut Context,
    instruction: &Instruction,
    label: &dyn Fn(&str) -> Option<u32>,
) -> Result<Coded, String> {
    let guard = match &instruction.guard {
        Some(guard) => {
            Some(Condition { predicate: context.predicate(&guard.predicate)?, negated: guard.negated })
        }
        None => None,
    };
    let mut opcode = Opcode::new(&instruction.opcode);
    let operands = instruction.operands.as_slice();
    let op = match opcode.name() {
        "bra" => {
            opcode.flag("uni");
            match operands {
                [Operand::Name(name)] => {
                    let target = label(name).ok_or_else(|| format!("there is no label `{name}`"))?;
                    Op::Branch { target }
                }
                _ => return Err("takes a label".into()),
            }
        }
        name => {
            let family = family(name).ok_or("this instruction is not emulated")?;
            family(context, &mut opcode, operands)?
        }
    };
    opcode.finish()?;
    let polls = talk::polls(&op, &instruction.opcode);
    Ok(Coded {
        line: instruction.line,
        class: Class::of(&instruction.opcode),
        guard,
        watched: false,
        op,
        polls,
    })
}

type Family = fn(&mut Context, &mut Opcode<'_>, &[Operand]) -> Result_;

fn family(name: &str) -> Option<Family> {
    Some(match name {
        "add" | "sub" | "mul" | "mad" | "min" | "max" | "neg" | "abs" | "div" | "rem" | "mul24" | "mad24"
        | "sad" | "dp4a" | "fma" | "ex2" | "lg2" | "rcp" | "rsqrt" | "sqrt" | "tanh" | "sin" | "cos"
        | "copysign" | "testp" => arithmetic::decode,
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" | "bfe" | "bfi"
        | "bfind" | "brev" | "clz" | "popc" | "bmsk" | "fns" | "szext" => logic::decode,
        "setp" | "set" | "selp" | "slct" => compare::decode,
        "cvt" => convert::decode,
        "mov" => moves::decode,
        "ld" | "st" | "ldu" | "atom" | "red" | "cvta" | "mapa" | "prefetch" | "prefetchu"
        | "applypriority" | "discard" | "isspacep" | "getctarank" => memory::decode,
        "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => collective::decode,
        "bar" | "barrier" | "fence" | "membar" | "griddepcontrol" | "setmaxnreg" | "exit" | "ret"
        | "trap" | "brkpt" | "nanosleep" | "pmevent" => synchronise::decode,
        "mbarrier" => mbarrier::decode,
        "cp" => copy::decode,
        "ldmatrix" | "stmatrix" | "movmatrix" | "mma" | "wgmma" => matrix::decode,
        _ => return None,
    })
}
