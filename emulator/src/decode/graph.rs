//! Which functions call which.

use std::collections::{BTreeSet, HashMap, HashSet, btree_set};

use tilewright_ptx::ast::{Function, Module, Operand, Statement};

/// The functions of a module that have a body, and their calls.
pub(super) struct Graph<'m> {
    pub(super) functions: Vec<&'m Function>,
    numbers: HashMap<&'m str, usize>,
    /// What each may call. One more number stands for all functions whose addresses somebody takes, of which any indirect
    /// call may be: it calls them.
    calls: Vec<BTreeSet<usize>>,
    /// Whether each may be called while it runs.
    recursive: Vec<bool>,
}

impl<'m> Graph<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        let functions: Vec<_> = module.functions.iter().filter(|function| function.body.is_some()).collect();
        let mut numbers: HashMap<_, _> =
            functions.iter().enumerate().map(|(i, function)| (function.name.as_str(), i)).collect();
        for (name, of) in &module.aliases {
            if let Some(&function) = numbers.get(of.as_str()) {
                numbers.insert(name, function);
            }
        }
        let mut graph = Self { functions, numbers, calls: Vec::new(), recursive: Vec::new() };
        let initial = module.variables.iter().flat_map(|variable| &variable.initial.names);
        let mut taken: BTreeSet<usize> = initial.filter_map(|named| graph.number(&named.name)).collect();
        let bodies = graph.functions.iter().filter_map(|function| function.body.as_deref());
        for body in bodies.chain(module.entries.iter().map(|entry| entry.body.as_slice())) {
            let moves = instructions(body).filter(|instruction| !instruction.0.starts_with("call"));
            taken.extend(
                moves.flat_map(|(_, operands)| names(operands)).filter_map(|name| graph.number(name)),
            );
        }
        let bodies = graph.functions.iter().map(|function| function.body.as_deref().unwrap_or(&[]));
        let calls = bodies.map(|body| graph.called(body)).chain([taken]).collect();
        graph.calls = calls;
        graph.recursive = graph.circles();
        graph
    }

    /// The names of all functions that have a body, aliases too, with their numbers.
    pub(super) fn names(&self) -> impl Iterator<Item = (&'m str, usize)> {
        self.numbers.iter().map(|(name, number)| (*name, *number))
    }

    /// The number of a function that has a body.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// What a body may call.
    pub(super) fn called(&self, body: &[Statement]) -> BTreeSet<usize> {
        let mut called = BTreeSet::new();
        for (opcode, operands) in instructions(body) {
            let mut mentions = false;
            for function in names(operands).filter_map(|name| self.number(name)) {
                mentions = true;
                called.insert(function);
            }
            if opcode.starts_with("call") && !mentions {
                called.insert(self.functions.len());
            }
        }
        called
    }

    /// These functions and all that they may call, each after those that it calls but for circles.
    pub(super) fn order(&self, roots: &BTreeSet<usize>) -> Vec<usize> {
        let mut order = visit(&self.calls, roots, &mut HashSet::new());
        order.retain(|&function| function < self.functions.len());
        order
    }

    /// Whether a function may be called while it runs.
    pub(super) fn is_recursive(&self, function: usize) -> bool {
        self.recursive[function]
    }

    /// Which functions may be called while they run: those of components that are strongly connected, by the algorithm of Kosaraju
    /// and Sharir (Aho, Hopcroft, Ullman: "Data Structures and Algorithms", 1983, 6.7).
    fn circles(&self) -> Vec<bool> {
        let mut callers = vec![BTreeSet::new(); self.calls.len()];
        for (caller, called) in self.calls.iter().enumerate() {
            called.iter().for_each(|&function| {
                callers[function].insert(caller);
            });
        }
        let all = (0..self.calls.len()).collect();
        let mut recursive = vec![false; self.calls.len()];
        let mut seen = HashSet::new();
        for function in visit(&self.calls, &all, &mut HashSet::new()).into_iter().rev() {
            let component = visit(&callers, &BTreeSet::from([function]), &mut seen);
            for &member in &component {
                recursive[member] = component.len() > 1 || self.calls[member].contains(&member);
            }
        }
        recursive
    }

    /// The bytes that calls of these functions need at most, by the frames of all functions that are reached; `None` if they
    /// may call each other in circles.
    pub(super) fn depth(&self, of: &BTreeSet<usize>, frames: &HashMap<usize, u32>) -> Option<u32> {
        let reached = visit(&self.calls, of, &mut HashSet::new());
        if reached.iter().any(|&function| self.is_recursive(function)) {
            return None;
        }
        let mut depths: HashMap<usize, u32> = HashMap::new();
        let most = |of: &BTreeSet<usize>, depths: &HashMap<usize, u32>| {
            of.iter().filter_map(|function| depths.get(function)).max().copied().unwrap_or(0)
        };
        for function in reached {
            let frame = frames.get(&function).copied().unwrap_or(0);
            depths.insert(function, frame.saturating_add(most(&self.calls[function], &depths)));
        }
        Some(most(of, &depths))
    }
}

