//! Registers of products in flight.
//!
//! From the issue of a `wgmma.mma_async` until a `wgmma.wait_group` covers its group, its accumulators are touched by
//! nobody but products of the same shape, which follow in order, and the registers of A are read by no other
//! instruction than products, and written by none. Before a product reads registers that other instructions touched,
//! there is a `wgmma.fence`. PTX ISA, "wgmma.mma_async", "wgmma.fence" and "wgmma.wait_group".
//!
//! Where compilers rename registers, PTX has a `mov`, which the assembler takes away again by giving both one place.
//! So a copy of an accumulator in flight is no access: the copy is in flight as well. Nor does a `mov` count as an
//! access that needs a fence: what counts is when the value that it copies was computed. And a `mov` that writes what
//! the register holds already changes nothing.

use crate::error::Reason;
use crate::exec::warp::Warp;
use crate::exec::warp::watched::{Product, Products};
use crate::program::Program;
use crate::program::access::Access;
use crate::program::op::Op;
use crate::program::operand::{WgmmaA, WgmmaOp};
use crate::program::register::{R, Register};

/// Checks what the instruction at `pc`, which some lanes execute, does to registers of products, and notes it.
pub(super) fn check(warp: &mut Warp, program: &Program, pc: u32) -> Result<(), Reason> {
    match &program.code[pc as usize].op {
        Op::Move32(d, a) => copy(warp, program, *d, *a),
        Op::Wgmma(product) => issue(warp, program, product, pc),
        op => {
            let mut result = Ok(());
            op.registers(&mut |access, register| {
                if result.is_ok() {
                    result = touch(warp, program, access, register);
                }
            });
            result
        }
    }
}

/// The product, if it is in flight.
fn in_flight(warp: &Warp, product: Option<Product>) -> Option<Product> {
    product.filter(|product| product.group > warp.wgmma.waited)
}

fn touch(warp: &mut Warp, program: &Program, access: Access, register: Register) -> Result<(), Reason> {
    let Some(slot) = program.watched.slot(register) else { return Ok(()) };
    let Products { accumulates, copy, reads, .. } = warp.watched[slot].products;
    let does = if access == Access::Read { "read" } else { "written" };
    if let Some(product) = in_flight(warp, accumulates)
        && (access == Access::Read || !copy)
    {
        return Err(refuse(program, register, does, "accumulates in it", product));
    }
    if let Some(product) = in_flight(warp, reads) {
        return Err(refuse(program, register, does, "reads it as a part of A", product));
    }
    let state = &mut warp.watched[slot].products;
    state.fence = warp.wgmma.fences + 1;
    if access == Access::Write {
        state.accumulates = None;
    }
    Ok(())
}

fn copy(warp: &mut Warp, program: &Program, d: R, a: R) -> Result<(), Reason> {
    let Some(to) = program.watched.slot(Register::R(d)) else { return Ok(()) };
    let from = program.watched.slot(Register::R(a));
    let from = from.map_or(Products::UNTOUCHED, |slot| warp.watched[slot].products);
    let accumulates = in_flight(warp, from.accumulates);
    let state = warp.watched[to].products;
    if warp.r(d) != warp.r(a) {
        if let Some(product) = in_flight(warp, state.reads) {
            return Err(refuse(program, Register::R(d), "written", "reads it as a part of A", product));
        }
        if let Some(product) = in_flight(warp, state.accumulates)
            && !state.copy
            && accumulates.is_none()
        {
            return Err(refuse(program, Register::R(d), "written", "accumulates in it", product));
        }
    }
    warp.watched[to].products = Products { accumulates, copy: true, reads: state.reads, fence: from.fence };
    Ok(())
}

fn issue(warp: &mut Warp, program: &Program, product: &WgmmaOp, pc: u32) -> Result<(), Reason> {
    if warp.wgmma.fences == 0 {
        return Err(Reason::misuse("there is no wgmma.fence before the warp's first product"));
    }
    let shape = [product.shape.n, product.shape.depth() as u32];
    let own = Product { pc, group: warp.wgmma.committed + 1, shape };
    let a = match &product.a {
        WgmmaA::Registers(a) => a.as_slice(),
        WgmmaA::Shared(_) => &[],
    };
    for &register in a {
        let Some(slot) = program.watched.slot(Register::R(register)) else { continue };
        let state = warp.watched[slot].products;
        if let Some(product) = in_flight(warp, state.accumulates) {
            return Err(refuse(program, Register::R(register), "read", "accumulates in it", product));
        }
        fenced(warp, program, register, state)?;
        warp.watched[slot].products.reads = Some(own);
    }
    for &register in &product.d {
        let Some(slot) = program.watched.slot(Register::R(register)) else { continue };
        let state = warp.watched[slot].products;
        if let Some(product) = in_flight(warp, state.reads) {
            return Err(refuse(
                program,
                Register::R(register),
                "written",
                "reads it as a part of A",
                product,
            ));
        }
        if let Some(product) = in_flight(warp, state.accumulates)
            && product.shape != shape
        {
            return Err(refuse(
                program,
                Register::R(register),
                "written",
                "of another shape accumulates in it",
                product,
            ));
        }
        fenced(warp, program, register, state)?;
        warp.watched[slot].products = Products { accumulates: Some(own), copy: false, ..state };
    }
    Ok(())
}

/// There must have been a fence since the last access.
fn fenced(warp: &Warp, program: &Program, register: R, state: Products) -> Result<(), Reason> {
    if state.fence <= warp.wgmma.fences {
        return Ok(());
    }
    let name = program.names.of(Register::R(register));
    Err(Reason::misuse(format!("{name} was accessed by other instructions since the last wgmma.fence")))
}

fn refuse(program: &Program, register: Register, does: &str, why: &str, product: Product) -> Reason {
    let name = program.names.of(register);
    let line = program.code[product.pc as usize].line;
    Reason::misuse(format!(
        "{name} is {does} while a wgmma {why} that was not waited for (PTX line {line}; wgmma.wait_group must cover it)"
    ))
}
