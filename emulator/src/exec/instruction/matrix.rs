//! Matrix moves, and products of warps and warpgroups.

use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::result::{Active, Next};
use crate::exec::warp::Warp;
use crate::exec::warp::watched::{Cause, Origin};
use crate::memory::Place;
use crate::order::lanes::{Hole, Lanes};
use crate::program::op::Op;
use crate::program::operand::{Address, WgmmaA, WgmmaOp, Window};
use crate::program::register::{D, L32, LANES, R, Register, lanes_of};
use crate::tensor::matrix::{ldmatrix, movmatrix, stmatrix};
use crate::tensor::wgmma::OperandA;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, active: Active) -> Result<Next, Reason> {
    if let Some(next) = active.whole(warp)? {
        return Ok(next);
    }
    match op {
        Op::Ldmatrix { to, trans, window, at } => {
            let addresses = addresses(warp, *window, *at, to.len())?;
            let registers = ldmatrix(&addresses, to.len(), *trans, &mut env.ctas[warp.cta])?;
            rows(warp, env, &addresses[..8 * to.len()], false)?;
            for (to, value) in to.iter().zip(&registers) {
                warp.put_r(*to, u32::MAX, value);
            }
            unwritten(warp, env, to, *trans);
        }
        Op::Stmatrix { from, trans, window, at } => {
            let addresses = addresses(warp, *window, *at, from.len())?;
            let mut values = [[0; 32]; 4];
            for (value, from) in values.iter_mut().zip(from) {
                *value = *warp.r(*from);
            }
            rows(warp, env, &addresses[..8 * from.len()], true)?;
            stmatrix(&addresses, &values[..from.len()], *trans, &mut env.ctas[warp.cta])?;
            env.events += 1;
        }
        Op::Movmatrix { to, from } => {
            let value = movmatrix(warp.r(*from));
            warp.put_r(*to, u32::MAX, &value);
        }
        Op::Mma(product) => {
            let ([mut a, mut b], [a_count, b_count]) =
                ([[&[0; LANES]; 4]; 2], [product.a.len(), product.b.len()]);
            a.iter_mut().zip(&product.a).for_each(|(a, &from)| *a = warp.r(from));
            b.iter_mut().zip(&product.b).for_each(|(b, &from)| *b = warp.r(from));
            product.shape.gather(&a[..a_count.min(4)], &b[..b_count.min(4)], &mut env.product);
            let per = product.accumulator.per_tile();
            let mut d = [[[0; LANES]; 2]; 2];
            for (tile, (d, c)) in d.iter_mut().zip(product.c.chunks(per)).enumerate() {
                let c = [warp.r(c[0]), warp.r(c[per - 1])];
                env.product.registers(0, tile, product.accumulator, c, d);
            }
            for (to, d) in product.d.chunks(per).zip(&d) {
                to.iter().zip(d).for_each(|(&to, value)| warp.put_r(to, u32::MAX, value));
            }
            env.tensor_operations += product.shape.operations();
        }
        _ => unreachable!("no matrix instruction"),
    }
    Ok(Next::Advance)
}

/// Tells the order of accesses of the rows of `ldmatrix` or `stmatrix`, each of a lane that gives its address.
fn rows(warp: &mut Warp, env: &mut Env<'_>, addresses: &[u32], wrote: bool) -> Result<(), Reason> {
    let Some(order) = &mut env.order else { return Ok(()) };
    let rows = u32::MAX >> (LANES - addresses.len().min(LANES));
    let at = lanes_of(|lane| addresses.get(lane).copied().unwrap_or(0).into());
    let what = Lanes { bytes: 16, kind: 0, reads: !wrote, wrote, gives: false };
    order.together(&at, rows, Some(warp.cta), what, |_, _, _| None).map_err(|what| match order.culprit() {
        Some(lane) => warp.blame(lane, what),
        None => what,
    })
}