/// What is reached from these numbers and was not seen before, each after those that it leads to but for circles.
fn visit(next: &[BTreeSet<usize>], from: &BTreeSet<usize>, seen: &mut HashSet<usize>) -> Vec<usize> {
    let mut order = Vec::new();
    let mut open: Vec<(Option<usize>, btree_set::Iter<'_, usize>)> = vec![(None, from.iter())];
    while let Some((number, left)) = open.last_mut() {
        match left.next() {
            Some(&to) if seen.insert(to) => open.push((Some(to), next[to].iter())),
            Some(_) => {}
            None => {
                order.extend(*number);
                open.pop();
            }
        }
    }
    order
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

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_ptx::parser::parse;

    #[test]
    fn circles_and_depths() {
        let function = |name: &str, calls: &str| format!(".func {name}() {{ {calls} ret; }}\n");
        let call = |name: &str| format!("call {name};");
        let text = [
            function("leaf", ""),
            function("middle", &call("leaf")),
            function("top", &(call("middle") + &call("leaf"))),
            function("itself", &call("itself")),
            function("ping", &call("pong")),
            function("pong", &(call("ping") + &call("leaf"))),
            function("before", &call("ping")),
            function("taken", &call("leaf")),
            function("indirect", "mov.u64 %d, taken; call %d, prototype;"),
            function("kept", "mov.u64 %d, circle; call leaf;"),
            function("circle", "call %d, prototype;"),
        ];
        let of = |text: &str, name: &str| {
            let module = parse(text).unwrap();
            let graph = Graph::new(&module);
            let function = graph.number(name).unwrap();
            let frames = (0..graph.functions.len()).map(|function| (function, 16 << function)).collect();
            (graph.is_recursive(function), graph.depth(&BTreeSet::from([function]), &frames))
        };
        let first = text[..9].concat();
        assert_eq!(of(&first, "leaf"), (false, Some(16)));
        assert_eq!(of(&first, "top"), (false, Some(16 + 32 + 64)));
        assert_eq!(of(&first, "itself"), (true, None));
        assert_eq!((of(&first, "ping"), of(&first, "pong")), ((true, None), (true, None)));
        assert_eq!(of(&first, "before"), (false, None));
        assert_eq!(of(&first, "indirect"), (false, Some((16 << 8) + (16 << 7) + 16)));
        // Whose address is taken may be what it calls by one.
        assert_eq!(of(&text.concat(), "circle"), (true, None));
        assert_eq!(of(&text.concat(), "kept"), (false, None));
    }

    #[test]
    fn long_chains_take_no_stack_and_no_square() {
        let count = 100_000;
        let chain: String = (0..count)
            .map(|i| format!(".func f{i}() {{ call f{}; ret; }}\n", (i + 1).min(count - 1)))
            .collect();
        let module = parse(&chain).unwrap();
        let graph = Graph::new(&module);
        assert_eq!(graph.order(&BTreeSet::from([0])).len(), count);
        assert!(!graph.is_recursive(0) && graph.is_recursive(count - 1));
    }
}
