//! Kernels with the functions that they call.
//!
//! A kernel's program has its functions first, each after those that it calls: lanes that are in a function are behind those that
//! are not, so they go first, and all meet where it returns.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Decoded;
use super::body::body;
use super::context::{Context, Layout, MOST};
use super::graph::{Graph, mentioned};
use crate::error::LoadError;
use crate::flow;
use crate::memory::FUNCTIONS;
use crate::program::op::Op;
use crate::program::operand::Scope;
use crate::program::shared::{self, GAP, Shared};
use crate::program::{Function, Program, Special, Static};
use tilewright_ptx::ast::{Entry, Module, Space, Statement, Variable};

/// Bytes of local memory that each thread has for its calls, where functions may call each other in circles, and as many for what it takes
/// from its stack: the manual leaves it open.
const STACK: u32 = 16 * 1024;
/// Frames begin at multiples of this.
pub(super) const FRAME_ALIGN: u32 = 16;

/// What a pointer to a function of this number holds.
pub(super) fn address(function: usize) -> u64 {
    FUNCTIONS + 16 * (function as u64 + 1)
}

/// Decodes the kernels of a module, and the functions that no kernel calls, for their errors.
pub(super) fn programs(module: &Module, statics: &[Static], text: &Arc<str>) -> Decoded<Vec<Program>> {
    let graph = Graph::new(module);
    let mut left: BTreeSet<usize> = (0..graph.functions.len()).collect();
    let mut programs = Vec::new();
    let mut most = MOST;
    for entry in &module.entries {
        let called = graph.called(&entry.body);
        graph.order(&called).iter().for_each(|function| {
            left.remove(function);
        });
        programs.push(program(module, statics, &graph, Some(entry), &called, text, &mut most)?);
    }
    if !left.is_empty() {
        program(module, statics, &graph, None, &left, text, &mut most)?;
    }
    Ok(programs)
}

/// A kernel with the functions that it calls, or only functions.
fn program(
    module: &Module,
    statics: &[Static],
    graph: &Graph<'_>,
    entry: Option<&Entry>,
    called: &BTreeSet<usize>,
    text: &Arc<str>,
    most: &mut u32,
) -> Decoded<Program> {
    let order = graph.order(called);
    let kernel: &[Statement] = entry.map_or(&[], |entry| &entry.body);
    let bodies = order.iter().filter_map(|&function| graph.functions[function].body.as_deref());
    let bodies: Vec<_> = bodies.chain([kernel]).collect();
    let mut context = Context::new(*most);
    context.take(1, module.variables.len() + module.functions.len())?;
    let in_memory = module.variables.iter().filter(|variable| variable.space != Space::Shared);
    for (variable, place) in in_memory.zip(statics) {
        context.declare_static(variable, place.address)?;
    }
    let shared = share(&mut context, module, &bodies)?;
    for function in &module.functions {
        let number = graph.number(&function.name);
        context
            .declare_function(function, number, number.map_or(0, address))
            .map_err(|what| LoadError::new(function.line, format!("function `{}`: {what}", function.name)))?;
    }
    let places: HashMap<_, _> =
        order.iter().enumerate().map(|(place, &function)| (function, place)).collect();
    for (name, function) in graph.names() {
        if let Some(&place) = places.get(&function) {
            context.place_function(name, place);
        }
    }

    let (mut code, mut functions, mut talks) = (Vec::new(), Vec::new(), false);
    let mut frames = HashMap::new();
    for &number in &order {
        let function = graph.functions[number];
        let (start, before) = (code.len() as u32, context.counts());
        context.enter_function();
        let results = context.formals(&function.results)?;
        let parameters = context.formals(&function.parameters)?;
        talks |= body(&mut context, function.body.as_deref().unwrap_or(&[]), Op::Return, &mut code)?;
        let frame = context.frame_bytes();
        context.close();
        frames.insert(number, frame);
        let after = context.counts();
        functions.push(Function {
            name: function.name.clone(),
            address: address(number),
            start,
            parameters,
            results,
            frame,
            registers: std::array::from_fn(|file| before[file] as usize..after[file] as usize),
            recursive: graph.is_recursive(number),
        });
    }
    let start = code.len() as u32;
    context.enter_kernel();
    let parameters = context.parameters(entry.map_or(&[], |entry| &entry.parameters))?;
    talks |= body(&mut context, kernel, Op::Exit, &mut code)?;
    let mut starts: Vec<_> = functions.iter().map(|function| (function.start, function.passed())).collect();
    starts.push((start, Vec::new()));
    let line = code.get(start as usize).map_or(1, |coded| coded.line);
    let watched = flow::watch(&mut code, context.counts(), &context.known(), &starts)
        .map_err(|what| LoadError::new(line, what))?;
    *most = context.left();
    let calls = if called.is_empty() { 0 } else { graph.depth(called, &frames).unwrap_or(STACK) };
    let specials = context.specials();
    let frames = context.frame_bytes().saturating_add(calls);
    let stack =
        specials.iter().find(|(special, _)| *special == Special::Stack).map(|&(_, stack)| (stack, frames));
    let narrow = code.iter().any(|coded| coded.op.scope().is_some_and(|scope| scope != Scope::Gpu));
    let proxies = code.iter().any(|coded| matches!(coded.op, Op::ProxyFence(Some(_))));
    Ok(Program {
        name: entry.map_or_else(String::new, |entry| entry.name.clone()),
        text: Arc::clone(text),
        sources: Arc::clone(&module.sources),
        code,
        start,
        functions,
        frame: context.frame(),
        stack,
        watched,
        names: context.take_names(),
        registers: context.counts(),
        constants32: context.constants32(),
        constants64: context.constants64(),
        specials,
        parameters,
        shared,
        local: frames.saturating_add(if stack.is_some() { STACK } else { 0 }),
        threads: entry.and_then(|entry| entry.threads),
        cluster: entry.and_then(|entry| entry.cluster),
        thread_registers: entry.and_then(thread_registers),
        narrow,
        proxies,
        talks,
    })
}

