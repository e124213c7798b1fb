//! The report for people.

use std::fmt::Write as _;

use tilewright_emulator::Launch;

use crate::compare::{Difference, Place};
use crate::run::{Plan, Run, order};

/// The report as text.
pub fn text(plan: &Plan, runs: &[Run]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, plan, runs);
    text
}

fn write(text: &mut String, plan: &Plan, runs: &[Run]) -> std::fmt::Result {
    let Launch { grid, threads, cluster, dynamic_shared } = plan.launch;
    write!(
        text,
        "{} of {} on {}: {grid:?} CTAs of {threads:?} threads",
        plan.kernel.name(),
        plan.file,
        plan.arch
    )?;
    if cluster != [1; 3] {
        write!(text, ", clusters of {cluster:?}")?;
    }
    if dynamic_shared > 0 {
        write!(text, ", {dynamic_shared} bytes of dynamic shared memory")?;
    }
    writeln!(text)?;
    for (i, run) in runs.iter().enumerate() {
        write!(text, "{}, {:.2} s: ", order(run.schedule), run.time.as_secs_f64())?;
        match (&run.outcome, run.is_well()) {
            (Err(fault), _) => {
                writeln!(text, "{}\n{fault}", fault.kind.name())?;
                // What an address that it names is of.
                for (name, from, to) in plan.places(run) {
                    writeln!(text, "  {name}: {from:#x} to {to:#x}")?;
                }
            }
            (Ok(_), true) => writeln!(text, "no fault")?,
            (Ok(_), false) => writeln!(text, "no fault, and results differ")?,
        }
        for difference in &run.differences {
            write_difference(text, difference)?;
        }
        // What those after the first print and count is hardly ever of interest.
        if i > 0 {
            continue;
        }
        for line in run.printed.lines() {
            writeln!(text, "  printed: {line}")?;
        }
        for found in &run.results {
            if let (Some(argument), Some(buffer)) =
                (plan.arguments.get(found.argument), plan.buffer(found.argument))
            {
                let shape: Vec<String> = buffer.shape.iter().map(u64::to_string).collect();
                let (name, element) = (&argument.name, buffer.element.name());
                writeln!(text, "  {name}: {element} {}, sha256 {}", shape.join("x"), found.digest)?;
            }
        }
        if let Ok(counters) = &run.outcome {
            write!(text, "{counters}")?;
        }
    }
    Ok(())
}

fn write_difference(text: &mut String, difference: &Difference) -> std::fmt::Result {
    let Difference { name, with, count, of, first, most } = difference;
    let place = |Place { index, found, expected }: &Place| format!("at {index}: {found}, not {expected}");
    writeln!(text, "  {name} differs from {with} in {count} of {of} elements")?;
    writeln!(text, "    first {}", place(first))?;
    writeln!(text, "    most {}", place(most))
}
