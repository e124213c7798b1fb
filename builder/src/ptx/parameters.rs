//! Loads through the generic address of a kernel's parameters, as loads of the parameters themselves.
//!
//! rustc knows the argument block by its generic address alone (`cvta.param`), so it loads arguments as if they lay
//! anywhere. From `ld.param` ptxas makes operands in the constant bank, without latency.
//!
//! Only where a kernel reads arguments in place, through pointers that a comment of theirs hides ([`IN_PLACE`]): what is read once, at the
//! start, ptxas would read again where it is used and keep the addresses' parts in more registers, so that kernels at their last
//! register spilled (GEMM's 128 x 256).

use std::borrow::Cow;
use std::collections::HashMap;

use tilewright_ptx::ast::{Instruction, Operand, Statement};
use tilewright_ptx::parser::parse;

/// What `tilewright_device::arch::declare::in_place` writes in front of a pointer to an argument that is read in place.
const IN_PLACE: &str = "// tilewright.in_place ";

/// What a register holds wherever it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    /// The address of the parameters' first byte.
    Parameters,
    /// Another register's value, and this much.
    Sum(&'a str, i64),
    /// Anything else.
    Other,
}

/// The kernel with loads at a known distance from its parameters' address as `ld.param`, if it reads any in place.
pub(crate) fn load_parameters(entry: &str) -> Cow<'_, str> {
    let in_place = entry.lines().any(|line| line.trim_start().starts_with(IN_PLACE));
    match in_place.then(|| rewritten(entry)).flatten() {
        Some(text) => text.into(),
        None => entry.into(),
    }
}

/// The same; nothing where the kernel has no parameters or cannot be read.
fn rewritten(text: &str) -> Option<String> {
    let module = parse(text).ok()?;
    let entry = module.entries.first()?;
    let block = &entry.parameters.first()?.name;
    let instructions = || {
        entry.body.iter().filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    };
    let mut values: HashMap<&str, Vec<Value>> = HashMap::new();
    for instruction in instructions() {
        for register in written(instruction) {
            values.entry(register).or_default().push(value(instruction, block));
        }
    }
    let (mut all, mut done) = (String::with_capacity(text.len()), 0);
    for instruction in instructions() {
        let Some(at) = place(instruction, &values) else { continue };
        let span = instruction.span.clone();
        let (before, address) = text[span.clone()].strip_prefix("ld.")?.split_once('[')?;
        let (_, after) = address.split_once(']')?;
        all.push_str(&text[done..span.start]);
        all.push_str(&format!("ld.param.{before}[{block}+{at}]{after}"));
        done = span.end;
    }
    Some(all + &text[done..])
}

/// The registers that an instruction writes.
fn written(instruction: &Instruction) -> impl Iterator<Item = &str> {
    let first = match &instruction.operands[..] {
        // The address stays what it is.
        [to, from] if instruction.opcode == "cvta.param.u64" && to == from => &[],
        [Operand::Vector(parts), ..] => parts.as_slice(),
        [first, ..] => std::slice::from_ref(first),
        [] => &[],
    };
    let names = first.iter().flat_map(|operand| match operand {
        Operand::Name(name) => [Some(name), None],
        Operand::Pair(name, other) => [Some(name), Some(other)],
        _ => [None, None],
    });
    names.flatten().map(String::as_str)
}

/// What an instruction writes.
fn value<'a>(instruction: &'a Instruction, block: &str) -> Value<'a> {
    if instruction.guard.is_some() {
        return Value::Other;
    }
    match (instruction.opcode.as_str(), &instruction.operands[..]) {
        ("mov.b64" | "mov.u64", [Operand::Name(_), Operand::Name(from)]) if from == block => {
            Value::Parameters
        }
        ("mov.b64" | "mov.u64", [Operand::Name(_), Operand::Name(from)]) => Value::Sum(from, 0),
        ("add.s64", [_, Operand::Name(from), Operand::Integer(by)]) => Value::Sum(from, *by as i64),
        _ => Value::Other,
    }
}

/// How far behind the parameters' first byte a register points, if it does so wherever it is written.
fn distance(register: &str, values: &HashMap<&str, Vec<Value>>, depth: u32) -> Option<i64> {
    let written = values.get(register).filter(|_| depth < 64)?;
    let mut distances = written.iter().map(|value| match *value {
        Value::Parameters => Some(0),
        Value::Sum(from, by) => distance(from, values, depth + 1)?.checked_add(by),
        Value::Other => None,
    });
    let first = distances.next()??;
    distances.all(|other| other == Some(first)).then_some(first)
}