/// Registers that a thread has when it begins: what ptxas makes of the launch bounds if it has to choose.
fn thread_registers(entry: &Entry) -> Option<u32> {
    /// Registers of an SM.
    const SM: u64 = 64 * 1024;
    entry.registers.or_else(|| {
        let (threads, _) = entry.threads?;
        let threads = threads.iter().fold(1, |all: u64, &extent| all.saturating_mul(extent.into()));
        let resident = threads.div_ceil(32).max(1).saturating_mul(entry.resident.unwrap_or(1).max(1).into());
        Some((SM / 32 / resident / 8 * 8).min(256) as u32)
    })
}

/// Places the variables in shared memory that the bodies have or mention.
fn share(context: &mut Context, module: &Module, bodies: &[&[Statement]]) -> Decoded<Shared> {
    let mentioned: HashSet<&str> = bodies.iter().flat_map(|body| mentioned(body)).collect();
    let used = module.variables.iter().filter(|variable| mentioned.contains(variable.name.as_str()));
    let in_bodies = bodies.iter().flat_map(|body| *body).filter_map(|statement| match statement {
        Statement::Variable(variable) => Some(variable),
        _ => None,
    });
    let all: Vec<&Variable> =
        used.clone().chain(in_bodies).filter(|variable| variable.space == Space::Shared).collect();
    let (mut on_gpu, mut memory) = (Layout::default(), Layout::default());
    let mut variables = Vec::new();
    for variable in all.iter().filter(|variable| variable.bytes != 0) {
        on_gpu.place(variable)?;
        if !variables.is_empty() {
            memory.skip(GAP)?;
        }
        let offset = memory.place(variable)?;
        context.place_shared(variable, offset);
        variables.push(shared::Variable { name: variable.name.clone(), place: offset..memory.size() });
    }
    // The dynamic shared memory, which has no size, follows all the static one.
    let dynamic = all.iter().filter(|variable| variable.bytes == 0);
    let align = dynamic.clone().map(|variable| variable.align).max();
    if align.is_some() && !variables.is_empty() {
        memory.skip(GAP)?;
    }
    let align = align.unwrap_or(FRAME_ALIGN);
    let (bytes, span) = (on_gpu.align_to(align)?, memory.align_to(align)?);
    for variable in dynamic {
        context.place_shared(variable, span);
    }
    for variable in used.filter(|variable| variable.space == Space::Shared) {
        context.declare_shared(variable)?;
    }
    Ok(Shared { bytes, span, variables })
}
