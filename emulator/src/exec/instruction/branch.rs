//! Calls, returns and indirect branches.
//!
//! PTX ISA, "Control Flow Instructions" and "Function Declarations and Definitions". The parameters of a function, its
//! results and its variables lie in a frame of local memory, which follows that of its caller. A kernel that can call
//! functions in circles has a stack of a fixed size for each thread.

use super::frame::{Value, frames, read, set_frames, write};
use super::{heap, print};
use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::result::Next;
use crate::exec::warp::call::{Call, Saved};
use crate::exec::warp::{Warp, lanes};
use crate::program::op::Op;
use crate::program::operand::{CallOp, Callee, Slot};
use crate::program::register::{LANES, Register};
use crate::program::{Function, Program};

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Result<Next, Reason> {
    let program = env.launch.program;
    match op {
        Op::BranchIndexed { index, targets } => {
            for lane in lanes(mask) {
                let index = warp.r(*index)[lane];
                let target = targets.get(index as usize).copied().ok_or_else(|| {
                    let what =
                        format!("brx.idx with index {index}, where there are {} targets", targets.len());
                    warp.blame(lane, Reason::misuse(what))
                })?;
                scatter(warp, target, 1 << lane);
            }
        }
        Op::Call(op) if matches!(op.callee, Callee::Print) => {
            print::call(warp, env, op, mask)?;
            return Ok(Next::Advance);
        }
        Op::Call(op) if matches!(op.callee, Callee::Allocate | Callee::Free) => {
            heap::call(warp, env, op, mask)?;
            return Ok(Next::Advance);
        }
        Op::Call(op) => {
            let pc = warp.groups.iter().find(|group| group.mask & mask != 0).map_or(0, |group| group.pc);
            for (function, mask) in callees(warp, program, op, mask)? {
                call(warp, env, op, pc, function, mask)?;
            }
        }
        Op::Return => give_back(warp, program, mask),
        _ => unreachable!("no branch"),
    }
    Ok(Next::Scatter)
}

/// Sends lanes to an instruction.
fn scatter(warp: &mut Warp, target: u32, mask: u32) {
    match warp.targets.iter_mut().find(|(pc, _)| *pc == target) {
        Some((_, lanes)) => *lanes |= mask,
        None => warp.targets.push((target, mask)),
    }
}

/// The functions that lanes call.
fn callees(warp: &Warp, program: &Program, op: &CallOp, mask: u32) -> Result<Vec<(usize, u32)>, Reason> {
    let addresses = match op.callee {
        Callee::Function(function) => return Ok(vec![(function, mask)]),
        Callee::Address(addresses) => warp.d(addresses),
        Callee::Print | Callee::Allocate | Callee::Free => unreachable!("it has no code"),
    };
    let mut all: Vec<(usize, u32)> = Vec::new();
    for lane in lanes(mask) {
        let address = addresses[lane];
        let found = program.functions.iter().position(|function| function.address == address);
        let found = found
            .ok_or_else(|| Reason::address(format!("a call of {address:#x}, where no function begins")))?;
        let function = &program.functions[found];
        if !fit(&op.arguments, &function.parameters) || !fit(&op.results, &function.results) {
            return Err(Reason::misuse(format!(
                "a call of `{}` with other parameters or results than it has",
                function.name
            )));
        }
        match all.iter_mut().find(|(function, _)| *function == found) {
            Some((_, lanes)) => *lanes |= 1 << lane,
            None => all.push((found, 1 << lane)),
        }
    }
    Ok(all)
}

/// Whether these are as many, of the same sizes.
fn fit(a: &[Slot], b: &[Slot]) -> bool {
    let bytes = |slot: &Slot| match *slot {
        Slot::Memory { bytes, .. } => Some(bytes),
        Slot::R(_) | Slot::D(_) => None,
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| bytes(a).zip(bytes(b)).is_none_or(|(a, b)| a == b))
}

