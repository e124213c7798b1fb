//! Compares the emulator with the GPU on everything, and on as many random programs as asked for.
//!
//! `tilewright-differential [PROGRAMS [FIRST_SEED [PART [PARTS]]]]`; several processes at a time each do a part. What the GPU
//! computed is added to the file that `TILEWRIGHT_RECORDING` names.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, ExitCode};

use rayon::prelude::*;
use tilewright_differential::case::{Agreement, Case, Group};
use tilewright_differential::compare::difference;
use tilewright_differential::fuzz::{self, Program, Vocabulary};
use tilewright_differential::gpu::Gpu;
use tilewright_differential::recording::Recording;
use tilewright_differential::{all, emulated};

/// Programs that are made smaller; each costs some hundred compilations.
const SHRUNK: usize = 8;

fn main() -> ExitCode {
    match compare_all() {
        Ok((wrong, compared)) => {
            println!("{wrong} of {compared} differ");
            if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// How many differ, of how many.
fn compare_all() -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let mut numbers = [200u64, 0, 0, 1, 0];
    for (number, argument) in numbers.iter_mut().zip(std::env::args().skip(1)) {
        *number = argument.parse()?;
    }
    // The last is for processes that go on where one was lost: cases to leave out.
    let [programs, first, part, parts, done] = numbers;
    let gpu = Gpu::open()?;
    let vocabulary = Vocabulary::default();
    let seeds: Vec<_> = (first..first + programs).collect();
    let groups: Vec<_> = all().into_iter().chain(fuzz::groups(&vocabulary, &seeds)).collect();
    let mine = groups.into_iter().enumerate().filter(|(at, _)| *at as u64 % parts == part);
    let mut groups: Vec<_> = mine.map(|(_, group)| group).collect();
    leave_out(&mut groups, done as usize);
    let ours: Vec<_> = groups.par_iter().map(emulated::run).collect();
    let (mut wrong, mut compared, mut shrunk, mut recording) = (0, 0, 0, Recording::default());
    for (group, ours) in groups.iter().zip(ours) {
        for ((case, ours), theirs) in group.cases.iter().zip(ours).zip(gpu.run(group)) {
            compared += 1;
            let kept =
                case.agreement == Agreement::Exact && seed_of(case).is_none_or(|seed| seed < fuzz::KEPT);
            if let Ok(theirs) = &theirs
                && kept
            {
                recording.add(case, theirs);
            }
            let report = match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => difference(case, &ours, &theirs),
                (ours, theirs) => {
                    Some(format!("{}: emulator {:?}, GPU {:?}", case.name, ours.err(), theirs.err()))
                }
            };
            let Some(report) = report else { continue };
            println!("{report}");
            wrong += 1;
            if gpu.is_lost() {
                println!("{wrong} of {compared} differ in this process");
                keep(&recording)?;
                let arguments =
                    [programs, first, part, parts, done + compared as u64].map(|number| number.to_string());
                Command::new(std::env::current_exe()?).args(arguments).status()?;
                return Ok((wrong, compared));
            }
            if let Some(seed) = seed_of(case)
                && shrunk < SHRUNK
            {
                shrunk += 1;
                show_smallest(&gpu, &Program::new(&vocabulary, seed));
            }
        }
    }
    keep(&recording)?;
    Ok((wrong, compared))
}

/// The seed of a random program.
fn seed_of(case: &Case) -> Option<u64> {
    case.name.strip_prefix("program ")?.parse().ok()
}

/// Adds to the file of results.
fn keep(recording: &Recording) -> std::io::Result<()> {
    let Some(path) = std::env::var_os("TILEWRIGHT_RECORDING") else { return Ok(()) };
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(recording.lines().as_bytes())
}

/// Leaves out the first cases.
fn leave_out(groups: &mut Vec<Group>, mut count: usize) {
    groups.retain_mut(|group| {
        let gone = count.min(group.cases.len());
        group.cases.drain(..gone);
        count -= gone;
        !group.cases.is_empty()
    });
}

fn show_smallest(gpu: &Gpu, program: &Program) {
    let difference_of = |program: &Program| {
        let group = fuzz::group(std::slice::from_ref(program));
        match (emulated::run(&group).pop()?, gpu.run(&group).pop()?) {
            (Ok(ours), Ok(theirs)) => difference(&group.cases[0], &ours, &theirs),
            _ => None,
        }
    };
    let smallest = fuzz::shrink(program, |program| difference_of(program).is_some());
    println!("  smallest: {}", smallest.text().replace('\n', " "));
    println!("  {}", difference_of(&smallest).unwrap_or_default());
}
