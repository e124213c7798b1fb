//! Lists the kernels of a file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use tilewright_emulator::{Kernel, Module};
use tilewright_ptx::ast::{Entry, Statement};

use crate::wrong::{Usage, Wrong, read_text};

/// The kernels of a file with what they take.
pub fn list(file: &Path, as_json: bool) -> Usage<String> {
    let text = read_text(file)?;
    let bad = |what: &dyn std::fmt::Display| Wrong(format!("{}: {what}", file.display()));
    let module = Module::load(&text).map_err(|error| bad(&error))?;
    let parsed = tilewright_ptx::parser::parse(&text).map_err(|error| bad(&error))?;
    let both = parsed.entries.iter().filter_map(|entry| Some((entry, module.kernel(&entry.name)?)));
    if as_json {
        let kernels: Vec<Value> = both.map(|(entry, kernel)| of_kernel(entry, &kernel)).collect();
        return Ok(format!(
            "{:#}\n",
            json!({ "file": file.display().to_string(), "target": parsed.target, "kernels": kernels })
        ));
    }
    let mut lines = String::new();
    for (entry, kernel) in both {
        // Writing to a string does not fail.
        let _ = write_kernel(&mut lines, &parsed.target, entry, &kernel);
    }
    Ok(lines)
}

/// The registers that the text declares, by type. How many a GPU's code has is ptxas's to say.
fn registers(entry: &Entry) -> BTreeMap<&str, u64> {
    let mut registers = BTreeMap::new();
    for statement in &entry.body {
        if let Statement::Registers { class, count, .. } = statement {
            let class = class.strip_prefix('.').unwrap_or(class);
            *registers.entry(class).or_insert(0) += u64::from(count.unwrap_or(1));
        }
    }
    registers
}

fn write_kernel(lines: &mut String, target: &str, entry: &Entry, kernel: &Kernel) -> std::fmt::Result {
    writeln!(lines, "{} ({target})", entry.name)?;
    for (number, parameter) in entry.parameters.iter().enumerate() {
        writeln!(lines, "  argument {number}     {} bytes, `{}`", parameter.bytes, parameter.name)?;
    }
    if let Some((threads, exactly)) = entry.threads {
        writeln!(
            lines,
            "  threads        {} {threads:?}",
            if exactly { "exactly" } else { "at most those of" }
        )?;
    }
    if let Some(cluster) = entry.cluster {
        writeln!(lines, "  cluster        exactly {cluster:?}")?;
    }
    let registers: Vec<String> =
        registers(entry).iter().map(|(class, count)| format!("{count} {class}")).collect();
    writeln!(lines, "  registers      {} declared", registers.join(", "))?;
    if let Some(registers) = entry.registers {
        writeln!(lines, "                 {registers} a thread at most")?;
    }
    writeln!(lines, "  shared memory  {} bytes, and what the launch adds", kernel.shared_bytes())?;
    writeln!(lines, "  local memory   {} bytes a thread", kernel.local_bytes())
}

fn of_kernel(entry: &Entry, kernel: &Kernel) -> Value {
    let parameters: Vec<Value> = entry
        .parameters
        .iter()
        .map(
            |parameter| json!({ "name": parameter.name, "bytes": parameter.bytes, "align": parameter.align }),
        )
        .collect();
    json!({
        "name": entry.name,
        "parameters": parameters,
        "threads": entry.threads.map(|(threads, exactly)| json!({ "extents": threads, "exactly": exactly })),
        "cluster": entry.cluster,
        "registers": registers(entry),
        "most_registers": entry.registers,
        "shared": kernel.shared_bytes(),
        "local": kernel.local_bytes(),
    })
}
