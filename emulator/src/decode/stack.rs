//! Memory that a thread takes from its stack while it runs.
//!
//! PTX ISA, "Stack Manipulation Instructions". The stack pointer is a register of its own, which counts up in local memory, behind all frames. It is set back where
//! the function returns.

use super::context::Context;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Destination, EachOp, Source};
use crate::program::register::R;
use tilewright_ptx::ast::Operand;

/// What memory is aligned to where nothing else is asked for.
const ALIGN: u64 = 8;
/// What it is aligned to at most.
const MOST: u64 = 1 << 23;
/// The stack pointer when more was asked for than there are addresses: there is nothing.
const FULL: u64 = u32::MAX as u64;

/// Whether an instruction is one of these.
pub(super) fn is_stack(opcode: &Opcode<'_>) -> bool {
    matches!(opcode.name(), "alloca" | "stacksave" | "stackrestore")
}

pub(super) fn decode(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
) -> Result<Vec<Op>, String> {
    let ty = opcode.ty()?;
    let bits = match ty {
        Type::U(bits @ (32 | 64)) => bits,
        _ => return opcode.refuse(ty),
    };
    let stack = context.stack();
    match (opcode.name(), operands) {
        ("alloca", [d, size]) => allocate(context, stack, (d, size), bits, ALIGN),
        ("alloca", [d, size, Operand::Integer(align)]) => match *align {
            align if align.is_power_of_two() && align <= MOST => {
                allocate(context, stack, (d, size), bits, align.max(ALIGN))
            }
            _ => Err(format!("an alignment of {align}: must be a power of two up to {MOST}")),
        },
        ("stacksave", [d]) => {
            Ok(vec![each(context.destination(d, bits)?, [Source::R(stack)], |[stack]| stack)])
        }
        ("stackrestore", [a]) => {
            Ok(vec![each(Destination::R(stack, 32), [context.source(a, bits)?], |[a]| a)])
        }
        (_, operands) => Err(format!("does not take {} operands", operands.len())),
    }
}

/// Moves the stack pointer; what it has passed is the thread's.
fn allocate(
    context: &mut Context,
    stack: R,
    (d, size): (&Operand, &Operand),
    bits: u32,
    align: u64,
) -> Result<Vec<Op>, String> {
    let (d, size) = (context.destination(d, bits)?, context.source(size, bits)?);
    let end = move |[stack, size]: [u64; 2]| {
        let end = stack.next_multiple_of(align);
        end.checked_add(size).map_or(FULL, |end| end.min(FULL))
    };
    let start =
        |[stack, size]: [u64; 2]| if stack == FULL { FULL / MOST * MOST } else { stack.wrapping_sub(size) };
    Ok(vec![
        each(Destination::R(stack, 32), [Source::R(stack), size], end),
        each(d, [Source::R(stack), size], start),
    ])
}

fn each<const N: usize>(
    d: Destination,
    from: [Source; N],
    f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
) -> Op {
    let f = Box::new(move |x: [u64; 4], _| (f(std::array::from_fn(|i| x[i])), false));
    Op::Each(Box::new(EachOp { f, d, from: Box::new(from), take: None, leave: None }))
}