/// Lanes get what nobody wrote of the rows of matrices: no values.
fn unwritten(warp: &mut Warp, env: &mut Env<'_>, to: &[R], trans: bool) {
    let Some(order) = &mut env.order else { return };
    let (program, pc) = (env.launch.program, order.pc());
    for Hole { lane: row, at, bytes } in order.take_holes().into_iter().rev() {
        // A row of eight elements goes to four lanes, two to each, or one to each of eight.
        let (matrix, row) = (row / 8, row % 8);
        let without = (0..8)
            .filter(|i| bytes >> (2 * i) & 3 != 0)
            .fold(0, |all, i| all | 1 << if trans { 4 * i + row / 2 } else { 4 * row + i / 2 });
        let origin = Origin { pc, cause: Cause::Shared { at, bytes: 16 } };
        if let Some(&to) = to.get(matrix) {
            warp.define(program, Register::R(to), without, without, Some(origin));
        }
    }
}

/// The rows' addresses in shared memory, of so many matrices.
fn addresses(warp: &mut Warp, window: Window, at: Address, matrices: usize) -> Result<L32, Reason> {
    if window == Window::Generic {
        for lane in 0..8 * matrices {
            if !matches!(warp.place(window, at, lane), Place::Shared(_)) {
                let what = format!("{:#x} is no address in shared memory", warp.address(at, lane));
                return Err(warp.blame(lane, Reason::address(what)));
            }
        }
    }
    // The lower half of a generic address is that in shared memory.
    let addresses = warp.addresses(at);
    Ok(lanes_of(|lane| addresses[lane] as u32))
}

/// A product of the four warps of a warpgroup, which are all at it.
pub(crate) fn warpgroup(warps: &mut [Warp], env: &mut Env<'_>, op: &WgmmaOp) -> Result<(), Reason> {
    let b = op_uniform(warps, op.b)?;
    let scales = [0, 1, 2, 3].map(|i| warps[i].condition(op.scale));
    let add = scales[0] != 0;
    if scales.iter().any(|&scale| scale != if add { u32::MAX } else { 0 }) {
        return Err(Reason::misuse("scale-d differs between the threads of the warpgroup"));
    }
    op.shape.check_b(b)?;
    let columns = match op.shape.sparse.zip(op.metadata) {
        Some((sparse, metadata)) => op.shape.columns(sparse, [0, 1, 2, 3].map(|i| warps[i].r(metadata)))?,
        None => Vec::new(),
    };
    let shared = &mut env.ctas[warps[0].cta];
    match op.a {
        WgmmaA::Shared(a) => {
            let a = OperandA::Shared(op_uniform(warps, a)?);
            op.shape.gather((a, &columns), b, shared, &mut env.product)?;
        }
        WgmmaA::Registers(registers) => {
            let values = [0, 1, 2, 3].map(|i| registers.map(|register| *warps[i].r(register)));
            op.shape.gather((OperandA::Registers(&values), &columns), b, shared, &mut env.product)?;
        }
    }
    if let Some(order) = &mut env.order {
        let first = &warps[0];
        order.issue(first.cta, first.index, first.groups[0].pc);
        let group = first.wgmma.committed as u32 + 1;
        if let WgmmaA::Shared(a) = op.a {
            order.product(first.cta, group, op.shape.pieces_a(first.d(a)[0]))?;
        }
        order.product(first.cta, group, op.shape.pieces_b(b))?;
    }
    let mut values = [[0; LANES]; 2];
    for (w, warp) in warps.iter_mut().enumerate() {
        let per = op.accumulator.per_tile();
        for (tile, d) in op.d.chunks(per).enumerate() {
            let c = if add { [warp.r(d[0]), warp.r(d[per - 1])] } else { [&[0; LANES]; 2] };
            env.product.registers(w, tile, op.accumulator, c, &mut values);
            d.iter().zip(&values).for_each(|(&d, value)| warp.put_r(d, u32::MAX, value));
        }
    }
    env.tensor_operations += op.shape.operations();
    Ok(())
}

/// A descriptor, the same in all threads.
fn op_uniform(warps: &[Warp], register: D) -> Result<u64, Reason> {
    let first = warps[0].d(register)[0];
    match warps.iter().all(|warp| warp.d(register).iter().all(|&value| value == first)) {
        true => Ok(first),
        false => Err(Reason::misuse("a matrix descriptor differs between the threads of the warpgroup")),
    }
}
