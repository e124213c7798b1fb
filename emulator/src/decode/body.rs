//! The statements of a body.

use super::context::Context;
use super::names::Names;
use super::{Decoded, instruction, talk};
use crate::error::LoadError;
use crate::program::Coded;
use crate::program::class::Class;
use crate::program::op::Op;
use tilewright_ptx::ast::{Space, Statement};

/// Decodes a body, which ends with `end`; whether threads of different clusters can talk by it.
pub(super) fn body(
    context: &mut Context,
    statements: &[Statement],
    end: Op,
    code: &mut Vec<Coded>,
) -> Decoded<bool> {
    let mut names = Names::new(statements)?;
    let (first, mut opened, mut talks) = (code.len(), 0, false);
    // Where each instruction of the text begins: some are several here.
    let mut starts = Vec::new();
    for statement in statements {
        match statement {
            Statement::Open => {
                opened += 1;
                names.open(opened);
                context.open();
            }
            Statement::Close => {
                names.close();
                context.close();
            }
            Statement::Registers { line, class, name, count } => {
                context.declare_registers(*line, class, name, *count)?;
            }
            Statement::Variable(variable) if variable.space == Space::Shared => {
                context.declare_shared(variable)?;
            }
            Statement::Variable(variable) => {
                context.declare_local(variable)?;
            }
            Statement::Instruction(instruction) => {
                starts.push(code.len() as u32);
                context.take(instruction.line, 1)?;
                let decoded = instruction::decode(context, instruction, &names);
                let ops = decoded.map_err(|what| {
                    LoadError::new(instruction.line, format!("{}: {what}", instruction.opcode))
                })?;
                for coded in ops {
                    if let Op::BranchIndexed { targets, .. } = &coded.op {
                        context.take(instruction.line, targets.len())?;
                    }
                    talks |= talk::between_clusters(&coded.op, &instruction.opcode);
                    code.push(coded);
                }
            }
            Statement::Label { .. }
            | Statement::Targets { .. }
            | Statement::Prototype { .. }
            | Statement::Callees { .. } => {}
        }
    }
    starts.push(code.len() as u32);
    let line = code.last().map_or(1, |last: &Coded| last.line);
    code.push(Coded {
        line,
        class: Class::Control,
        guard: None,
        watched: false,
        doubtful: false,
        op: end,
        polls: false,
    });
    let frame = context.frame_bytes();
    for coded in &mut code[first..] {
        match &mut coded.op {
            Op::Branch { target } => *target = starts[*target as usize],
            Op::BranchIndexed { targets, .. } => {
                targets.iter_mut().for_each(|target| *target = starts[*target as usize]);
            }
            Op::Call(op) => op.frame = frame,
            _ => {}
        }
    }
    Ok(talks)
}
