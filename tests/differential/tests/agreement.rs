//! The emulator gives what an H200 gave, and what the GPU gives that is there.

use std::collections::HashSet;
use std::process::ExitCode;

use rayon::prelude::*;
use tilewright::{Arch, Device};
use tilewright_differential::case::{Agreement, Group};
use tilewright_differential::compare::difference;
use tilewright_differential::fuzz::{self, KEPT, Vocabulary};
use tilewright_differential::gpu::Gpu;
use tilewright_differential::recording::Recording;
use tilewright_differential::{all, emulated};
use tilewright_emulator::Schedule;
use tilewright_support::suite::{Outcome, Suite};

fn main() -> ExitCode {
    Suite::new()
        .test("instructions and kernels agree with what an H200 gave", || recorded(&all()))
        .test("random programs agree with what an H200 gave", || recorded(&programs()))
        .test("random programs have one result, whatever runs first", ordered)
        .test("what is approximate is the same each time", repeated)
        .gpu(Arch::Sm90a, "instructions and kernels agree with the GPU", |device| compared(device, &all()))
        .gpu(Arch::Sm90a, "random programs agree with the GPU", |device| compared(device, &programs()))
        .main()
}

/// The random programs that are recorded: of the instructions that were emulated then.
fn programs() -> Vec<Group> {
    let recording = Recording::of_h200();
    let cases = all().into_iter().flat_map(|group| group.cases);
    let known: HashSet<_> = cases.filter(|case| recording.has(case)).map(|case| case.name).collect();
    let vocabulary = Vocabulary::default().only(|name| known.contains(name));
    fuzz::groups(&vocabulary, &(0..KEPT).collect::<Vec<_>>())
}

fn recorded(groups: &[Group]) -> Outcome {
    let recording = Recording::of_h200();
    let results: Vec<_> = groups.par_iter().map(emulated::run).collect();
    let (mut wrong, mut agreeing) = (Vec::new(), 0);
    for (case, result) in
        groups.iter().zip(results).flat_map(|(group, results)| group.cases.iter().zip(results))
    {
        match result {
            Err(reason) => wrong.push(format!("{}: {reason}", case.name)),
            Ok(result) => match recording.agrees(case, &result) {
                Some(true) => agreeing += 1,
                Some(false) => wrong.push(format!("{}: another result than an H200's", case.name)),
                // Of what has been added since.
                None => {}
            },
        }
    }
    println!("{agreeing} agree with the recording");
    match wrong.is_empty() {
        true if agreeing < KEPT => Err("the recording is of other cases: it must be made anew".into()),
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}

fn repeated() -> Outcome {
    let mut groups = all();
    groups.retain(|group| group.cases.iter().any(|case| case.agreement != Agreement::Exact));
    let run = || groups.par_iter().map(emulated::run).collect::<Vec<_>>();
    assert!(!groups.is_empty() && run() == run());
    Ok(())
}

fn ordered() -> Outcome {
    let groups = programs();
    let run = |schedule| {
        let outcomes = groups.par_iter().flat_map(|group| emulated::run_in(group, schedule));
        outcomes.collect::<Result<Vec<_>, _>>()
    };
    let results = run(Schedule::Fixed)?;
    for seed in 0..2 {
        let cases = groups.iter().flat_map(|group| &group.cases);
        for ((case, ours), other) in cases.zip(&results).zip(run(Schedule::Random(seed))?) {
            if let Some(difference) = difference(case, &other, ours) {
                return Err(format!("in the order of seed {seed}: {difference}\n{}", case.text).into());
            }
        }
    }
    Ok(())
}

fn compared(_: &Device, groups: &[Group]) -> Outcome {
    let gpu = Gpu::open()?;
    let ours: Vec<_> = groups.par_iter().map(emulated::run).collect();
    let mut wrong = Vec::new();
    for (group, ours) in groups.iter().zip(ours) {
        for ((case, ours), theirs) in group.cases.iter().zip(ours).zip(gpu.run(group)) {
            match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => wrong.extend(difference(case, &ours, &theirs)),
                (ours, theirs) => {
                    let [ours, theirs] = [ours.err(), theirs.err()];
                    wrong.push(format!("{}: emulator {ours:?}, GPU {theirs:?}", case.name));
                }
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
