//! Instructions that are computed lane by lane.

use super::Result_;
use super::context::Context;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::EachOp;
use tilewright_ptx::ast::Operand;

/// An operation that gives a value of one type from operands of others, each as its bits.
pub(super) fn each(
    context: &mut Context,
    (d, to): (&Operand, Type),
    operands: &[(&Operand, Type)],
    f: impl Fn([u64; 4]) -> u64 + Send + Sync + 'static,
) -> Result_ {
    let from = operands.iter().map(|(operand, ty)| context.source(operand, ty.bits()));
    let from = from.collect::<Result<Box<_>, _>>()?;
    let mut masks = [0; 4];
    for (mask, (_, ty)) in masks.iter_mut().zip(operands) {
        *mask = u64::MAX >> (64 - ty.bits());
    }
    let f = Box::new(move |x: [u64; 4], _| (f(std::array::from_fn(|i| x[i] & masks[i])), false));
    let d = context.destination(d, to.bits())?;
    Ok(Op::Each(Box::new(EachOp { f, d, from, take: None, leave: None })))
}
