//! The statements of a body.

use std::collections::HashMap;

use super::context::{Context, Signature};
use super::{Decoded, instruction, talk};
use crate::LoadError;
use crate::count::Class;
use crate::program::{Coded, Op};
use crate::ptx::{Formal, Space, Statement};

/// What a body's names mean, besides registers and variables; each scope has its own.
#[derive(Default)]
struct Scope<'b> {
    /// By the instruction that follows.
    labels: HashMap<&'b str, u32>,
    targets: HashMap<&'b str, &'b [String]>,
    prototypes: HashMap<&'b str, (&'b [Formal], &'b [Formal])>,
}

/// The labels and lists of a body that an instruction sees.
pub(super) struct Names<'b> {
    scopes: Vec<Scope<'b>>,
    /// The scopes that are open, the innermost last.
    open: Vec<usize>,
}

impl<'b> Names<'b> {
    /// A branch may go forward, so this comes first.
    fn new(body: &'b [Statement]) -> Decoded<Self> {
        let mut names = Self { scopes: vec![Scope::default()], open: vec![0] };
        let mut at = 0;
        for statement in body {
            let scope = *names.open.last().expect("the parser matches braces");
            let scope = &mut names.scopes[scope];
            match statement {
                Statement::Open => {
                    names.open.push(names.scopes.len());
                    names.scopes.push(Scope::default());
                }
                Statement::Close => {
                    names.open.pop();
                }
                Statement::Label { line, name } => {
                    if scope.labels.insert(name, at).is_some() {
                        return Err(LoadError::new(*line, format!("label `{name}` is declared twice")));
                    }
                }
                Statement::Targets { name, labels } => {
                    scope.targets.insert(name, labels);
                }
                Statement::Prototype { name, results, parameters } => {
                    scope.prototypes.insert(name, (results, parameters));
                }
                Statement::Instruction(_) => at += 1,
                Statement::Registers { .. } | Statement::Variable(_) => {}
            }
        }
        Ok(names)
    }

    fn find<T>(&self, get: impl Fn(&Scope<'b>) -> Option<T>) -> Option<T> {
        self.open.iter().rev().find_map(|&scope| get(&self.scopes[scope]))
    }

    /// The number of the instruction at a label.
    pub(super) fn label(&self, name: &str) -> Result<u32, String> {
        let found = self.find(|scope| scope.labels.get(name).copied());
        found.ok_or_else(|| format!("there is no label `{name}`"))
    }

    /// The instructions at the labels of a list.
    pub(super) fn targets(&self, name: &str) -> Result<Box<[u32]>, String> {
        let found = self.find(|scope| scope.targets.get(name).copied());
        let labels = found.ok_or_else(|| format!("there is no list of labels `{name}`"))?;
        labels.iter().map(|label| self.label(label)).collect()
    }

    /// What a function that is called by its address takes and gives.
    pub(super) fn prototype(&self, name: &str) -> Result<Signature, String> {
        let found = self.find(|scope| scope.prototypes.get(name).copied());
        let (results, parameters) = found.ok_or_else(|| format!("there is no prototype `{name}`"))?;
        Signature::new(results, parameters)
    }
}

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
                names.open.push(opened);
                context.open();
            }
            Statement::Close => {
                names.open.pop();
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
                let decoded = instruction::decode(context, instruction, &names);
                let ops = decoded.map_err(|what| {
                    LoadError::new(instruction.line, format!("{}: {what}", instruction.opcode))
                })?;
                for coded in ops {
                    talks |= talk::between_clusters(&coded.op, &instruction.opcode);
                    code.push(coded);
                }
            }
            Statement::Label { .. } | Statement::Targets { .. } | Statement::Prototype { .. } => {}
        }
    }
    starts.push(code.len() as u32);
    let line = code.last().map_or(1, |last: &Coded| last.line);
    code.push(Coded { line, class: Class::Control, guard: None, watched: false, op: end, polls: false });
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
