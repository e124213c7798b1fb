//! Loads through the generic address of a kernel's parameters, as loads of the parameters themselves.
//!
//! rustc knows the argument block by its generic address alone (`cvta.param`), so it loads arguments as if they lay
//! anywhere. From `ld.param` ptxas makes operands in the constant bank, without latency.
//!
//! Only where a kernel reads arguments in place, through pointers that an empty instruction hides: what is read once, at the
//! start, ptxas would read again where it is used and keep the addresses' parts in more registers, so that kernels at their last
//! register spilled (GEMM's 128 x 256).

use std::borrow::Cow;
use std::collections::HashMap;

/// What a register holds wherever it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    /// The generic address of the parameters' first byte.
    Parameters,
    /// Another register's value, and this much.
    Sum(&'a str, i64),
    /// Anything else.
    Other,
}

/// The kernel with loads at a known distance from its parameters' address as `ld.param`, if it reads any in place.
pub(crate) fn load_parameters(entry: &str) -> Cow<'_, str> {
    let in_place = entry.lines().any(|line| line.trim_start().starts_with("// %rd"));
    let Some((_, block)) = code(entry).find_map(address).filter(|_| in_place) else {
        return Cow::Borrowed(entry);
    };
    let values = values(entry);
    entry
        .split_inclusive('\n')
        .map(|line| load(line, block, &values).map_or(Cow::Borrowed(line), Cow::Owned))
        .collect::<String>()
        .into()
}

/// The lines without comments.
fn code(entry: &str) -> impl Iterator<Item = &str> {
    entry.lines().map(|line| line.split("//").next().unwrap_or("").trim()).filter(|line| !line.is_empty())
}

/// The register and the block of `mov.b64 %rd1, k_param_0; cvta.param.u64 %rd1, %rd1;`.
fn address(line: &str) -> Option<(&str, &str)> {
    let (load, convert) = line.split_once("; cvta.param.u64 ")?;
    let (register, block) = load.strip_prefix("mov.b64 ")?.split_once(", ")?;
    (convert == format!("{register}, {register};")).then_some((register, block))
}

/// Everything that is written into each register.
fn values(entry: &str) -> HashMap<&str, Vec<Value<'_>>> {
    let mut values: HashMap<&str, Vec<Value>> = HashMap::new();
    for line in code(entry) {
        if let Some((register, _)) = address(line) {
            values.entry(register).or_default().push(Value::Parameters);
            continue;
        }
        for instruction in line.split(';') {
            for register in written(instruction) {
                values.entry(register).or_default().push(value(instruction));
            }
        }
    }
    values
}

/// The registers that an instruction writes, and perhaps more: those of its first operand, and of a predicate.
fn written(instruction: &str) -> impl Iterator<Item = &str> {
    let begin = instruction.find('%').unwrap_or(instruction.len());
    let (before, operands) = instruction.split_at(begin);
    let vector = before.trim_end().ends_with('{');
    let end = if before.contains('[') { Some(0) } else { operands.find(if vector { '}' } else { ',' }) };
    operands[..end.unwrap_or(operands.len())]
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '%' | '_' | '$')))
        .filter(|word| word.starts_with('%'))
}

/// What an instruction writes.
fn value(instruction: &str) -> Value<'_> {
    let mut words = instruction.split_ascii_whitespace();
    let opcode = words.next().unwrap_or("");
    let operands: Vec<&str> = words.map(|word| word.trim_end_matches(',')).collect();
    match (opcode, &operands[..]) {
        ("mov.b64" | "mov.u64", &[_, from]) if from.starts_with('%') => Value::Sum(from, 0),
        ("add.s64", &[_, from, by]) if from.starts_with('%') => {
            by.parse().map_or(Value::Other, |by| Value::Sum(from, by))
        }
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

/// The line as `ld.param`, if it is a generic load from the parameters.
fn load(line: &str, block: &str, values: &HashMap<&str, Vec<Value>>) -> Option<String> {
    let rest = line.trim_start().strip_prefix("ld.")?;
    let kind = rest.split(['.', ' ', '\t']).next()?;
    let generic =
        matches!(kind, "v2" | "v4") || kind.trim_start_matches(['b', 'u', 's', 'f']).parse::<u32>().is_ok();
    let (before, place) = rest.split_once('[')?;
    let (place, after) = place.split_once(']')?;
    let (register, offset) = place.split_once('+').unwrap_or((place, "0"));
    let at = distance(register, values, 0)?.checked_add(offset.parse().ok()?)?;
    (generic && at >= 0).then(|| {
        let indent = &line[..line.len() - line.trim_start().len()];
        format!("{indent}ld.param.{before}[{block}+{at}]{after}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel of these lines after the one that declares its parameters' address, in `%rd1`, with a pointer read in place.
    fn kernel(lines: &str) -> String {
        read_at_start(&format!("\t// %rd9\n{lines}"))
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
    }
}
