//! The report for programs.

use serde_json::{Value, json};
use tilewright_emulator::{Fault, Launch, Schedule};

use super::counters::counters;
use crate::compare::{Difference, Place};
use crate::element::Number;
use crate::run::{Plan, Run};

/// The report as JSON.
pub fn json(plan: &Plan, runs: &[Run]) -> String {
    let Launch { grid, threads, cluster, dynamic_shared } = plan.launch;
    let report = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "file": plan.file,
        "kernel": plan.kernel.name(),
        "arch": plan.arch.to_string(),
        "grid": grid,
        "block": threads,
        "cluster": cluster,
        "shared": dynamic_shared,
        "ok": runs.iter().all(Run::is_well),
        "runs": runs.iter().map(|run| of_run(plan, run)).collect::<Vec<_>>(),
    });
    format!("{report:#}\n")
}

fn of_run(plan: &Plan, run: &Run) -> Value {
    let results = run.results.iter().filter_map(|found| {
        let (argument, buffer) = (plan.arguments.get(found.argument)?, plan.buffer(found.argument)?);
        Some(json!({
            "name": argument.name,
            "type": buffer.element.name(),
            "shape": buffer.shape,
            "sha256": found.digest,
        }))
    });
    json!({
        "schedule": match run.schedule {
            Schedule::Fixed => json!("fixed"),
            Schedule::Random(seed) => json!(seed),
        },
        "ok": run.is_well(),
        "seconds": run.time.as_secs_f64(),
        "fault": run.outcome.as_ref().err().map(fault),
        "buffers": plan.places(run).map(|(name, from, to)| json!({ "name": name, "from": from, "to": to })).collect::<Vec<_>>(),
        "differences": run.differences.iter().map(difference).collect::<Vec<_>>(),
        "results": results.collect::<Vec<_>>(),
        "printed": run.printed,
        "counters": run.outcome.as_ref().ok().map(counters),
    })
}

fn fault(fault: &Fault) -> Value {
    let Fault { kernel, cta, thread, line, instruction, source, kind, what } = fault;
    let source: Vec<Value> =
        source.iter().map(|source| json!({ "file": source.file, "line": source.line })).collect();
    json!({
        "kind": kind.name(),
        "message": what,
        "kernel": kernel,
        "cta": cta,
        "thread": thread,
        "ptx_line": line,
        "instruction": instruction,
        "source": source,
    })
}

fn difference(difference: &Difference) -> Value {
    let Difference { name, with, count, of, first, most } = difference;
    let place = |place: &Place| {
        json!({
            "index": place.index,
            "found": number(place.found),
            "expected": number(place.expected),
        })
    };
    json!({
        "name": name,
        "with": with,
        "count": count,
        "of": of,
        "first": place(first),
        "most": place(most),
    })
}

/// A number; as text what JSON has no number for.
fn number(number: Number) -> Value {
    match number {
        Number::Integer(value) => u64::try_from(value)
            .map(Value::from)
            .or_else(|_| i64::try_from(value).map(Value::from))
            .unwrap_or_else(|_| value.to_string().into()),
        Number::Float(value) if value.is_finite() => value.into(),
        Number::Float(value) => value.to_string().into(),
    }
}
