//! `call`.
//!
//! PTX ISA, "call". What is passed must have the size of what the function declares.

use super::Result_;
use super::context::{Context, Signature, Size};
use super::names::Names;
use super::opcode::Opcode;
use crate::program::op::Op;
use crate::program::operand::{CallOp, Callee, Slot};
use tilewright_ptx::ast::Operand;

pub(super) fn decode(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
    names: &Names<'_>,
) -> Result_ {
    opcode.flag("uni");
    let (results, rest) = match operands {
        [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
        all => (&[][..], all),
    };
    let (name, rest) = match rest {
        [Operand::Name(name), rest @ ..] => (name, rest),
        _ => return Err("takes a function".into()),
    };
    let (arguments, rest) = match rest {
        [Operand::List(arguments), rest @ ..] => (arguments.as_slice(), rest),
        all => (&[][..], all),
    };
    // What a failed assertion of CUDA calls.
    if name == "__assertfail" {
        return Ok(Op::Trap);
    }
    let (callee, signature) = match (context.function(name), rest) {
        (Some(function), _) if function.place.is_none() && driver(name).is_some() => {
            driver(name).ok_or("is no function of the driver")?
        }
        (Some(function), _) => {
            let place = function
                .place
                .ok_or_else(|| format!("function `{name}` is only declared: modules are not linked"))?;
            (Callee::Function(place), function.signature.clone())
        }
        (None, [Operand::Name(list)]) => {
            let callee = Callee::Address(context.d(&Operand::Name(name.clone()))?);
            let signature = match names.callees(list) {
                Some(functions) => common(context, functions)?,
                None => names.prototype(list)?,
            };
            (callee, signature)
        }
        (None, _) => return Err(format!("`{name}` is no function, and there is no prototype")),
    };
    let fits = |what: &str, given: usize, declared: usize| match given == declared {
        true => Ok(()),
        false => Err(format!("`{name}` has {declared} {what}, not {given}")),
    };
    fits("parameters", arguments.len(), signature.parameters.len())?;
    fits("results", results.len(), signature.results.len())?;
    let mut slots = |actual: &[Operand], declared: &[Size], written: bool| {
        let each = actual.iter().zip(declared).map(|(actual, &size)| slot(context, actual, size, written));
        each.collect::<Result<Box<[Slot]>, String>>()
    };
    let arguments = slots(arguments, &signature.parameters, false)?;
    let results = slots(results, &signature.results, true)?;
    Ok(Op::Call(Box::new(CallOp { callee, arguments, results, frame: 0 })))
}

/// What functions of a list take and give: all the same.
fn common(context: &Context, functions: &[String]) -> Result<Signature, String> {
    let mut signatures = functions.iter().map(|name| {
        let known = context.function(name).ok_or_else(|| format!("`{name}` is no function"))?;
        Ok::<_, String>((name, known.signature.clone()))
    });
    let (_, first) = signatures.next().ok_or("a list without functions")??;
    for signature in signatures {
        let (name, signature) = signature?;
        if signature != first {
            return Err(format!("`{name}` has other parameters or results than the list's first function"));
        }
    }
    Ok(first)
}

/// The driver's function of this name, with the sizes of what it takes and gives.
fn driver(name: &str) -> Option<(Callee, Signature)> {
    let (callee, parameters, results): (_, &[u32], &[u32]) = match name {
        // A format and the address of its arguments.
        "vprintf" => (Callee::Print, &[8, 8], &[4]),
        "malloc" => (Callee::Allocate, &[8], &[8]),
        "free" => (Callee::Free, &[8], &[]),
        _ => return None,
    };
    let sizes = |bytes: &[u32]| bytes.iter().map(|&bytes| Size::Memory(bytes)).collect();
    Some((callee, Signature { parameters: sizes(parameters), results: sizes(results) }))
}

/// Where an argument is, or where a result goes.
fn slot(context: &mut Context, actual: &Operand, size: Size, written: bool) -> Result<Slot, String> {
    if let Some((at, bytes)) = context.local(actual) {
        return match size {
            Size::Memory(declared) if declared == bytes => Ok(Slot::Memory { at, bytes }),
            Size::Memory(declared) => {
                Err(format!("{actual:?} has {bytes} bytes, where {declared} are passed"))
            }
            Size::Register(_) => Err(format!("{actual:?} is memory, where a register is passed")),
        };
    }
    let bits = match size {
        Size::Memory(bytes) => bytes.saturating_mul(8),
        Size::Register(bits) => bits,
    };
    match (bits, written) {
        (64, false) => context.d(actual).map(Slot::D),
        (64, true) => context.to_d(actual).map(Slot::D),
        (8 | 16 | 32, false) => context.wide_r(actual, bits, 32).map(Slot::R),
        (8 | 16 | 32, true) => context.to_r(actual, bits).map(Slot::R),
        _ => Err(format!("{bits} bits cannot be passed in a register")),
    }
}
