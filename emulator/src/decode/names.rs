//! The labels, lists of labels and of functions, and prototypes of a body.

use std::collections::HashMap;

use super::Decoded;
use super::context::Signature;
use crate::error::LoadError;
use tilewright_ptx::ast::{Formal, Statement};

/// What a body's names mean, besides registers and variables; each scope has its own.
#[derive(Default)]
struct Scope<'b> {
    /// By the instruction that follows.
    labels: HashMap<&'b str, u32>,
    targets: HashMap<&'b str, &'b [String]>,
    prototypes: HashMap<&'b str, (&'b [Formal], &'b [Formal])>,
    callees: HashMap<&'b str, &'b [String]>,
}

/// The labels and lists of a body that an instruction sees.
pub(super) struct Names<'b> {
    scopes: Vec<Scope<'b>>,
    /// The scopes that are open, the innermost last.
    open: Vec<usize>,
}

impl<'b> Names<'b> {
    /// A branch may go forward, so this comes first.
    pub(super) fn new(body: &'b [Statement]) -> Decoded<Self> {
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
                Statement::Callees { name, functions } => {
                    scope.callees.insert(name, functions);
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

    /// The functions of a list.
    pub(super) fn callees(&self, name: &str) -> Option<&'b [String]> {
        self.find(|scope| scope.callees.get(name).copied())
    }

    /// What a function that is called by its address takes and gives.
    pub(super) fn prototype(&self, name: &str) -> Result<Signature, String> {
        let found = self.find(|scope| scope.prototypes.get(name).copied());
        let (results, parameters) = found.ok_or_else(|| format!("there is no prototype `{name}`"))?;
        Signature::new(results, parameters)
    }

    /// Goes into the scope of this number, in the order of the text.
    pub(super) fn open(&mut self, scope: usize) {
        self.open.push(scope);
    }

    /// Goes out of the innermost scope.
    pub(super) fn close(&mut self) {
        self.open.pop();
    }
}