/// Where among the parameters an instruction loads, if it is a generic load from there.
fn place(instruction: &Instruction, values: &HashMap<&str, Vec<Value>>) -> Option<i64> {
    let kind = instruction.opcode.strip_prefix("ld.")?.split('.').next()?;
    let generic =
        matches!(kind, "v2" | "v4") || kind.trim_start_matches(['b', 'u', 's', 'f']).parse::<u32>().is_ok();
    match &instruction.operands[..] {
        [_, Operand::Address { base: Some(register), offset, coordinates: None }]
            if generic && instruction.guard.is_none() =>
        {
            distance(register, values, 0)?.checked_add(*offset).filter(|&at| at >= 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel of these lines after the one that declares its parameters' address, in `%rd1`, with a pointer read in place.
    fn kernel(lines: &str) -> String {
        read_at_start(&format!("\t{IN_PLACE}%rd9\n{lines}"))
    }

    fn read_at_start(lines: &str) -> String {
        format!(
            ".visible .entry k(\n\t.param .align 16 .b8 k_param_0[256]\n)\n{{\n\tmov.b64 %rd1, k_param_0; cvta.param.u64 %rd1, %rd1;\n{lines}\tret;\n}}"
        )
    }

    /// What becomes of them.
    #[track_caller]
    fn becomes(lines: &str, expected: &str) {
        assert_eq!(load_parameters(&kernel(lines)), kernel(expected));
    }

    #[test]
    fn loads_at_known_distances() {
        becomes("\tld.b32 \t%r1, [%rd1+12];\n", "\tld.param.b32 \t%r1, [k_param_0+12];\n");
        becomes(
            "\tld.v2.b64 \t{%rd2, %rd3}, [%rd1];\n",
            "\tld.param.v2.b64 \t{%rd2, %rd3}, [k_param_0+0];\n",
        );
        becomes("\t@%p1 ld.b32 %r1, [%rd1+12];\n", "\t@%p1 ld.b32 %r1, [%rd1+12];\n");
    }

    #[test]
    fn nothing_is_read_in_place() {
        let text = read_at_start("\tld.b32 \t%r1, [%rd1+12];\n");
        assert_eq!(load_parameters(&text), text);
    }

    #[test]
    fn copies_and_sums() {
        let before = "\tadd.s64 \t%rd2, %rd1, 128;\n\tmov.b64 \t%rd3, %rd2;\n\t// %rd3\n";
        becomes(
            &format!("{before}\tld.b64 \t%rd4, [%rd3+-8];\n"),
            &format!("{before}\tld.param.b64 \t%rd4, [k_param_0+120];\n"),
        );
        let again = format!("{before}$L:\n\tadd.s64 \t%rd3, %rd1, 128;\n");
        becomes(
            &format!("{again}\tld.b64 \t%rd4, [%rd3];\n"),
            &format!("{again}\tld.param.b64 \t%rd4, [k_param_0+128];\n"),
        );
    }

    #[test]
    fn what_is_written_otherwise_too_is_left() {
        for other in [
            "\tadd.s64 \t%rd2, %rd1, 8;\n",
            "\tadd.s64 \t%rd2, %rd2, 4;\n",
            "\tselp.b64 \t%rd2, %rd1, %rd5, %p1;\n",
            "\t@%p1 mov.b64 \t%rd2, %rd1;\n",
            "\t{ .reg .b64 t; ld.global.v2.b64 {%rd5, %rd2}, [%rd6]; }\n",
            "\tmov.b64 \t{%rd2, %rd5}, %rd6;\n",
        ] {
            let lines = format!("\tadd.s64 \t%rd2, %rd1, 4;\n{other}\tld.b32 \t%r1, [%rd2];\n");
            becomes(&lines, &lines);
        }
    }

    #[test]
    fn other_loads_are_left() {
        for line in [
            "\tld.global.b32 \t%r1, [%rd1];\n",
            "\tld.volatile.b32 \t%r1, [%rd1];\n",
            "\tld.b32 \t%r1, [%rd9];\n",
        ] {
            becomes(line, line);
        }
        let text = ".visible .entry k(\n\t.param .b64 k_param_0\n)\n{\n\tld.b32 \t%r1, [%rd1];\n}";
        assert_eq!(load_parameters(text), text);
        let unknown = kernel("\tld.b32 \t%r1, [%rd1+12];\n\tfuture.b32 \t<%r1>;\n");
        assert_eq!(load_parameters(&unknown), unknown);
    }
}
