//! `wmma`, and products of a warp that [`super::matrix`] has not.

use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::memory::{read, write};
use crate::exec::result::{Active, Next};
use crate::exec::warp::watched::{Cause, Origin};
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::order::Order;
use crate::order::lanes::Lanes;
use crate::order::spot::Spot;
use crate::program::op::Op;
use crate::program::operand::{Address, Destination, FragmentOp, Source, WarpProductOp};
use crate::program::register::LANES;
use crate::tensor::warp_product::Operands;

/// What rows and columns in memory begin at, unless a lane's part is smaller.
const ALIGNMENT: u64 = 16;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, active: Active) -> Result<Next, Reason> {
    if let Some(next) = active.whole(warp)? {
        return Ok(next);
    }
    match op {
        Op::WmmaLoad(op) => load(warp, env, op)?,
        Op::WmmaStore(op) => store(warp, env, op)?,
        Op::WarpProduct(op) => multiply(warp, env, op)?,
        _ => unreachable!("no fragments"),
    }
    Ok(Next::Advance)
}

fn destination(register: Source) -> Destination {
    match register {
        Source::R(register) => Destination::R(register, 32),
        Source::D(register) => Destination::D(register),
    }
}

fn multiply(warp: &mut Warp, env: &mut Env<'_>, op: &WarpProductOp) -> Result<(), Reason> {
    let form = &op.form;
    let value = |registers: &[Source], i: usize, lane| warp.source(registers[i], lane);
    let operands = Operands {
        a: form.a.read(|i, lane| value(&op.a, i, lane)),
        b: form.b.read(|i, lane| value(&op.b, i, lane)),
        c: form.c.read(|i, lane| value(&op.c, i, lane)),
    };
    let metadata = op.metadata.map_or([0; LANES], |metadata| *warp.r(metadata));
    let d = form.compute(&operands, &metadata)?;
    for (i, &register) in op.d.iter().enumerate() {
        for lane in 0..LANES {
            let bits = form.d.register(&d, i, lane).to_le_bytes();
            let bytes = form.d.number.register_bits() as usize / 8;
            warp.put(destination(register), lane, &bits[..bytes], false);
        }
    }
    env.tensor_operations += form.operations();
    Ok(())
}

/// The elements that are one access: their bytes, how many they are, and the stride in elements.
struct Layout {
    bytes: usize,
    unit: usize,
    stride: u64,
}

/// Checks what must be the same in all lanes, and the alignment.
fn layout(warp: &mut Warp, op: &FragmentOp) -> Result<Layout, Reason> {
    let base = |lane| warp.address(op.at, lane);
    if let Some(lane) = (1..LANES).find(|&lane| base(lane) != base(0)) {
        return Err(
            warp.blame(lane, Reason::misuse("the address of a matrix differs between the lanes of a warp"))
        );
    }
    let fragment = &op.fragment;
    let [rows, columns] = fragment.extents();
    let line = if op.by_rows { columns } else { rows };
    let bits = fragment.number.bits();
    let stride = match op.stride {
        Some(stride) => warp.uniform(stride, u32::MAX)?,
        None => line as u32,
    };
    if (stride as usize) < line {
        return Err(Reason::misuse(format!(
            "a stride of {stride} elements, where rows or columns have {line}"
        )));
    }
    let part = fragment.registers as u64 * u64::from(fragment.number.register_bits()) / 8;
    let alignment = part.min(ALIGNMENT);
    let (at, pitch) = (warp.address(op.at, 0), u64::from(stride) * u64::from(bits));
    if !at.is_multiple_of(alignment) || !pitch.is_multiple_of(8 * alignment) {
        return Err(Reason::misuse(format!(
            "a matrix at {at:#x} with a stride of {stride} elements of {bits} bits: rows or columns must begin at multiples \
             of {alignment} bytes"
        )));
    }
    // Elements of less than a byte are moved by whole registers.
    let unit = if bits < 8 { fragment.number.per_register() } else { 1 };
    Ok(Layout { bytes: unit * bits as usize / 8, unit, stride: stride.into() })
}

