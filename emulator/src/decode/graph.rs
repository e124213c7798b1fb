//! Which functions call which.

use std::collections::{HashMap, HashSet};

use tilewright_ptx::ast::{Function, Module, Operand, Statement};

/// The functions of a module that have a body, and their calls.
pub(super) struct Graph<'m> {
    pub(super) functions: Vec<&'m Function>,
    numbers: HashMap<&'m str, usize>,
    /// What each may call.
    calls: Vec<HashSet<usize>>,
    /// Those whose addresses somebody takes: any indirect call may be of them.
    taken: HashSet<usize>,
}

impl<'m> Graph<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        let functions: Vec<_> = module.functions.iter().filter(|function| function.body.is_some()).collect();
        let numbers = functions.iter().enumerate().map(|(i, function)| (function.name.as_str(), i)).collect();
        let mut graph = Self { functions, numbers, calls: Vec::new(), taken: HashSet::new() };
        let initial = module.variables.iter().flat_map(|variable| &variable.initial.names);
        let mut taken: HashSet<usize> = initial.filter_map(|named| graph.number(&named.name)).collect();
        let bodies = graph.functions.iter().filter_map(|function| function.body.as_deref());
        for body in bodies.chain(module.entries.iter().map(|entry| entry.body.as_slice())) {
            let moves = instructions(body).filter(|instruction| !instruction.0.starts_with("call"));
            taken.extend(
                moves.flat_map(|(_, operands)| names(operands)).filter_map(|name| graph.number(name)),
            );
        }
        graph.taken = taken;
        graph.calls = graph
            .functions
            .iter()
            .map(|function| graph.called(function.body.as_deref().unwrap_or(&[])))
            .collect();
        graph
    }

    /// The number of a function that has a body.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// What a body may call.
    pub(super) fn called(&self, body: &[Statement]) -> HashSet<usize> {
        let mut called = HashSet::new();
        for (opcode, operands) in instructions(body) {
            let mentioned: Vec<_> = names(operands).filter_map(|name| self.number(name)).collect();
            if opcode.starts_with("call") && mentioned.is_empty() {
                called.extend(&self.taken);
            }
            called.extend(mentioned);
        }
        called
    }

    /// These functions and all that they may call, each after those that it calls but for circles.
    pub(super) fn order(&self, roots: &HashSet<usize>) -> Vec<usize> {
        fn visit(graph: &Graph<'_>, of: &HashSet<usize>, seen: &mut HashSet<usize>, order: &mut Vec<usize>) {
            let mut of: Vec<_> = of.iter().copied().collect();
            of.sort_unstable();
            for function in of {
                if seen.insert(function) {
                    visit(graph, &graph.calls[function], seen, order);
                    order.push(function);
                }
            }
        }
        let mut order = Vec::new();
        visit(self, roots, &mut HashSet::new(), &mut order);
        order
    }

    /// Whether a function may be called while it runs.
    pub(super) fn is_recursive(&self, function: usize) -> bool {
        self.order(&self.calls[function]).contains(&function)
    }

    /// The bytes that calls of these functions need at most, by the frames of all functions that are reached; `None` if they
    /// may call each other in circles.
    pub(super) fn depth(&self, of: &HashSet<usize>, frames: &HashMap<usize, u32>) -> Option<u32> {
        if self.order(of).into_iter().any(|function| self.is_recursive(function)) {
            return None;
        }
        let mut depths: HashMap<usize, u32> = HashMap::new();
        let most = |of: &HashSet<usize>, depths: &HashMap<usize, u32>| {
            of.iter().map(|function| depths[function]).max().unwrap_or(0)
        };
        for function in self.order(of) {
            let depth = frames[&function].saturating_add(most(&self.calls[function], &depths));
            depths.insert(function, depth);
        }
        Some(most(of, &depths))
    }
}

/// The opcodes and operands of a body's instructions.
fn instructions(body: &[Statement]) -> impl Iterator<Item = (&str, &[Operand])> {
    body.iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => {
            Some((instruction.opcode.as_str(), instruction.operands.as_slice()))
        }
        _ => None,
    })
}

/// The names that a body's operands mention.
pub(super) fn mentioned(body: &[Statement]) -> impl Iterator<Item = &str> {
    instructions(body).flat_map(|(_, operands)| names(operands))
}

fn names(operands: &[Operand]) -> Box<dyn Iterator<Item = &str> + '_> {
    Box::new(operands.iter().flat_map(|operand| -> Box<dyn Iterator<Item = &str> + '_> {
        match operand {
            Operand::Name(name) | Operand::Sum(name, _) => Box::new([name.as_str()].into_iter()),
            Operand::Address { base: Some(name), .. } => Box::new([name.as_str()].into_iter()),
            Operand::Vector(parts) | Operand::List(parts) => names(parts),
            _ => Box::new([].into_iter()),
        }
    }))
}