fn call(
    warp: &mut Warp,
    env: &Env<'_>,
    op: &CallOp,
    pc: u32,
    function: usize,
    mask: u32,
) -> Result<(), Reason> {
    let program = env.launch.program;
    let callee = &program.functions[function];
    let from = frames(warp, program);
    let to = from.map(|frame| frame + op.frame);
    let size = program.stack.map_or(warp.local.len() / LANES, |(_, begin)| begin as usize);
    if let Some(lane) = lanes(mask).find(|&lane| to[lane] as usize + callee.frame as usize > size) {
        return Err(Reason::misuse(format!(
            "a call of `{}` at a depth of {}: the thread's stack of {size} bytes is full",
            callee.name,
            warp.calls.iter().filter(|call| call.lanes >> lane & 1 != 0).count() + 1
        )));
    }
    let saved = callee.recursive.then(|| save(warp, env, callee)).transpose()?.map(Box::new);
    // All arguments are read before a parameter is written, which may be one of them.
    let arguments: Vec<Vec<Value>> = op
        .arguments
        .iter()
        .map(|&slot| lanes(mask).map(|lane| read(warp, slot, &from, lane)).collect())
        .collect();
    for (&parameter, values) in callee.parameters.iter().zip(arguments) {
        for (lane, value) in lanes(mask).zip(values) {
            write(warp, parameter, &to, lane, &value);
        }
        define(warp, program, parameter, mask);
    }
    set_frames(warp, program, mask, &to);
    let stack = program.stack.map(|(stack, _)| Box::new(*warp.r(stack)));
    warp.calls.push(Call { lanes: mask, pc, function, saved, stack });
    scatter(warp, callee.start, mask);
    Ok(())
}

/// Ends the innermost call of each of the lanes.
fn give_back(warp: &mut Warp, program: &Program, mask: u32) {
    let (mut left, mut innermost) = (mask, warp.calls.len());
    while left != 0 && innermost > 0 {
        innermost -= 1;
        let i = innermost;
        let Call { lanes: all, pc, function, .. } = warp.calls[i];
        let mask = all & left;
        if mask == 0 {
            continue;
        }
        left &= !mask;
        let Op::Call(op) = &program.code[pc as usize].op else { unreachable!("a call was there") };
        let callee = &program.functions[function];
        let from = frames(warp, program);
        let to = from.map(|frame| frame.wrapping_sub(op.frame));
        let results: Vec<Vec<Value>> = callee
            .results
            .iter()
            .map(|&slot| lanes(mask).map(|lane| read(warp, slot, &from, lane)).collect())
            .collect();
        if let Some(saved) = warp.calls[i].saved.take() {
            restore(warp, callee, &saved, mask);
            warp.calls[i].saved = Some(saved);
        }
        if let (Some((register, _)), Some(stack)) = (program.stack, warp.calls[i].stack.take()) {
            warp.put_r(register, mask, &stack);
            warp.calls[i].stack = Some(stack);
        }
        for (&result, values) in op.results.iter().zip(results) {
            for (lane, value) in lanes(mask).zip(values) {
                write(warp, result, &to, lane, &value);
            }
            define(warp, program, result, mask);
        }
        set_frames(warp, program, mask, &to);
        warp.calls[i].lanes &= !mask;
        scatter(warp, pc + 1, mask);
    }
    let inner = warp.calls.split_off(innermost);
    warp.calls.extend(inner.into_iter().filter(|call| call.lanes != 0));
}

/// What is passed to a function and back has a value.
fn define(warp: &mut Warp, program: &Program, slot: Slot, mask: u32) {
    let register = match slot {
        Slot::R(register) => Register::R(register),
        Slot::D(register) => Register::D(register),
        Slot::Memory { .. } => return,
    };
    warp.define(program, register, mask, 0, None);
}

fn save(warp: &Warp, env: &Env<'_>, function: &Function) -> Result<Saved, Reason> {
    let [p, r, d] = function.registers.clone();
    let (p, r, d) = (&warp.p[p], &warp.r[r], &warp.d[d]);
    let bytes = size_of_val(p) + size_of_val(r) + size_of_val(d);
    let held = env.launch.budget.hold(bytes as u64, "what a call keeps of registers")?;
    Ok(Saved { p: p.to_vec(), r: r.to_vec(), d: d.to_vec(), _held: held })
}

fn restore(warp: &mut Warp, function: &Function, saved: &Saved, mask: u32) {
    let [p, r, d] = function.registers.clone();
    for (slot, value) in warp.p[p].iter_mut().zip(&saved.p) {
        *slot = *slot & !mask | value & mask;
    }
    for lane in lanes(mask) {
        for (slot, value) in warp.r[r.clone()].iter_mut().zip(&saved.r) {
            slot[lane] = value[lane];
        }
        for (slot, value) in warp.d[d.clone()].iter_mut().zip(&saved.d) {
            slot[lane] = value[lane];
        }
    }
}