/// The address of element `i` of a lane.
fn place(op: &FragmentOp, layout: &Layout, lane: usize, i: usize) -> Address {
    let [row, column] = op.fragment.place(lane, i).map(|at| at as u64);
    let (line, within) = if op.by_rows { (row, column) } else { (column, row) };
    let bits = (line * layout.stride + within) * u64::from(op.fragment.number.bits());
    Address { offset: op.at.offset.wrapping_add((bits / 8) as i64), ..op.at }
}

/// Tells the order of accesses of the `i`th elements of all lanes.
fn tell(
    warp: &mut Warp,
    env: &mut Env<'_>,
    op: &FragmentOp,
    layout: &Layout,
    i: usize,
    wrote: bool,
) -> Result<(), Reason> {
    let mut spots = Vec::with_capacity(LANES);
    for lane in 0..LANES {
        match warp.place(op.window, place(op, layout, lane, i), lane) {
            Place::Global(at) => spots.push((lane, Spot::Global(at))),
            Place::Shared(at) => {
                let (cta, at) = crate::exec::cta::in_cluster(at, warp.cta, env.ctas.len())?;
                spots.push((lane, Spot::Shared(cta, at)));
            }
            other => {
                let what = format!("{other:x?} is in neither global nor shared memory");
                return Err(warp.blame(lane, Reason::address(what)));
            }
        }
    }
    let Some(order) = &mut env.order else { return Ok(()) };
    let what = Lanes { bytes: layout.bytes, kind: 0, reads: !wrote, wrote, gives: false };
    order.lanes(spots.into_iter(), what, |_, _, _| None).map_err(|what| match order.culprit() {
        Some(lane) => warp.blame(lane, what),
        None => what,
    })
}

fn load(warp: &mut Warp, env: &mut Env<'_>, op: &FragmentOp) -> Result<(), Reason> {
    let layout = layout(warp, op)?;
    let per = op.fragment.number.per_register();
    let mut values = vec![[0u64; LANES]; op.registers.len()];
    let mut without = vec![0u32; op.registers.len()];
    let mut cause = None;
    for i in (0..op.fragment.count()).step_by(layout.unit) {
        let shift = i % per * op.fragment.number.bits() as usize;
        for (lane, value) in values[i / per].iter_mut().enumerate() {
            let mut bytes = [0; 8];
            let place = warp.place(op.window, place(op, &layout, lane, i), lane);
            read(warp, env, place, lane, &mut bytes[..layout.bytes])
                .map_err(|what| warp.blame(lane, what))?;
            *value |= u64::from_le_bytes(bytes) << shift;
        }
        tell(warp, env, op, &layout, i, false)?;
        let holes = env.order.as_mut().map(Order::take_holes).unwrap_or_default();
        for hole in holes.iter().rev() {
            without[i / per] |= 1 << hole.lane;
            cause = Some(Cause::Shared { at: hole.at, bytes: layout.bytes as u32 });
        }
    }
    let (program, pc) = (env.launch.program, env.order.as_ref().map_or(0, Order::pc));
    for ((&register, values), without) in op.registers.iter().zip(&values).zip(without) {
        let bytes = op.fragment.number.register_bits() as usize / 8;
        for (lane, value) in values.iter().enumerate() {
            warp.put(destination(register), lane, &value.to_le_bytes()[..bytes], false);
        }
        if let (Some(cause), true) = (cause, without != 0) {
            warp.define(program, register.register(), without, without, Some(Origin { pc, cause }));
        }
    }
    Ok(())
}

fn store(warp: &mut Warp, env: &mut Env<'_>, op: &FragmentOp) -> Result<(), Reason> {
    let layout = layout(warp, op)?;
    let per = op.fragment.number.per_register();
    for i in 0..op.fragment.count() {
        for lane in lanes(u32::MAX) {
            let shift = i % per * op.fragment.number.bits() as usize;
            let value = warp.source(op.registers[i / per], lane) >> shift;
            let place = warp.place(op.window, place(op, &layout, lane, i), lane);
            write(warp, env, place, lane, &value.to_le_bytes()[..layout.bytes])
                .map_err(|what| warp.blame(lane, what))?;
        }
        tell(warp, env, op, &layout, i, true)?;
    }
    Ok(())
}
